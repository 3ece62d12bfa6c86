//! Elsa Studio, the unmodified npm package, in headless Chromium: each flow that its users know, on a real node.
//!
//! The browser is Debian's `chromium` (or `MAINSPRING_TEST_BROWSER`); the package is in the folder `MAINSPRING_TEST_STUDIO`, or
//! where `mainspring studio install` puts it. `scripts/test` installs both. Screenshots are in `target/studio`.

mod cluster;
mod composition;
mod definitions;
mod editor;
mod host_page;
mod instances;
mod placeholders;
mod round_trip;
mod sign_in;
mod state_machine;
mod viewer;
mod web;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::browser::{self, Browser, Page, by_text};
use crate::support::single_node::{KEY, SingleNode};
use crate::support::{Http, TIMEOUT, poll_until};

/// The entries of the open menu.
const ENTRIES: &str =
    ".mud-popover-open .mud-menu-item, .mud-popover-open .mud-list-item, .mud-popover-open .mud-list-item-extended";

/// The buttons of the editor that publish and run.
pub(crate) const PUBLISH: &str = "document.querySelector('.mud-toolbar button.mud-primary-text')";
pub(crate) const RUN: &str = "document.querySelector('.mud-toolbar button.mud-success-text')";

const DIALOG_IS_OPEN: &str = "document.getElementById('ms-sign-in').open";

/// Who is signed in.
const NAME: &str = "document.getElementById('ms-user-name').textContent";

/// The password of all users.
const PASSWORD: &str = "correct horse";

/// The user of most flows.
const ADMINISTRATOR: &str = "grace";

/// The settings of a node that offers Studio.
pub(crate) fn settings() -> Vec<String> {
    let named = std::env::var("MAINSPRING_TEST_STUDIO")
        .ok()
        .filter(|name| !name.is_empty());
    let mut settings = vec!["--check-in".to_owned(), "200ms".to_owned()];
    if let Some(folder) = named {
        settings.extend(["--studio".to_owned(), folder]);
    }
    settings
}

/// A page of Studio, signed in at one node or at a proxy before several.
pub(crate) struct Studio {
    pub(crate) page: Page,
    pub(crate) http: Http,
    base: String,
    files: PathBuf,
    browser: Browser,
}

impl Studio {
    /// Opens a path at an address, which asks who one is.
    pub(crate) async fn open(base: &str, name: &str, path: &str) -> Self {
        let program = browser::program().expect("a browser: `apt-get install chromium`, or MAINSPRING_TEST_BROWSER");
        let browser = Browser::start(&program).await;
        let files = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../studio").join(name);
        std::fs::create_dir_all(&files).unwrap();
        // The browser saves nothing by a path with `..`.
        let files = files.canonicalize().unwrap();
        let page = browser.page(&files).await;
        let studio = Self {
            page,
            http: Http::new(base).with_key(KEY),
            base: base.trim_end_matches('/').to_owned(),
            files,
            browser,
        };
        studio.page.goto(&format!("{}/{path}", studio.base)).await;
        studio
    }

    /// The same, signed in as a user with a password.
    async fn open_as_administrator(base: &str, name: &str, path: &str) -> Self {
        let http = Http::new(base).with_key(KEY);
        // Studio is opened several times on some nodes.
        if http.get("identity/users").await.expect(200)["users"] == json!([]) {
            add_user(&http, ADMINISTRATOR, "admin").await;
        }
        let studio = Self::open(base, name, path).await;
        studio.enter_password(Some(ADMINISTRATOR), PASSWORD).await;
        studio.page.wait(&format!("{NAME} === '{ADMINISTRATOR}'")).await;
        studio
    }

    /// The same at a page of Studio.
    pub(crate) async fn signed_in_at(base: &str, name: &str, path: &str) -> Self {
        Self::open_as_administrator(base, name, &format!("studio/{path}")).await
    }

    /// The same at the list of definitions.
    pub(crate) async fn signed_in(base: &str, name: &str) -> Self {
        let studio = Self::open_as_administrator(base, name, "").await;
        // The list has its rows, or says that there are none.
        studio.page.wait("document.querySelector('.ms-page tbody tr')").await;
        studio
    }

    /// Enters a name, unless it is that of the session, and a password.
    pub(crate) async fn enter_password(&self, name: Option<&str>, password: &str) {
        self.page.wait(DIALOG_IS_OPEN).await;
        if let Some(name) = name {
            self.page.fill("document.getElementById('ms-name')", name).await;
        }
        self.page.fill("document.getElementById('ms-password')", password).await;
        self.page.click_text("#ms-password-form button", "Sign in").await;
    }

    /// Enters a key.
    pub(crate) async fn sign_in(&self, key: &str) {
        let shown = self.page.wait("document.getElementById('ms-sign-in')?.open").await;
        // It says so if no Studio is installed.
        assert_eq!(shown, json!(true));
        // A server with users asks for their passwords first.
        let asks = "!document.getElementById('ms-key-form').hidden";
        if self.page.eval(asks).await == json!(false) {
            self.page.click_until("document.getElementById('ms-other')", asks).await;
        }
        self.page.fill("document.getElementById('ms-key')", key).await;
        self.page.click_text("#ms-key-form button", "Sign in").await;
    }

    /// The page at an address with this part, which this one has opened.
    pub(crate) async fn opened(&self, part: &str) -> Page {
        self.browser.opened(part, &self.files).await
    }

    /// Opens a page of Studio anew.
    pub(crate) async fn goto(&self, path: &str) {
        self.page.goto(&format!("{}/studio/{path}", self.base)).await;
    }

    /// Opens a page of Studio without a reload.
    pub(crate) async fn open_page(&self, path: &str) {
        self.page.wait_until_answered().await;
        let open = format!(
            "history.pushState(null, '', new URL({}, document.baseURI))",
            json!(path)
        );
        self.page.eval(&open).await;
    }

    /// Follows a link of the navigation.
    pub(crate) async fn follow(&self, title: &str) {
        self.page.click_text(".ms-nav a", title).await;
    }

    /// Waits until no response has come for a moment: a list that is read anew closes the menus of its rows.
    async fn wait_until_quiet(&self) {
        let mut seen = usize::MAX;
        while seen != self.page.responses().len() {
            seen = self.page.responses().len();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }

    /// Opens the menu of a row, given by the text of one of its cells, and chooses an entry; whether a click reached it.
    async fn try_row_menu(&self, cell: &str, entry: &str) -> bool {
        let button = format!("[...({})?.querySelectorAll('button') ?? []].pop()", row(cell));
        self.wait_until_quiet().await;
        self.page.click(&button).await;
        self.page.try_click(&by_text(ENTRIES, entry)).await
    }

    /// Opens the menu of a row, and chooses an entry that changes nothing.
    pub(crate) async fn row_view(&self, cell: &str, entry: &str) {
        // A list that is read anew closes the menu.
        for _ in 0..8 {
            if self.try_row_menu(cell, entry).await {
                return;
            }
        }
        panic!("the menu of the row {cell} offers no {entry}");
    }

    /// Opens the menu of a row, and chooses an entry that changes something or opens a dialogue.
    pub(crate) async fn row_menu(&self, cell: &str, entry: &str) {
        for _ in 0..8 {
            let changes = self.page.changes();
            if self.try_row_menu(cell, entry).await && self.has_acted(changes).await {
                return;
            }
        }
        panic!("the menu of the row {cell} offers no {entry}, or it does nothing");
    }

    /// Whether an entry that was chosen opens a dialogue, or sends a request that changes something.
    async fn has_acted(&self, changes: u64) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            let opened = self.page.eval("!!document.querySelector('.mud-dialog')").await;
            if self.page.changes() > changes || opened == json!(true) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Ticks the box of a row.
    pub(crate) async fn tick(&self, cell: &str) {
        self.page
            .click(&format!("({})?.querySelector('label')", row(cell)))
            .await;
    }

    /// Chooses an entry of the open menu.
    pub(crate) async fn choose(&self, entry: &str) {
        self.page.click_text(ENTRIES, entry).await;
    }

    /// Clicks a button of the open dialogue.
    pub(crate) async fn confirm(&self, button: &str) {
        self.page.click_text(".mud-dialog button", button).await;
        self.page.wait("!document.querySelector('.mud-dialog')").await;
    }

    /// Clicks a button.
    pub(crate) async fn button(&self, text: &str) {
        self.page.click_text("button", text).await;
    }

    /// Chooses a tab.
    pub(crate) async fn tab(&self, text: &str) {
        self.page.click_text(".mud-tab", text).await;
    }

    /// Fills a labelled field, and leaves it. What Studio itself still writes into a new form is written over.
    pub(crate) async fn fill(&self, label: &str, text: &str) {
        let frames = "await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);";
        let stays = format!(
            "(async () => {{ {frames} {frames} return ({})?.value === {}; }})()",
            field(label),
            json!(text)
        );
        for _ in 0..5 {
            self.page.fill(&field(label), text).await;
            self.page.key("Tab", 9, 0).await;
            if self.page.eval(&stays).await == json!(true) {
                return;
            }
        }
        panic!("the field {label} does not keep {text}");
    }

    /// Waits for a row with this cell.
    pub(crate) async fn wait_for_row(&self, cell: &str) {
        self.page.wait(&row(cell)).await;
    }

    /// Waits until no row has this cell.
    pub(crate) async fn wait_until_no_row(&self, cell: &str) {
        self.page.wait(&format!("!({})", row(cell))).await;
    }

    /// The cells of a column, numbered from 0.
    pub(crate) async fn column(&self, number: usize) -> Vec<String> {
        let script =
            format!("[...document.querySelectorAll('tbody tr')].map(r => r.cells[{number}]?.innerText.trim())");
        let cells = self.page.eval(&script).await;
        cells
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits until a column, numbered from 0, has exactly these cells.
    pub(crate) async fn wait_for_column(&self, number: usize, cells: &[&str]) {
        poll_until(TIMEOUT, &format!("the cells {cells:?}"), async || {
            (self.column(number).await == cells).then_some(())
        })
        .await;
    }

    /// Keeps a picture.
    pub(crate) async fn screenshot(&self, name: &str) {
        self.page.screenshot(name).await;
    }

    /// The content of the file that the page has saved under a name with this ending, and that was not there before.
    pub(crate) async fn downloaded(&self, ending: &str) -> Vec<u8> {
        let folder = self.files.join("downloads");
        poll_until(TIMEOUT, &format!("a file {ending}"), async || {
            let mut files = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
            let file = files.find(|path| path.to_string_lossy().ends_with(ending))?;
            let content = std::fs::read(&file).ok()?;
            std::fs::remove_file(file).ok()?;
            Some(content)
        })
        .await
    }

    /// Lets the page save files.
    pub(crate) async fn save_downloads(&self) {
        let folder = self.files.join("downloads");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        self.page.save_downloads(&folder).await;
    }

    /// Writes a file to be given to the page.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.files.join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    /// Waits until the API shows a value that passes; keeps a picture if it does not.
    pub(crate) async fn wait_for_api(&self, path: &str, what: &str, mut passes: impl FnMut(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.http.get(path).await;
            if answer.status == 200 && passes(&answer.body) {
                return answer.body;
            }
            if began.elapsed() > TIMEOUT {
                self.screenshot("failed").await;
                panic!("waited in vain for {what}: {}", answer.body);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The console has no error, and Blazor has not stopped.
    pub(crate) async fn assert_no_errors(&self) {
        let mut console = self.page.console();
        // Studio reads a canvas once more after it left the page.
        console.retain(|error| !error.contains("graphBindings[graphId]"));
        assert!(console.is_empty(), "{}", console.join("\n"));
        let stopped = "getComputedStyle(document.querySelector('#blazor-error-ui')).display !== 'none'";
        assert_eq!(self.page.eval(stopped).await, json!(false));
    }
}

/// The row of a table that has a cell with exactly this text.
pub(crate) fn row(cell: &str) -> String {
    let cell = json!(cell);
    format!(
        "[...document.querySelectorAll('tbody tr')].find(r => [...r.cells].some(c => c.innerText.trim() === {cell}))"
    )
}

/// The visible field with this label.
pub(crate) fn field(label: &str) -> String {
    let label = json!(label);
    format!(
        "[...document.querySelectorAll('.mud-input-control')].find(c => c.querySelector('label')?.textContent.trim().replace('*', '') === {label}
            && c.getBoundingClientRect().width && c.querySelector('input:not([type=hidden]), textarea, .mud-select-input-extended, .mud-select-input'))
            ?.querySelector('input:not([type=hidden]), textarea, div.mud-select-input-extended, div.mud-select-input')"
    )
}

/// Adds a user with a role; its id.
pub(crate) async fn add_user(http: &Http, name: &str, role: &str) -> String {
    let user = json!({"name": name, "password": PASSWORD, "roles": [role]});
    let added = http.post("identity/users", &user).await.expect(200);
    added["id"].as_str().unwrap().to_owned()
}

/// A node that offers Studio, with these definitions published.
pub(crate) async fn node(definitions: &[Value]) -> SingleNode {
    node_with(&[], definitions).await
}

/// The same with further settings.
pub(crate) async fn node_with(more: &[&str], definitions: &[Value]) -> SingleNode {
    let settings = settings();
    let settings: Vec<&str> = settings
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    let node = SingleNode::with_key(&settings).await;
    for definition in definitions {
        node.http.publish(definition).await;
    }
    node
}

/// A definition with one activity on a flowchart.
pub(crate) fn on_flowchart(id: &str, name: &str, activity: Value) -> Value {
    json!({"definitionId": id, "name": name, "root": {"id": "flow", "type": "Elsa.Flowchart", "activities": [activity], "connections": []}})
}

/// A line of text.
pub(crate) fn line(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "name": id, "metadata": {"designer": {"position": {"x": 100, "y": 100}}},
        "text": {"typeName": "String", "expression": {"type": "Literal", "value": text}}})
}

/// A wait for an event.
pub(crate) fn event(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "name": id, "metadata": {"designer": {"position": {"x": 100, "y": 100}}},
        "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": name}}})
}

/// The node of the canvas that shows this name.
pub(crate) fn on_canvas(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('.x6-node')].find(n => n.textContent.includes({}))?.querySelector('foreignObject')",
        json!(name)
    )
}

/// Selects an activity on the canvas, and waits for a field of its properties.
pub(crate) async fn select(studio: &Studio, name: &str, label: &str) {
    studio.page.click_until(&on_canvas(name), &field(label)).await;
}

/// Opens a category of the toolbox.
pub(crate) async fn open_category(studio: &Studio, name: &str) {
    studio
        .page
        .click(&by_text(".mud-expand-panel .mud-expand-panel-header", name))
        .await;
    studio
        .page
        .wait("[...document.querySelectorAll('[draggable=true]')].some(e => e.getBoundingClientRect().height)")
        .await;
}

/// Drags an activity from the toolbox to a place of the canvas, in parts of its size.
pub(crate) async fn drop_activity(studio: &Studio, name: &str, (x, y): (f64, f64)) {
    let item = by_text("[draggable=true]", name);
    let from = studio.page.position(&item).await;
    let rect = studio.page.eval("(() => { const r = document.querySelector('.x6-graph').getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()").await;
    let part = |n: usize| rect[n].as_f64().unwrap();
    studio
        .page
        .drag(from, (part(0) + part(2) * x, part(1) + part(3) * y))
        .await;
}

/// How many saves of definitions were answered with this status.
pub(crate) fn saves_answered(studio: &Studio, status: u64) -> usize {
    let responses = studio.page.responses();
    let saves = responses
        .iter()
        .filter(|(_, url)| url.ends_with("/workflow-definitions"));
    saves.filter(|(answered, _)| *answered == status).count()
}

/// Moves an activity on the canvas, and waits until that is saved.
pub(crate) async fn move_activity(studio: &Studio, element: &str) {
    let rect = format!(
        "(() => {{ const r = ({element})?.getBoundingClientRect(); return r?.width && [r.x, r.y, r.width, r.height] }})()"
    );
    for _ in 0..6 {
        // Rests.
        studio.page.position(element).await;
        let rect = studio.page.wait(&rect).await;
        let part = |n: usize| rect[n].as_f64().unwrap();
        let from = (part(0) + part(2) * 0.3, part(1) + part(3) * 0.2);
        let before = saves_answered(studio, 200);
        studio.page.drag(from, (from.0 + 30.0, from.1 + 60.0)).await;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if saves_answered(studio, 200) > before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
    studio.screenshot("failed").await;
    panic!(
        "the canvas does not let {element} be moved: {:?}",
        studio.page.console()
    );
}

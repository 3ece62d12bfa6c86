//! Headless Chromium, driven over the DevTools protocol.
//!
//! A page is asked by JavaScript and driven by real mouse and key events. What its console reports, and each response of the
//! API, is kept, so that a test can say that there was no error.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::poll_until;

/// How long one step of a page may take on a busy machine.
const STEP: Duration = Duration::from_secs(45);
/// How often an element is clicked that does not react.
const CLICKS: u32 = 8;
/// How long one command of the protocol may take.
const COMMAND: Duration = Duration::from_secs(60);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The browsers that run at once: each needs a processor of its own while it starts Studio, and its steps have a time limit.
static BROWSERS: Semaphore = Semaphore::const_new(2);

/// A browser process, which ends with this value.
pub(crate) struct Browser {
    _permit: SemaphorePermit<'static>,
    _process: Child,
    shared: Arc<Shared>,
    profile: PathBuf,
}

struct Shared {
    sink: tokio::sync::Mutex<SplitSink<Socket, Message>>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    pages: Mutex<HashMap<String, Arc<Events>>>,
}

/// What a page has reported.
#[derive(Default)]
struct Events {
    console: Mutex<Vec<String>>,
    responses: Mutex<Vec<(u64, String)>>,
    /// Requests that change something.
    changes: AtomicU64,
    /// The ids of requests to the API that are not over.
    open: Mutex<HashSet<String>>,
}

/// One page of a browser.
pub(crate) struct Page {
    shared: Arc<Shared>,
    session: String,
    events: Arc<Events>,
    screenshots: PathBuf,
}

/// The program, if there is one: `MAINSPRING_TEST_BROWSER`, or Chromium in the path.
pub(crate) fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MAINSPRING_TEST_BROWSER").filter(|name| !name.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
}

impl Browser {
    /// Starts the program with a profile of its own.
    pub(crate) async fn start(program: &Path) -> Self {
        let permit = BROWSERS.acquire().await.unwrap();
        let profile = std::env::temp_dir().join(format!("mainspring-browser-{}", uuid::Uuid::new_v4()));
        let mut process = Command::new(program)
            .args([
                "--headless=new",
                // The tests run as any user, in a container, too.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-extensions",
                "--no-first-run",
                "--lang=en-US",
                "--window-size=2700,1400",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let url = tokio::time::timeout(STEP, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(url) = line.strip_prefix("DevTools listening on ") {
                    return url.to_owned();
                }
                said.push(line);
            }
            panic!("the browser has ended: {}", said.join("\n"));
        });
        let url = url.await.expect("the address of the browser");
        // Its log must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let (sink, mut stream) = socket.split();
        let shared = Arc::new(Shared {
            sink: tokio::sync::Mutex::new(sink),
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            pages: Mutex::default(),
        });
        let reader = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    reader.receive(serde_json::from_str(&text).unwrap());
                }
            }
        });
        Self {
            _permit: permit,
            _process: process,
            shared,
            profile,
        }
    }

    /// A page that shares cookies and caches with the others.
    pub(crate) async fn page(&self, screenshots: &Path) -> Page {
        let target = self
            .shared
            .command("", "Target.createTarget", json!({"url": "about:blank"}))
            .await;
        self.attach(target["targetId"].as_str().unwrap(), screenshots).await
    }

    /// The page at an address with this part, which another page has opened.
    pub(crate) async fn opened(&self, part: &str, screenshots: &Path) -> Page {
        let target = poll_until(STEP, &format!("a page at {part}"), async || {
            let targets = self.shared.command("", "Target.getTargets", json!({})).await;
            let mut pages = targets["targetInfos"].as_array()?.iter();
            let page = pages.find(|page| page["url"].as_str().is_some_and(|url| url.contains(part)))?;
            Some(page["targetId"].as_str()?.to_owned())
        })
        .await;
        self.attach(&target, screenshots).await
    }

    async fn attach(&self, target: &str, screenshots: &Path) -> Page {
        let attach = json!({"targetId": target, "flatten": true});
        let session = self.shared.command("", "Target.attachToTarget", attach).await["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let events = Arc::<Events>::default();
        let pages = &self.shared.pages;
        pages.lock().unwrap().insert(session.clone(), Arc::clone(&events));
        let page = Page {
            shared: Arc::clone(&self.shared),
            session,
            events,
            screenshots: screenshots.to_owned(),
        };
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
            page.command(&format!("{domain}.enable"), json!({})).await;
        }
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self._process.start_kill();
        // Some of its processes may still write.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

impl Shared {
    async fn try_command(&self, session: &str, method: &str, parameters: Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let sent = self.sink.lock().await.send(Message::text(message.to_string())).await;
        sent.map_err(|error| error.to_string())?;
        match tokio::time::timeout(COMMAND, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the browser has ended".to_owned()),
            Err(_) => Err("no answer of the browser".to_owned()),
        }
    }

    async fn command(&self, session: &str, method: &str, parameters: Value) -> Value {
        let answer = self.try_command(session, method, parameters).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn receive(&self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let Some(sender) = self.waiting.lock().unwrap().remove(&id) else {
                return;
            };
            let error = message.get("error").map(Value::to_string);
            let _ = sender.send(error.map_or_else(|| Ok(message["result"].clone()), Err));
            return;
        }
        let session = message["sessionId"].as_str().unwrap_or_default();
        let Some(events) = self.pages.lock().unwrap().get(session).cloned() else {
            return;
        };
        events.receive(message["method"].as_str().unwrap_or_default(), &message["params"]);
    }
}

impl Events {
    fn receive(&self, method: &str, parameters: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match method {
            "Runtime.consoleAPICalled" if ["error", "assert"].contains(&text(&parameters["type"]).as_str()) => {
                let arguments = parameters["args"].as_array().cloned().unwrap_or_default();
                let words = arguments.iter().map(|argument| match &argument["value"] {
                    Value::Null => text(&argument["description"]),
                    Value::String(word) => word.clone(),
                    other => other.to_string(),
                });
                self.complain(words.collect::<Vec<_>>().join(" "));
            }
            "Runtime.exceptionThrown" => {
                let details = &parameters["exceptionDetails"];
                self.complain(format!("{} {details}", text(&details["exception"]["description"])));
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                let entry = &parameters["entry"];
                self.complain(format!("{} {}", text(&entry["text"]), text(&entry["url"])));
            }
            "Network.requestWillBeSent" => {
                let request = &parameters["request"];
                if !["GET", "OPTIONS"].contains(&text(&request["method"]).as_str()) {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                }
                if text(&request["url"]).contains("/elsa/api/") {
                    self.open.lock().unwrap().insert(text(&parameters["requestId"]));
                }
            }
            "Network.loadingFinished" | "Network.loadingFailed" => {
                self.open.lock().unwrap().remove(&text(&parameters["requestId"]));
            }
            "Network.responseReceived" => {
                let response = &parameters["response"];
                let status = response["status"].as_u64().unwrap_or_default();
                self.responses.lock().unwrap().push((status, text(&response["url"])));
            }
            _ => {}
        }
    }

    fn complain(&self, text: String) {
        self.console.lock().unwrap().push(text.chars().take(800).collect());
    }
}

/// A script that gives the middle of an element, or null while it is not there or moves.
fn position_script(element: &str) -> String {
    format!(
        "(async () => {{
            const moves = e => document.getAnimations().some(a => a.playState === 'running' && a.effect?.target?.contains(e)
                && a.effect.getComputedTiming().iterations !== Infinity);
            const find = () => {{ const e = {element}; e?.scrollIntoView({{block: 'nearest', inline: 'nearest'}}); const r = e?.getBoundingClientRect();
                return r && r.width && !moves(e) ? [r.x + r.width / 2, r.y + r.height / 2] : null }};
            const first = find();
            await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
            const second = find();
            return first && second && first[0] === second[0] && first[1] === second[1] ? second : null;
        }})()"
    )
}

impl Page {
    async fn command(&self, method: &str, parameters: Value) -> Value {
        self.shared.command(&self.session, method, parameters).await
    }

    /// Opens an address.
    pub(crate) async fn goto(&self, url: &str) {
        let opened = self.command("Page.navigate", json!({"url": url})).await;
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    async fn try_eval(&self, script: &str) -> Result<Value, String> {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true,
            // Without it no page opens a window.
            "userGesture": true});
        let answer = self
            .shared
            .try_command(&self.session, "Runtime.evaluate", parameters)
            .await?;
        match answer.get("exceptionDetails") {
            Some(exception) => Err(exception.to_string()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// The value of an expression in the page.
    pub(crate) async fn eval(&self, script: &str) -> Value {
        let value = self.try_eval(script).await;
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until an expression is true, and returns its value. An error in it counts as not yet.
    pub(crate) async fn wait(&self, script: &str) -> Value {
        if let Some(value) = self.wait_for(script, STEP).await {
            return value;
        }
        self.screenshot("failed").await;
        let seen = self.try_eval("document.body.innerText").await.unwrap_or_default();
        let seen: String = seen.as_str().unwrap_or_default().chars().take(3000).collect();
        let console = self.console().join("\n");
        let last: Vec<_> = self.responses().into_iter().rev().take(12).collect();
        panic!("waited in vain for {script}\nconsole:\n{console}\nlast responses: {last:?}\npage:\n{seen}");
    }

    /// The value of an expression once it is true, if that is soon enough.
    async fn wait_for(&self, script: &str, limit: Duration) -> Option<Value> {
        let began = Instant::now();
        // An element cannot travel.
        let plain = format!("(async () => {{ const v = await ({script}); return v instanceof Node ? true : v; }})()");
        loop {
            let value = self.try_eval(&plain).await.unwrap_or_default();
            let is_true = !matches!(value, Value::Null | Value::Bool(false)) && value != json!("") && value != json!(0);
            if is_true {
                return Some(value);
            }
            if began.elapsed() > limit {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until the page shows a text.
    pub(crate) async fn wait_for_text(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)))
            .await;
    }

    /// Where an element is: waits until it is there, has a size and rests, also what it is in.
    pub(crate) async fn position(&self, element: &str) -> (f64, f64) {
        let place = self.wait(&position_script(element)).await;
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    async fn mouse(&self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut parameters = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
        for (name, value) in more.as_object().into_iter().flatten() {
            parameters[name] = value.clone();
        }
        self.command("Input.dispatchMouseEvent", parameters).await;
    }

    /// Clicks at a place.
    pub(crate) async fn click_at(&self, place: (f64, f64)) {
        self.mouse("mouseMoved", place, json!({"button": "none", "clickCount": 0}))
            .await;
        self.mouse("mousePressed", place, json!({"buttons": 1})).await;
        self.mouse("mouseReleased", place, json!({})).await;
    }

    /// Clicks an element, given by an expression, and again if the page was drawn anew at that moment.
    pub(crate) async fn click(&self, element: &str) {
        for _ in 0..CLICKS {
            let place = self.position(element).await;
            if self.hits(element, place).await {
                return;
            }
        }
    }

    /// Clicks an element if it appears soon; whether it did, and the click reached it.
    pub(crate) async fn try_click(&self, element: &str) -> bool {
        let Some(place) = self.wait_for(&position_script(element), STEP / CLICKS).await else {
            return false;
        };
        match place[0].as_f64().zip(place[1].as_f64()) {
            Some(place) => self.hits(element, place).await,
            None => false,
        }
    }

    /// Clicks at a place; whether the click reached the element.
    async fn hits(&self, element: &str, place: (f64, f64)) -> bool {
        let observe = format!(
            "(() => {{ window.clickReached = null;
                document.addEventListener('click', event => {{ window.clickReached = !!({element})?.contains(event.target) }},
                    {{capture: true, once: true}}) }})()"
        );
        self.eval(&observe).await;
        self.click_at(place).await;
        // A page that was left has no answer: the click led away.
        let reached = self
            .try_eval("window.clickReached ?? (window.clickReached === undefined)")
            .await;
        reached != Ok(Value::Bool(false))
    }

    /// Clicks an element until an expression is true. The canvas of the designer ignores a click while it draws a node anew,
    /// which no event of the page tells.
    pub(crate) async fn click_until(&self, element: &str, condition: &str) {
        let is_true = format!("!!({condition})");
        let place = format!("(async () => {is_true} || await {})()", position_script(element));
        for _ in 0..CLICKS {
            let place = self.wait(&place).await;
            let Some(place) = place[0].as_f64().zip(place[1].as_f64()) else {
                return;
            };
            self.click_at(place).await;
            if self.wait_for(&is_true, STEP / CLICKS).await.is_some() {
                return;
            }
        }
        self.wait(condition).await;
    }

    /// Clicks the visible element of a selector with exactly this text.
    pub(crate) async fn click_text(&self, selector: &str, text: &str) {
        self.click(&by_text(selector, text)).await;
    }

    /// Drags from one place to another, step by step; HTML's drag and drop takes place as with a mouse.
    pub(crate) async fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        const STEPS: u32 = 6;
        self.mouse("mouseMoved", from, json!({"button": "none", "clickCount": 0}))
            .await;
        self.mouse("mousePressed", from, json!({"buttons": 1})).await;
        for step in 1..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let place = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            self.mouse("mouseMoved", place, json!({"buttons": 1})).await;
        }
        self.mouse("mouseReleased", to, json!({})).await;
    }

    /// Replaces the text of an input, given by an expression.
    pub(crate) async fn fill(&self, input: &str, text: &str) {
        self.click(input).await;
        // Studio may draw the input anew.
        self.wait(&format!(
            "(() => {{ const e = {input}; e.focus(); e.select?.(); return e === document.activeElement; }})()"
        ))
        .await;
        self.command("Input.insertText", json!({"text": text})).await;
    }

    /// Types into what has the focus.
    pub(crate) async fn insert(&self, text: &str) {
        self.command("Input.insertText", json!({"text": text})).await;
    }

    /// Presses a key, with its code of Windows.
    pub(crate) async fn key(&self, name: &str, code: u32, modifiers: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut parameters =
                json!({"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers});
            if name == "Enter" && kind == "keyDown" {
                parameters["text"] = "\r".into();
            }
            self.command("Input.dispatchKeyEvent", parameters).await;
        }
    }

    /// Gives a file to an input, given by its selector.
    pub(crate) async fn give_file(&self, selector: &str, file: &Path) {
        let document = self.command("DOM.getDocument", json!({})).await;
        let query = json!({"nodeId": document["root"]["nodeId"], "selector": selector});
        let node = self.command("DOM.querySelector", query).await["nodeId"].clone();
        let given = json!({"nodeId": node, "files": [file.to_string_lossy()]});
        self.command("DOM.setFileInputFiles", given).await;
    }

    /// Lets the browser save downloads into a folder.
    pub(crate) async fn save_downloads(&self, folder: &Path) {
        let parameters = json!({"behavior": "allow", "downloadPath": folder.to_string_lossy()});
        self.shared.command("", "Browser.setDownloadBehavior", parameters).await;
    }

    /// Gives the page another size, in pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Keeps a picture of the page as an artefact.
    pub(crate) async fn screenshot(&self, name: &str) {
        let picture = self.command("Page.captureScreenshot", json!({"format": "png"})).await;
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&self.screenshots).unwrap();
        std::fs::write(self.screenshots.join(format!("{name}.png")), bytes).unwrap();
    }

    /// The errors in the console so far.
    pub(crate) fn console(&self) -> Vec<String> {
        self.events.console.lock().unwrap().clone()
    }

    /// Forgets the errors in the console, and returns them.
    pub(crate) fn take_console(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.console.lock().unwrap())
    }

    /// The responses so far: status and address.
    pub(crate) fn responses(&self) -> Vec<(u64, String)> {
        self.events.responses.lock().unwrap().clone()
    }

    /// Waits until the API has answered all requests: Studio stops if it leaves a page with an open one.
    pub(crate) async fn wait_until_answered(&self) {
        poll_until(STEP, "the answers of the API", async || {
            self.events.open.lock().unwrap().is_empty().then_some(())
        })
        .await;
    }

    /// How many requests have been sent that change something.
    pub(crate) fn changes(&self) -> u64 {
        self.events.changes.load(Ordering::SeqCst)
    }

    /// Waits until there is a response whose address has this part.
    pub(crate) async fn wait_for_response(&self, part: &str) -> u64 {
        poll_until(STEP, part, async || {
            let responses = self.responses();
            responses
                .iter()
                .rev()
                .find(|(_, url)| url.contains(part))
                .map(|(status, _)| *status)
        })
        .await
    }
}

/// The visible element of a selector with exactly this text, in any case.
pub(crate) fn by_text(selector: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll({})].find(e => e.textContent.trim().toLowerCase() === {} && e.getBoundingClientRect().width)",
        json!(selector),
        json!(text.to_lowercase())
    )
}

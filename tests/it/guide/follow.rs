//! Follows a page: runs its commands in one shell, and compares what they print with what the page shows.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::page::{Block, Page};
use crate::support::node::{NAMES, Node, assert_invariants};
use crate::support::smtp::{Encryption, SmtpServer};
use crate::support::{Child, LONG_TIMEOUT, TestDatabase};

/// What ends a shell that hangs, with all that it has started, before the test gives up.
const SECONDS: &str = "100";

/// Stands for anything in what a page shows.
const ANYTHING: char = '…';

/// Begins the line before the output of each block.
const MARK: &str = "@@ block ";

/// Runs a page with so many nodes on a database of its own. The addresses 127.0.0.1:5001 to 5004 of the page are those of
/// the nodes, or free ones.
pub(super) async fn follow(page: &Page, nodes: usize) {
    run(page, nodes, "", &[]).await;
}

/// Runs a page that starts its own node, which gives its mails to a server: `mail` prints the last one.
pub(super) async fn follow_with_mails(page: &Page) {
    let folder = Folder::create();
    let last = folder.0.join("last");
    let server = SmtpServer::start(Encryption::None).await;
    server.copy_to(&last);
    let shows = format!("mail() {{ cat '{}'; }}\n", last.display());
    run(page, 0, &shows, &[("MAINSPRING_SMTP_URL", &server.plain_url())]).await;
}

/// The same, after commands that the page does not show, and with more variables.
async fn run(page: &Page, nodes: usize, before: &str, more: &[(&str, &str)]) {
    let database = TestDatabase::create().await;
    let nodes: Vec<Node> = NAMES[..nodes].iter().map(|name| Node::start(&database, name)).collect();
    let addresses = addresses(&nodes);
    let folder = Folder::create();
    let script = before.to_owned() + &script(page, &addresses, &folder.0);
    let program = Path::new(env!("CARGO_BIN_EXE_mainspring"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut variables = vec![
        ("MAINSPRING_DATABASE_URL".to_owned(), database.url()),
        ("PATH".to_owned(), path),
    ];
    for (number, node) in (1..).zip(&nodes) {
        variables.push((format!("node_{number}"), node.child.id().to_string()));
    }
    let variables = variables.iter().map(|(name, value)| (&**name, &**value));
    let variables: Vec<(&str, &str)> = variables.chain(more.iter().copied()).collect();
    let arguments = ["-k", "5", SECONDS, "sh", "-e", "-c", &script];
    let mut shell = Shell(Child::program("timeout", &arguments, &variables));
    let output = shell.output();
    compare(page, &output);
    drop(shell);
    assert_invariants(&database).await;
}

/// The addresses of the nodes, and of those that the page itself starts.
fn addresses(nodes: &[Node]) -> Vec<String> {
    let given = nodes.iter().map(|node| node.http.as_ref().unwrap().address());
    given.chain(std::iter::repeat_with(free_address)).take(4).collect()
}

/// An address that stays free until a page uses it: no system gives ports below 32,768 to other tests.
fn free_address() -> String {
    loop {
        let address = format!("127.0.0.1:{}", rand::random_range(20_000..30_000));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

fn script(page: &Page, addresses: &[String], folder: &Path) -> String {
    let mut script = format!("exec 2>&1\ncd '{}'\n", folder.display());
    for (number, block) in page.blocks.iter().enumerate() {
        match (&*block.language, &block.file) {
            ("json", Some(file)) => std::fs::write(folder.join(file), &block.text).unwrap(),
            ("sh", _) => script.push_str(&format!("printf '\\n{MARK}{number}\\n'\n{}", block.text)),
            _ => {}
        }
    }
    for (number, address) in (5001..).zip(addresses) {
        script = script.replace(&format!("127.0.0.1:{number}"), address);
    }
    script + &format!("printf '\\n{MARK}end\\n'\n")
}

/// Each block of commands has ended, and has printed what the page shows.
fn compare(page: &Page, output: &[String]) {
    let all = output.join("\n");
    assert!(
        output.last().is_some_and(|line| *line == format!("{MARK}end")),
        "{}: the commands do not run to the end:\n{all}",
        page.name
    );
    for (number, pair) in page.blocks.windows(2).enumerate() {
        let [commands, shown] = pair else { continue };
        if commands.language != "sh" || shown.language != "text" {
            continue;
        }
        let mark = format!("{MARK}{number}");
        let mut printed = output.iter().skip_while(|line| **line != mark).skip(1);
        let mut printed = printed.by_ref().take_while(|line| !line.starts_with(MARK));
        for line in shown.text.lines().filter(|line| line.trim() != ANYTHING.to_string()) {
            assert!(
                printed.any(|printed| is_like(line, printed)),
                "{}, line {}: the commands do not print {line:?} (in this order):\n{all}",
                page.name,
                shown.line
            );
        }
    }
}

/// Whether a line of output is what the page shows.
fn is_like(shown: &str, printed: &str) -> bool {
    let mut parts = shown.trim_end().split(ANYTHING);
    let Some(mut rest) = parts.next().and_then(|first| printed.trim_end().strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A shell in a process group of its own, which ends with this.
struct Shell(Child);

impl Shell {
    /// What it has printed at its end.
    fn output(&mut self) -> Vec<String> {
        self.0.wait(LONG_TIMEOUT);
        self.0.stdout()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // `timeout` leads a group, in which all that the page has started is. What has ended already is an error here.
        let group = format!("kill -9 -{}", self.0.id());
        let _ = std::process::Command::new("sh").args(["-c", &group]).output();
    }
}

/// A folder for the files of a page, deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        let name = format!("mainspring-guide-{}", uuid::Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_a_page_shows_stands_for_what_is_printed() {
    for (shown, printed, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a", "ba", false),
        ("…a", "ba", true),
        ("a…", "ab", true),
        ("a…c", "abc", true),
        ("a…c…e", "abcde", true),
        ("a…e…c", "abcde", false),
        ("…", "", true),
    ] {
        assert_eq!(is_like(shown, printed), is, "{shown} {printed}");
    }
}

#[test]
#[should_panic(expected = "line 4: the commands do not print \"c\"")]
fn a_line_that_is_not_printed_is_seen() {
    let block = |language: &str, text: &str, line| Block {
        language: language.to_owned(),
        text: text.to_owned(),
        line,
        file: None,
    };
    let page = Page {
        name: "p.md".to_owned(),
        text: String::new(),
        blocks: vec![block("sh", "echo a; echo b\n", 1), block("text", "a\nc\n", 4)],
    };
    let output = ["@@ block 0", "a", "b", "@@ block end"].map(str::to_owned);
    compare(&page, &output);
}

//! The guide is true when it is followed word by word.
//!
//! `page` reads the blocks of a page by the language of their fences, `follow` runs them:
//! - `sh` is run by `sh -e`, all blocks of a page in one shell, with `mainspring` in the path and the URL of a database;
//! - `text` is what the commands before it print: these lines in this order, with `…` for anything;
//! - `json` is a file, if the paragraph above names one, and a definition in it can be published;
//! - `rust` is a part of an example in `examples/`, which is compiled;
//! - `console` and others are not run, and are listed here with the reason.

mod follow;
#[path = "../../../examples/own_activities.rs"]
#[allow(dead_code)]
mod own_activities;
mod page;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::node::assert_invariants;
use crate::support::single_node::SingleNode;
use crate::support::{Http, TestDatabase};
use page::{Page, page, pages};

/// The blocks that no test runs: the page, the first line of the block, and why.
const NOT_RUN: [(&str, &str, &str); 11] = [
    (
        "approval-by-mail.md",
        "export MAINSPRING_DATABASE_URL=postgres://engine:password@127.0.0.1/workflows",
        "the test sets it to its own database, and gives a mail server and its last mail",
    ),
    ("embedding.md", "[dependencies]", "it names a folder of the reader's"),
    (
        "embedding.md",
        "$ DATABASE_URL=postgres://user:password@localhost/name cargo run --example own_activities",
        "it compiles; `the_example_of_own_activities_waits_reserves_and_serves` runs the same function",
    ),
    (
        "first-workflow.md",
        "$ scripts/start --nodes 3",
        "it builds and serves until it is stopped; `it::program::dev` reads its lines",
    ),
    (
        "first-workflow.md",
        "node_1=…",
        "the test sets it to the process that it started",
    ),
    (
        "from-elsa.md",
        r#"export MAINSPRING_DATABASE_URL="postgres://mainspring:$(cat .mainspring/password)@127.0.0.1:$(cat .mainspring/port)/mainspring""#,
        "the test sets it to its own database",
    ),
    (
        "running-a-cluster.md",
        "export MAINSPRING_DATABASE_URL=postgres://engine:password@127.0.0.1/workflows",
        "the test sets it to its own database",
    ),
    (
        "running-a-cluster.md",
        "CREATE ROLE engine LOGIN PASSWORD 'password';",
        "roles belong to the whole server; `it::deployment::database_roles` makes such roles on one of its own",
    ),
    (
        "users-keys-sso.md",
        "export MAINSPRING_DATABASE_URL=postgres://engine:password@127.0.0.1/workflows",
        "the test sets it to its own database",
    ),
    (
        "validate.md",
        "export MAINSPRING_DATABASE_URL=postgres://engine:password@127.0.0.1/workflows",
        "the test sets it to its own database",
    ),
    (
        "validate.md",
        r"mainspring validate --nodes http://elsa-0.elsa:5001,http://elsa-1.elsa:5001,http://elsa-2.elsa:5001 \",
        "it needs a cluster of the reader's; `it::validate` runs the same with processes",
    ),
];

/// The definitions whose publish is refused, by page and id, as the page says.
const REFUSED: [(&str, &str); 1] = [("from-elsa.md", "stock")];

/// The languages of blocks that are tested.
const TESTED: [&str; 4] = ["sh", "text", "json", "rust"];

/// The fewest and most lines of a page.
const LINES: std::ops::RangeInclusive<usize> = 80..=130;

const INDEX: &str = "README.md";

#[tokio::test]
async fn first_workflow() {
    follow::follow(&page("first-workflow.md"), 3).await;
}

#[tokio::test]
async fn from_elsa() {
    follow::follow(&page("from-elsa.md"), 1).await;
}

#[tokio::test]
async fn events_timers_correlation() {
    follow::follow(&page("events-timers-correlation.md"), 1).await;
}

#[tokio::test]
async fn behind_a_url() {
    follow::follow(&page("behind-a-url.md"), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_by_mail() {
    follow::follow_with_mails(&page("approval-by-mail.md")).await;
}

#[tokio::test]
async fn retries_and_idempotency() {
    follow::follow(&page("retries-and-idempotency.md"), 1).await;
}

#[tokio::test]
async fn life_of_an_instance() {
    follow::follow(&page("life-of-an-instance.md"), 1).await;
}

#[tokio::test]
async fn running_a_cluster() {
    follow::follow(&page("running-a-cluster.md"), 0).await;
}

#[tokio::test]
async fn users_keys_sso() {
    follow::follow(&page("users-keys-sso.md"), 0).await;
}

#[tokio::test]
async fn validate() {
    follow::follow(&page("validate.md"), 0).await;
}

#[tokio::test]
async fn performance() {
    follow::follow(&page("performance.md"), 0).await;
}

#[tokio::test]
async fn troubleshooting() {
    follow::follow(&page("troubleshooting.md"), 1).await;
}

#[tokio::test]
async fn planted_faults() {
    follow::follow(&page("planted-faults.md"), 0).await;
}

#[test]
fn the_code_of_embedding_is_that_of_an_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let examples: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut compared = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "rust") {
            compared += 1;
            assert!(
                examples.iter().any(|example| example.contains(&block.text)),
                "{}, line {}: no example has this text",
                page.name,
                block.line
            );
        }
    }
    assert!(compared > 3, "{compared} blocks in Rust");
}

#[tokio::test]
async fn the_example_of_own_activities_waits_reserves_and_serves() {
    let database = TestDatabase::create().await;
    let engine = own_activities::start(&database.url()).await.unwrap();
    assert_eq!(
        own_activities::run(&engine).await.unwrap(),
        json!({"Reservation": "R-1"})
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = Http::new(&format!("http://{}", listener.local_addr().unwrap()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(own_activities::serve(engine, listener, async { drop(stopped.await) }));
    let listed = http.get("descriptors/activities").await.expect(200);
    let types = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["typeName"].clone());
    assert_eq!(types.filter(|name| name == "Shop.Decide").count(), 1, "{listed}");
    drop(stop);
    serving.await.unwrap().unwrap();
    assert_invariants(&database).await;
}

/// The first column of the table *Lines of the log* is in the code.
#[test]
fn each_line_of_the_log_is_logged() {
    let page = page("planted-faults.md").text;
    let table = page.split_once("## Lines of the log").unwrap().1;
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let lines: Vec<&str> = rows.map(|(line, _)| line).collect();
    assert!(lines.len() > 3, "{lines:?}");
    let mut code = String::new();
    read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let missing: Vec<&str> = lines.into_iter().filter(|line| !code.contains(line)).collect();
    assert!(missing.is_empty(), "nothing logs {missing:?}");
}

fn read_all(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_block_is_tested_or_listed_with_a_reason() {
    let pages = pages();
    let mut found = BTreeSet::new();
    for page in &pages {
        for block in page.blocks.iter().filter(|block| !TESTED.contains(&&*block.language)) {
            found.insert((page.name.as_str(), Page::head(block)));
        }
        // What is shown belongs to commands that are run.
        for pair in page.blocks.windows(2).filter(|pair| pair[1].language == "text") {
            assert_eq!(pair[0].language, "sh", "{}, line {}", page.name, pair[1].line);
        }
    }
    let listed: BTreeSet<(&str, &str)> = NOT_RUN.iter().map(|(page, head, _)| (*page, *head)).collect();
    assert_eq!(found, listed);
    assert!(NOT_RUN.iter().all(|(_, _, reason)| !reason.is_empty()));
}

#[tokio::test]
async fn each_definition_can_be_published() {
    let node = SingleNode::start(&[]).await;
    let mut published = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "json") {
            let place = format!("{}, line {}", page.name, block.line);
            let value: Value = serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
            let model = value.get("model").unwrap_or(&value);
            if model.get("root").is_some() {
                published += 1;
                println!("{place}");
                let save = json!({"model": model, "publish": true});
                let answer = node.http.post("workflow-definitions", &save).await;
                let id = model["definitionId"].as_str().unwrap();
                let refused = REFUSED.contains(&(&*page.name, id));
                assert_eq!(answer.status, if refused { 400 } else { 200 }, "{}", answer.body);
            }
        }
    }
    assert!(published > 5, "{published} definitions");
}

#[test]
fn each_page_is_listed_and_short() {
    let pages = pages();
    let index = page(INDEX).text;
    let names: Vec<&str> = pages
        .iter()
        .map(|page| page.name.as_str())
        .filter(|name| *name != INDEX)
        .collect();
    assert_eq!(names.len(), 14, "{names:?}");
    for page in pages.iter().filter(|page| page.name != INDEX) {
        let link = format!("]({})", page.name);
        assert_eq!(
            index.matches(&link).count(),
            1,
            "docs/guide/README.md and {}",
            page.name
        );
        let lines = page.text.lines().count();
        assert!(LINES.contains(&lines), "{} has {lines} lines", page.name);
    }
}

/// The links of a page lead to a file of the repository, and to a heading or an anchor in it.
#[test]
fn each_link_leads_somewhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let mut broken = Vec::new();
    for page in pages() {
        for target in page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = target.0;
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                folder.join(&page.name)
            } else {
                folder.join(file)
            };
            let text = std::fs::read_to_string(&path).ok();
            let leads = match &text {
                None => path.exists() && anchor.is_empty(),
                Some(text) => anchor.is_empty() || anchors(text).contains(anchor),
            };
            if !leads {
                broken.push(format!("{}: {target}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The anchors of a document: its headings as they are shown on the web, and those that it names itself.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let of_heading = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.collect::<String>().replace(' ', "-")
    };
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    headings
        .map(of_heading)
        .chain(named.map(|(name, _)| name.to_owned()))
        .collect()
}

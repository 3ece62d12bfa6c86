//! `mainspring validate` on clusters of processes: a whole one passes each point, and one that is broken on purpose fails it for
//! the right reason.

mod broken;
mod false_proxy;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::haproxy::HaProxy;
use crate::support::node::{NAMES, Node, assert_invariants, start_three};
use crate::support::single_node::{KEY, SingleNode};
use crate::support::{Child, LONG_TIMEOUT, TIMEOUT, TestDatabase, assert_contains, wait_until};

/// How long a validation may take on a busy machine.
const VALIDATED: Duration = Duration::from_secs(240);

/// What a validation has found.
struct Validation {
    code: Option<i32>,
    report: Value,
    said: String,
}

impl Validation {
    /// Begins one of the nodes with these URLs.
    fn begin(urls: &[String], arguments: &[&str]) -> Child {
        let nodes = urls.join(",");
        let all = [&["validate", "--json", "--nodes", &nodes], arguments].concat();
        Child::start(&all, &[])
    }

    /// Waits for its end.
    fn end(mut child: Child) -> Self {
        let code = child.wait(VALIDATED).code();
        let (out, said) = (child.stdout().join("\n"), child.stderr().join("\n"));
        let report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{said}"));
        Self { code, report, said }
    }

    fn of(urls: &[String], arguments: &[&str]) -> Self {
        Self::end(Self::begin(urls, arguments))
    }

    /// The outcome of a point, and what was found.
    fn point(&self, number: u8) -> (&str, String) {
        let points = self.report["points"].as_array().unwrap();
        let point = points.iter().find(|point| point["point"] == number);
        let point = point.unwrap_or_else(|| panic!("no point {number} in {}", self.report));
        let found = point["found"].as_array().unwrap().iter();
        let found: Vec<&str> = found.map(|line| line.as_str().unwrap()).collect();
        (point["outcome"].as_str().unwrap(), found.join("\n"))
    }

    /// The point failed, and what was found has these parts.
    #[track_caller]
    fn assert_failed(&self, number: u8, parts: &[&str]) {
        let (outcome, found) = self.point(number);
        assert_eq!((self.code, outcome), (Some(1), "failed"), "{found}\n{}", self.said);
        assert_contains(&found, parts);
    }

    #[track_caller]
    fn assert_passed(&self, number: u8) {
        let (outcome, found) = self.point(number);
        assert_eq!(outcome, "passed", "point {number}: {found}\n{}", self.said);
    }
}

/// A folder for the signs of commands, which ends with this value.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-validate-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// A command that gives a sign and waits for another one, so that the test does what is asked for.
    fn asks(&self) -> String {
        let folder = self.0.display();
        format!("touch {folder}/asked; until [ -e {folder}/done ]; do sleep 0.05; done")
    }

    async fn asked(&self) {
        wait_until("the command to be run", async || self.0.join("asked").exists()).await;
    }

    fn done(&self) {
        std::fs::write(self.0.join("done"), "").unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn urls(nodes: &[Node]) -> Vec<String> {
    let addresses = nodes.iter().map(|node| node.http.as_ref().unwrap().address());
    addresses.map(|address| format!("http://{address}")).collect()
}

/// Kills the node that is asked for.
fn kill_command(nodes: &[Node]) -> String {
    let cases = nodes
        .iter()
        .map(|node| format!("{}) kill -9 {};;", node.name, node.child.id()));
    format!("case $NODE_ID in {} *) exit 9;; esac", cases.collect::<String>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_behind_a_load_balancer_pass_all_points() {
    let database = TestDatabase::create().await;
    let mut nodes = start_three(&database, &[]);
    let proxy = HaProxy::start(&NAMES).await;
    nodes.iter().for_each(|node| proxy.serve(node));
    proxy.waits_for(3).await;
    let folder = Folder::create();
    let (through, stop, restart) = (
        format!("http://{}/elsa/api", proxy.address()),
        kill_command(&nodes),
        folder.asks(),
    );
    let url = database.url();
    let mut arguments = vec!["--through", &through, "--database-url", &url, "--timer", "3s"];
    // Tests beside this one take the processors.
    arguments.extend([
        "--lock-limit",
        "20s",
        "--cleanup",
        "--stop-command",
        &stop,
        "--restart-command",
        &restart,
    ]);
    let validation = Validation::begin(&urls(&nodes), &arguments);
    folder.asked().await;
    // The last one was killed before.
    for slot in [2, 0, 1] {
        if slot != 2 {
            nodes[slot].child.signal("TERM");
            let status = nodes[slot].child.wait(TIMEOUT);
            assert!(status.success(), "{:?}", nodes[slot].child.stderr());
        }
        nodes[slot] = Node::start(&database, NAMES[slot]);
        proxy.serve(&nodes[slot]);
        proxy.waits_for(3).await;
    }
    folder.done();
    let validation = Validation::end(validation);
    for point in 1..=6 {
        validation.assert_passed(point);
    }
    assert_eq!(validation.code, Some(0), "{}", validation.said);
    let ids: Vec<&Value> = validation.report["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["nodeId"])
        .collect();
    assert_eq!(ids, NAMES);
    assert_eq!(
        (&validation.report["passed"], &validation.report["violations"]),
        (&json!(true), &json!([]))
    );
    assert_contains(
        &validation.said,
        &["point 1: of simultaneous resumes one runs …", "point 5: passed after"],
    );
    // Nothing is left of it.
    let client = database.connect().await;
    assert_eq!((client.rows("definition").await, client.rows("instance").await), (0, 0));
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_command_stops_is_not_run_and_no_success() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let validation = Validation::of(&urls(&nodes), &["--points", "3,4,5"]);
    validation.assert_passed(3);
    for (point, flag) in [(4, "--stop-command"), (5, "--restart-command")] {
        let (outcome, found) = validation.point(point);
        assert_eq!(outcome, "notRun");
        assert_contains(&found, &[flag]);
    }
    assert_eq!(
        (validation.code, &validation.report["passed"]),
        (Some(1), &json!(false))
    );
    // What it runs stays without --cleanup, and is there for a look.
    let client = database.connect().await;
    assert_eq!(
        client
            .rows("instance WHERE definition_id = 'mainspring-validate-publish'")
            .await,
        30
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_sent_and_shown_nowhere() {
    let node = SingleNode::with_key(&[]).await;
    let folder = Folder::create();
    let file = folder.0.join("key");
    let url = format!("http://{}", node.address);
    for (key, code, says) in [
        (None, 1, "give the file of the API key by --api-key-file"),
        (Some("another-key-0123456789"), 1, "give another key by --api-key-file"),
        (Some(KEY), 0, "point 3: passed"),
    ] {
        let mut arguments = vec!["validate", "--points", "3", "--nodes", &url];
        if let Some(key) = key {
            std::fs::write(&file, key).unwrap();
            arguments.extend(["--api-key-file", file.to_str().unwrap()]);
        }
        let mut child = Child::start(&arguments, &[]);
        let status = child.wait(LONG_TIMEOUT);
        let said = [child.stdout(), child.stderr()].concat().join("\n");
        assert_eq!(status.code(), Some(code), "{said}");
        assert_contains(&said, &[says]);
        assert!(key.is_none_or(|key| !said.contains(key)), "{said}");
    }
}

#[test]
fn wrong_usage_is_refused() {
    for (arguments, hint) in [
        (&[][..], "--nodes"),
        (&["--nodes", "127.0.0.1:1"], "give URLs as http://10.0.0.1:5001"),
        (
            &["--nodes", "http://127.0.0.1:1", "--points", "7"],
            "give numbers from 1 to 6",
        ),
        (
            &["--nodes", "http://127.0.0.1:1", "--timer", "3"],
            "give a number with its unit",
        ),
    ] {
        let mut child = Child::start(&[&["validate"], arguments].concat(), &[]);
        assert_eq!(child.wait(TIMEOUT).code(), Some(2), "{arguments:?}");
        assert_contains(&child.stderr().join("\n"), &[hint]);
    }
    // No node at all is no report.
    let mut child = Child::start(&["validate", "--nodes", "http://127.0.0.1:1"], &[]);
    assert_eq!(child.wait(TIMEOUT).code(), Some(1));
    assert_contains(&child.stderr().join("\n"), &["none of the nodes can be validated: "]);
}

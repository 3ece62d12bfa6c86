//! What is no hang: a busy machine, a database that is frozen, a process that was stopped, a laptop that slept.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::node::{incarnations, spawn};
use crate::support::process::KilledOnDrop;
use crate::support::three_nodes::ThreeNodes;
use crate::support::{Gate, Server, TIMEOUT, TestDatabase};

/// Three seconds are the least in which a part has to answer.
const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "3s"];

/// Much longer than that. How long it takes is the point of it.
const LONG: Duration = Duration::from_secs(9);

/// No process has ended, and all work continues.
async fn all_go_on(mut three: ThreeNodes, count: i64) {
    for node in &mut three.nodes {
        let ended = node.child.has_ended();
        assert!(!ended, "{} has ended: {:?}", node.name, node.child.stderr());
        assert!(!node.child.logs("this node hangs"), "{:?}", node.child.stderr());
    }
    three.assert_clean_end(count).await;
}

/// Processes that use all the time that they get.
fn busy_processes(count: usize) -> Vec<KilledOnDrop> {
    let start = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        KilledOnDrop(command.spawn().unwrap())
    };
    (0..count).map(start).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_a_busy_machine_do_not_hang() {
    let three = ThreeNodes::start("", &SETTINGS[2..]).await;
    let before = incarnations(&three.client).await;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let busy = busy_processes(8 * cores);
    three.load(10).await;
    tokio::time::sleep(LONG - Duration::from_secs(1)).await;
    drop(busy);
    assert_eq!(incarnations(&three.client).await, before);
    all_go_on(three, 10).await;
}

/// Before they can answer, its parts are not asked, and what registers it answers meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_registers_slowly_does_not_hang() {
    let (database, gate) = (TestDatabase::create().await, Gate::new());
    let stalls = gate.stalls("node.register");
    let child = spawn(&database.url(), "one", &SETTINGS, &[("MAINSPRING_FAILPOINTS", &stalls)]);
    gate.reached().await;
    tokio::time::sleep(LONG / 2).await;
    gate.open();
    child.wait_for_line("ready ", TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_database_is_frozen_do_not_hang() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let url = database.url();
    let three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &SETTINGS).await;
    three.load(10).await;
    server.signal("STOP");
    // Their statements time out, and they try to register again.
    tokio::time::sleep(LONG * 2).await;
    server.signal("CONT");
    all_go_on(three, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_stopped_again_and_again_does_not_hang() {
    let three = ThreeNodes::start("", &SETTINGS[2..]).await;
    three.load(10).await;
    for _ in 0..3 {
        three.nodes[0].child.signal("STOP");
        tokio::time::sleep(Duration::from_secs(4)).await;
        three.nodes[0].child.signal("CONT");
        // Less than its tolerance, and enough for an answer.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    all_go_on(three, 10).await;
}

/// All of them stop at once, the database with them, and wake one after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_a_laptop_that_slept_do_not_hang() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let url = database.url();
    let three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &SETTINGS).await;
    three.load(10).await;
    for _ in 0..2 {
        let signal = |name: &str| three.nodes.iter().for_each(|node| node.child.signal(name));
        signal("STOP");
        server.signal("STOP");
        tokio::time::sleep(LONG / 2).await;
        signal("CONT");
        server.signal("CONT");
    }
    all_go_on(three, 10).await;
}

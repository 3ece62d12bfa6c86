//! `mainspring dev --nodes 3`.

use serde_json::json;

use crate::support::process::{end, lives};
use crate::support::smtp::{Encryption, SmtpServer};
use crate::support::{Child, Http, LONG_TIMEOUT, poll_until, wait_until};

/// The processes and addresses of the nodes, as dev prints them.
fn nodes(dev: &Child) -> Vec<(String, String)> {
    let node = |line: &String| {
        let (url, pid) = line.split_once(" answers on ")?.1.split_once(", process ")?;
        Some((pid.to_owned(), url.to_owned()))
    };
    dev.stdout().iter().filter_map(node).collect()
}

#[tokio::test]
async fn three_nodes_are_three_processes_and_none_outlives_its_dev() {
    let folder = std::env::temp_dir().join(format!("mainspring-dev-{}", uuid::Uuid::new_v4().simple()));
    let data = folder.to_string_lossy().into_owned();
    let arguments = ["dev", "--nodes", "3", "--listen", "127.0.0.1:0", "--data-dir", &data];
    let mut dev = Child::start(&arguments, &[]);
    dev.wait_for_line("ready ", LONG_TIMEOUT);
    let first: Vec<String> = nodes(&dev).into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|pid| lives(pid) && *pid != dev.id().to_string()));
    // No parent process is left that could stop them.
    dev.kill9();
    end(&first).await;

    let mut dev = Child::start(&arguments, &[]);
    dev.wait_for_line("ready ", LONG_TIMEOUT);
    let second = nodes(&dev);
    let kill = std::process::Command::new("kill").args(["-9", &second[1].0]).status();
    assert!(kill.unwrap().success());
    for said in ["node-2 has exited", "node-2 was removed"] {
        poll_until(LONG_TIMEOUT, said, async || {
            dev.stderr().iter().any(|line| line.starts_with(said)).then_some(())
        })
        .await;
    }
    assert!(lives(&second[0].0) && lives(&second[2].0));
    let http = Http::new(&second[2].1);
    let executed = http.post("workflow-definitions/hello-world/execute", &json!({})).await;
    assert_eq!(executed.expect(200)["workflowState"]["status"], "Finished");
    let lines = dev.stdout();
    assert!(lines.iter().any(|line| line.starts_with("node-3 | ")), "{lines:?}");

    dev.signal("INT");
    assert_eq!(dev.wait(LONG_TIMEOUT).code(), Some(0), "{}", dev.stderr().join("\n"));
    end(&second.into_iter().map(|(pid, _)| pid).collect::<Vec<_>>()).await;
    let log = dev.stderr();
    for node in ["node-1", "node-3"] {
        let left = log
            .iter()
            .any(|line| line.starts_with(node) && line.contains("left in good order"));
        assert!(left, "{node}: {log:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn its_nodes_send_mails_by_the_server_that_it_is_given() {
    for nodes in ["1", "2"] {
        let server = SmtpServer::start(Encryption::None).await;
        let folder = std::env::temp_dir().join(format!("mainspring-dev-{}", uuid::Uuid::new_v4().simple()));
        let (data, url) = (folder.to_string_lossy().into_owned(), server.plain_url());
        let sender = "Office <office@example.org>";
        let settings = [
            "dev",
            "--nodes",
            nodes,
            "--listen",
            "127.0.0.1:0",
            "--mail-from",
            sender,
        ];
        let arguments = [&settings[..], &["--data-dir", &data]].concat();
        let mut dev = Child::start(&arguments, &[("MAINSPRING_SMTP_URL", &url)]);
        let base = dev.wait_for_line("ready ", LONG_TIMEOUT);
        let input = json!({"Item": "A desk", "Approver": "ada@example.org", "Manager": "bob@example.org"});
        let http = Http::new(&base);
        http.dispatch("approval-by-mail", &json!({"input": input})).await;
        wait_until("the mail", async || !server.mails().is_empty()).await;
        assert_eq!(server.mails()[0].header("From"), sender, "{nodes} nodes");
        dev.signal("INT");
        assert_eq!(dev.wait(LONG_TIMEOUT).code(), Some(0), "{}", dev.stderr().join("\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// `scripts/start` ends as dev does.
#[tokio::test]
async fn the_last_line_is_the_address_of_studio() {
    let folder = std::env::temp_dir().join(format!("mainspring-dev-{}", uuid::Uuid::new_v4().simple()));
    let (data, studio) = (folder.join("data"), folder.join("studio"));
    std::fs::create_dir_all(studio.join("_framework")).unwrap();
    for file in ["_framework/blazor.webassembly.js", "index.html"] {
        std::fs::write(studio.join(file), "").unwrap();
    }
    let (data, studio) = (data.to_string_lossy(), studio.to_string_lossy());
    let listen = ["dev", "--listen", "127.0.0.1:0"];
    let arguments = [&listen[..], &["--data-dir", &data, "--studio", &studio]].concat();
    let mut dev = Child::start(&arguments, &[]);
    let base = dev.wait_for_line("ready ", LONG_TIMEOUT);
    let address = dev.wait_for_line("Elsa Studio: ", LONG_TIMEOUT);
    assert_eq!(address, format!("{base}/studio"));
    assert_eq!(dev.stdout().last(), Some(&format!("Elsa Studio: {address}")));
    dev.signal("INT");
    assert_eq!(dev.wait(LONG_TIMEOUT).code(), Some(0), "{}", dev.stderr().join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
    let start = include_str!("../../../scripts/start");
    assert_eq!(start.trim_end().lines().last(), Some("exec \"$program\" dev \"$@\""));
}

#[test]
fn a_port_in_use_is_reported_before_anything_is_started() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut dev = Child::start(
        &[
            "dev",
            "--nodes",
            "2",
            "--listen",
            &address,
            "--data-dir",
            "/dev/null/none",
        ],
        &[],
    );
    assert_eq!(dev.wait(LONG_TIMEOUT).code(), Some(1));
    assert!(dev.stderr().join("\n").contains(&address), "{:?}", dev.stderr());
}

//! The sample of an approval by mail, over three nodes: who is asked answers once, at any node, whatever is killed meanwhile.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{incident, run};
use crate::support::node::{Node, assert_invariants, start_three};
use crate::support::receiver::{Receiver, register};
use crate::support::single_node::SingleNode;
use crate::support::smtp::{Encryption, ReceivedMail, SmtpServer};
use crate::support::{Connection, Gate, Http, LONG_TIMEOUT, TestDatabase, poll_until, wait_until};

const ID: &str = "approval-by-mail";

/// Where the burst that mails is lost, and whether it is committed there.
const LOST_AT: [(&str, bool); 4] = [
    ("burst.after", false),
    ("commit.begun", false),
    ("commit.written", false),
    ("commit.committed", true),
];

fn sample() -> Value {
    serde_json::from_str(include_str!("../../../samples/approval-by-mail.json")).unwrap()
}

fn settings(url: &str) -> [&str; 6] {
    [
        "--check-in",
        "200ms",
        "--smtp-url",
        url,
        "--mail-from",
        "Office <office@example.org>",
    ]
}

/// The start of the instance `a`.
fn start(remind_after: &str) -> Value {
    json!({"instanceId": "a", "input": {"Item": "<b>Chairs</b> & \"tables\"", "Approver": "ann@example.org",
        "Manager": "max@example.org", "RemindAfter": remind_after}})
}

/// The links of a mail: that which approves, and that which refuses.
#[track_caller]
fn links(mail: &ReceivedMail) -> (String, String) {
    let body = mail.body();
    let urls = body
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0);
    let urls: Vec<&str> = urls.collect();
    let [approve, refuse] = urls.as_slice() else {
        panic!("{body}")
    };
    assert!(approve.starts_with('/') && approve != refuse, "{urls:?}");
    ((*approve).to_owned(), (*refuse).to_owned())
}

/// Receives the ends of instances.
async fn ends(http: &Http) -> Receiver {
    let receiver = Receiver::start().await;
    let types = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(http, "ends", receiver.url(), types).await;
    receiver
}

/// The instance has ended once, with this decision, and everybody agrees.
async fn assert_decided(http: &Http, client: &Connection, receiver: &Receiver, decision: &str) {
    http.instance_becomes("a", "Finished").await;
    let instance = http.get("workflow-instances/a").await.expect(200);
    assert_eq!(instance["workflowState"]["output"]["Decision"], decision, "{instance}");
    let ended = "journal WHERE instance_id = 'a' AND activity_id = 'Result' AND event_name = 'Completed'";
    assert_eq!(client.rows(ended).await, 1);
    client.wait_for_rows("webhook_delivery WHERE state = 0", 0).await;
    let ids: BTreeSet<String> = receiver.received().iter().map(|received| received.id()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(receiver.received()[0].body["payload"]["workflowInstanceId"], "a");
    assert_eq!(client.rows("timer").await, 0, "no reminder is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_simultaneous_answers_at_three_nodes_counts() {
    let server = SmtpServer::start(Encryption::None).await;
    let url = server.plain_url();
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let nodes = start_three(&database, &settings(&url)[2..]);
    let [one, two, three] = [0, 1, 2].map(|at: usize| nodes[at].http.clone().unwrap());
    let receiver = ends(&one).await;
    one.publish(&sample()).await;
    one.dispatch(ID, &start("1.00:00:00")).await;
    one.instance_becomes("a", "Suspended").await;
    let mails = server.mails();
    let [mail] = mails.as_slice() else { panic!("{mails:?}") };
    assert_eq!(
        (&*mail.from, &mail.to[..]),
        ("office@example.org", &["ann@example.org".to_owned()][..])
    );
    let shown = "<p>&#60;b&#62;Chairs&#60;/b&#62; &#38; &#34;tables&#34; waits for your approval.</p>";
    assert!(mail.body().contains(shown), "{}", mail.body());
    let (approve, refuse) = links(mail);
    // Who scans mails opens all of it.
    for http in [&one, &two, &three] {
        for link in [&approve, &refuse] {
            assert_eq!(http.get(link).await.status, 200);
        }
    }
    one.instance_becomes("a", "Suspended").await;
    let empty = json!({});
    let (first, second, third) = tokio::join!(
        one.post(&approve, &empty),
        two.post(&approve, &empty),
        three.post(&approve, &empty)
    );
    let mut statuses = [first.status, second.status, third.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410, 410]);
    assert_decided(&three, &client, &receiver, "approved").await;
    two.post(&refuse, &empty).await.assert_refused(410, "link-ended");
    assert_eq!(server.mails().len(), 1);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_and_the_manager_have_links_of_their_own() {
    let server = SmtpServer::start(Encryption::None).await;
    let url = server.plain_url();
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let nodes = start_three(&database, &settings(&url)[2..]);
    let [one, two, three] = [0, 1, 2].map(|at: usize| nodes[at].http.clone().unwrap());
    let receiver = ends(&one).await;
    one.publish(&sample()).await;
    one.dispatch(ID, &start("00:00:00.2")).await;
    wait_until("three mails", async || server.mails().len() == 3).await;
    let waits = "timer WHERE instance_id = 'a' AND due > now() + interval '11 days'";
    client.wait_for_rows(waits, 1).await;
    let mails = server.mails();
    let sent: Vec<(&str, &str)> = mails
        .iter()
        .map(|mail| (&*mail.to[0], mail.header("Subject")))
        .collect();
    assert_eq!(
        sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
        ["ann@example.org", "ann@example.org", "max@example.org"]
    );
    for ((_, subject), begin) in sent.iter().zip(["Please approve: ", "Reminder: ", "Escalated: "]) {
        assert!(subject.starts_with(begin), "{subject}");
    }
    let of_all: BTreeSet<String> = mails
        .iter()
        .flat_map(|mail| <[String; 2]>::from(links(mail)))
        .chain(mails.iter().map(|mail| mail.header("Message-ID").to_owned()))
        .collect();
    assert_eq!(of_all.len(), 9, "{of_all:?}");
    // The first mail is as good as the last.
    two.post(&links(&mails[0]).1, &json!({})).await.expect(200);
    assert_decided(&three, &client, &receiver, "refused").await;
    let (approve, refuse) = links(&mails[2]);
    for link in [approve, refuse] {
        three.post(&link, &json!({})).await.assert_refused(410, "link-ended");
    }
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_whose_node_is_killed_is_sent_again_with_the_same_links() {
    for (point, is_committed) in LOST_AT {
        let server = SmtpServer::start(Encryption::None).await;
        let url = server.plain_url();
        let settings = settings(&url);
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let no_workers = [&settings[..], &["--workers", "0"]].concat();
        let accepting = Node::start_with(&database, "one", &no_workers, "");
        let one = accepting.http.clone().unwrap();
        let receiver = ends(&one).await;
        one.publish(&sample()).await;
        let stall = Gate::new();
        let mut lost = Node::start_with(&database, "lost", &settings, &stall.stalls(point));
        one.dispatch(ID, &start("1.00:00:00")).await;
        stall.reached().await;
        let (approve, refuse) = links(&server.mails()[0]);
        if !is_committed {
            one.post(&approve, &json!({})).await.assert_refused(410, "link-unknown");
        }
        lost.child.kill9();
        let others = ["two", "three"].map(|name| Node::start_with(&database, name, &settings, ""));
        let [two, three] = [0, 1].map(|at: usize| others[at].http.clone().unwrap());
        poll_until(LONG_TIMEOUT, "the instance to wait", async || {
            let waits = "instance WHERE id = 'a' AND status = 0 AND sub_status = 2";
            (client.rows(waits).await == 1).then_some(())
        })
        .await;
        let mails = server.mails();
        assert_eq!(mails.len(), if is_committed { 1 } else { 2 }, "{point}");
        for mail in &mails {
            assert_eq!(links(mail), (approve.clone(), refuse.clone()), "{point}");
            assert_eq!(mail.header("Message-ID"), mails[0].header("Message-ID"), "{point}");
        }
        two.post(&approve, &json!({})).await.expect(200);
        three.post(&approve, &json!({})).await.assert_refused(410, "link-used");
        assert_decided(&three, &client, &receiver, "approved").await;
        one.post(&refuse, &json!({})).await.assert_refused(410, "link-ended");
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mail_server_the_sample_is_published_and_says_what_to_set() {
    let node = SingleNode::start(&[]).await;
    node.http.publish(&sample()).await;
    let (message, code) = incident(&run(&node, ID).await);
    assert_eq!(code, "mail-not-configured");
    assert!(message.contains("smtp-url"), "{message}");
    node.assert_invariants();
}

//! Requests with files, which only the process that has them can run.

use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::http_request::{Web, file, keyed, resume, says, text};
use crate::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use crate::check;
use crate::id::InstanceId;
use crate::runtime::engine::http_request::HttpRun;
use crate::spool::RequestFiles;

/// What the bursts of a test wait for.
static GATE: Semaphore = Semaphore::const_new(0);

/// Waits until a test lets it go on.
pub(super) struct Gate;

impl Activity for Gate {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Test.Gate")
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if let Ok(permit) = GATE.acquire().await {
            permit.forget();
        }
        Ok(Step::Done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_files_runs_where_they_are() {
    let web = Web::new().await;
    web.publish(&[json!({"id": "d", "type": "Test.Entry"}), says("b")])
        .await;
    let with_file = async |run: HttpRun| HttpRun {
        files: RequestFiles::new(vec![file().await]),
        ..run
    };
    let outcome = web
        .engine
        .run_request(with_file(keyed(web.start(), "k", 1)).await)
        .await
        .unwrap();
    assert_eq!(text(&outcome), "Waiting");
    let again = web
        .engine
        .run_request(with_file(keyed(web.start(), "k", 1)).await)
        .await
        .unwrap();
    assert_eq!(again.instance_id, outcome.instance_id);
    let run = with_file(resume(&web.engine, &outcome.instance_id).await).await;
    let beside = web.beside(8).await;
    assert_eq!(text(&web.engine.run_request(run).await.unwrap()), "b again");

    beside.shutdown().await;
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_workers_takes_no_files() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    let idle = web.beside(0).await;
    let upload = async || HttpRun {
        files: RequestFiles::new(vec![file().await]),
        ..keyed(web.start(), "k", 1)
    };
    assert_eq!(
        idle.run_request(upload().await).await.unwrap_err().code(),
        "no-worker-here"
    );
    let outcome = web.engine.run_request(upload().await).await.unwrap();
    assert_eq!(text(&outcome), "a hello");
    let again = idle.run_request(upload().await).await.unwrap();
    assert_eq!(again.instance_id, outcome.instance_id);
    idle.shutdown().await;
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_held_request_end_with_its_burst() {
    let web = Web::new().await;
    web.publish(&[json!({"id": "d", "type": "Test.Entry"}), says("b")])
        .await;
    let files = RequestFiles::new(vec![file().await]);
    let path = files.all()[0].path().to_owned();
    let run = HttpRun {
        instance_id: Some(InstanceId::new("held")),
        files: files.clone(),
        wait_for_response: Some(Duration::from_secs(20)),
        ..web.start()
    };
    let engine = web.engine.clone();
    let held = tokio::spawn(async move { engine.run_request(run).await });
    let gone = async {
        while !files.is_empty() || path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    assert!(!held.is_finished());
    let run = resume(&web.engine, &InstanceId::new("held")).await;
    assert_eq!(text(&web.engine.run_request(run).await.unwrap()), "b again");
    drop(held.await.unwrap());
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_files_is_not_pending_before_its_commit() {
    let web = Web::new().await;
    web.publish(&[
        json!({"id": "d", "type": "Test.Entry"}),
        json!({"id": "g", "type": "Test.Gate"}),
        says("b"),
    ])
    .await;
    web.engine.shutdown().await;
    let beside = web.beside(1).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(beside.run_request(web.start()).await.unwrap().instance_id);
    }
    let [running, queued, unnoted] = <[InstanceId; 3]>::try_from(waiting).unwrap();
    let upload = async |id: &InstanceId, key: &str, millis: u64| HttpRun {
        files: RequestFiles::new(vec![file().await]),
        deadline: Instant::now() + Duration::from_millis(millis),
        ..keyed(resume(&beside, id).await, key, 1)
    };
    // The burst of the first takes the only worker; what it will come to is not known.
    let run = upload(&running, "one", 800).await;
    let error = beside.run_request(run).await.unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
    let again = beside
        .run_request(upload(&running, "one", 300).await)
        .await
        .unwrap_err();
    assert!(again.is_unknown_outcome(), "{again}");
    // No burst of the second has begun: nothing of it is left.
    let run = upload(&queued, "two", 300).await;
    assert_eq!(beside.run_request(run).await.unwrap_err().code(), "request-not-run");
    assert_eq!(web.count("SELECT count(*) FROM mainspring.work").await, 1);
    let keys = "SELECT count(*) FROM mainspring.idempotency_key WHERE route = 'http'";
    assert_eq!(web.count(keys).await, 1);
    // That the row of the third was consumed means that it was committed, unless it was discarded.
    let client = web.database.connect().await;
    for note in [
        "",
        "INSERT INTO unmatched_work (tenant_id, work_id, discarded) SELECT tenant_id, id, true FROM gone",
    ] {
        let run = upload(&unnoted, &format!("three {note}"), 2_000).await;
        let consume = async {
            let gone = "DELETE FROM work WHERE instance_id = $1 RETURNING tenant_id, id";
            let rest = if note.is_empty() { "SELECT 1" } else { note };
            let consume = format!("WITH gone AS ({gone}) {rest}");
            client.batch_execute("SET search_path = mainspring").await.unwrap();
            while web.count("SELECT count(*) FROM mainspring.work").await < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            client.execute(&consume, &[&unnoted.as_str()]).await.unwrap();
        };
        let (ended, ()) = tokio::join!(beside.run_request(run), consume);
        match note {
            "" => assert_eq!(text(&ended.unwrap()), "Pending"),
            _ => assert_eq!(ended.unwrap_err().code(), "request-not-run"),
        }
    }
    GATE.add_permits(2);
    let again = beside.run_request(upload(&running, "one", 20_000).await).await.unwrap();
    assert_eq!(text(&again), "b again");
    let again = beside.run_request(upload(&queued, "two", 20_000).await).await.unwrap();
    assert_eq!(text(&again), "b again");
    beside.shutdown().await;
    assert_eq!(check(&web.database.url(), "mainspring").await.unwrap(), []);
}

/// A row of a request with files, as a process that is gone has left it.
const VOLATILE: &str = "
    INSERT INTO mainspring.idempotency_key (tenant_id, route, key, fingerprint, instance_id)
        VALUES ('', 'http', 'scoped:k', '', 'lost'), ('', 'http', 'scoped:other', '', 'other');
    INSERT INTO mainspring.work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
        SELECT '', 'lost', 0, definition_id, version_id, version, json_build_object('triggerActivityId', 'entry', 'payload', 'x',
            'request', json_build_object('id', gen_random_uuid(), 'holder', 1, 'files', json_build_array('gone'), 'key', 'scoped:k'))
        FROM mainspring.definition WHERE is_published";

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_files_are_lost_is_discarded_with_its_key() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    let client = web.database.connect().await;
    // The sequence of incarnations begins at 1, which is this node: another number for the lost one.
    let rows = VOLATILE.replace("'holder', 1", "'holder', 987654321");
    client.batch_execute(&rows).await.unwrap();
    web.becomes("SELECT count(*) FROM mainspring.work", 0).await;
    assert_eq!(web.count("SELECT count(*) FROM mainspring.instance").await, 0);
    let keys = "SELECT count(*) FROM mainspring.idempotency_key WHERE route = 'http'";
    assert_eq!(web.count(keys).await, 1, "only the key of the other request is left");
    let noted = "SELECT count(*) FROM mainspring.unmatched_work WHERE discarded";
    assert_eq!(web.count(noted).await, 1);
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_files_another_node_has_is_left_to_it() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    let idle = web.beside(0).await;
    let client = web.database.connect().await;
    let holder = "SELECT incarnation FROM mainspring.node WHERE node_id = 'beside'";
    let holder: i64 = client.query_one(holder, &[]).await.unwrap().get(0);
    let rows = VOLATILE.replace("'holder', 1", &format!("'holder', {holder}"));
    client.batch_execute(&rows).await.unwrap();
    // One whose files are lost comes behind it: once that is gone, the other has been looked at, too.
    let lost = VOLATILE.replace("'holder', 1", "'holder', 987654321");
    let lost = lost.replace("'lost'", "'behind'").replace("scoped:", "behind:");
    client.batch_execute(&lost).await.unwrap();
    let behind = "SELECT count(*) FROM mainspring.work WHERE instance_id = 'behind'";
    web.becomes(behind, 0).await;
    assert_eq!(web.count("SELECT count(*) FROM mainspring.work").await, 1);
    idle.shutdown().await;
    web.becomes("SELECT count(*) FROM mainspring.work", 0).await;
    assert_eq!(web.count("SELECT count(*) FROM mainspring.instance").await, 0);
    web.finish().await;
}

//! Rows that wait, that are lost, or that belong to nothing.

use serde_json::json;

use super::{assert_finds, assert_silent, examine, of};
use crate::support::node::Node;
use crate::support::single_node::waits_for;
use crate::support::{TIMEOUT, TestDatabase, poll_until};

const INSTANCE: &str =
    "INSERT INTO mainspring.instance (tenant_id, id, definition_id, version_id, definition_version, status,
    sub_status, version, state, updated_at) VALUES ('', 'i7', 'd', 'v', 1, 0, 2, 1, '{}', now() - interval '1 hour');";

/// A database without nodes in which this check finds nothing, and then finds these parts.
async fn finds(check: &str, plant: &str, parts: &[&str]) -> (TestDatabase, String) {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), check);
    database.connect().await.run(plant).await;
    let remedy = assert_finds(&examine(&database), check, parts);
    (database, remedy)
}

#[tokio::test]
async fn late_timers_work_and_schedules_are_found_with_the_instance_that_waits() {
    let late = "now() - interval '1 hour'";
    let timer = format!(
        "INSERT INTO mainspring.timer (tenant_id, instance_id, id, due, available_at) VALUES ('', 'i7', 'b', {late}, {late})"
    );
    let (_database, remedy) = finds("late-timers", &timer, &["1 timers are late", "i7"]).await;
    assert!(remedy.contains("missing-roles"), "{remedy}");
    let work = format!(
        "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at) VALUES ('', 'i7', 1, '{{}}', {late})"
    );
    finds("late-work", &work, &["1 rows of work wait", "i7"]).await;
    let schedule = format!(
        "INSERT INTO mainspring.schedule (tenant_id, id, definition_id, activity_id, activity_type, spec, anchor, tz_version, overlap,
             next_occurrence, next_fire) VALUES ('', 's7', 'd7', 'a', 'Elsa.Cron', '{{}}', now(), '2026a', 0, {late}, {late})"
    );
    finds("late-schedules", &schedule, &["s7", "d7", "has not fired"]).await;
}

#[tokio::test]
async fn what_nothing_can_wake_is_found() {
    finds("stuck-instances", INSTANCE, &["i7", "nothing can wake it"]).await;
    // An instance that waits is none.
    let bookmark = |instance: &str, publishable: bool, name: &str| {
        format!(
            "INSERT INTO mainspring.bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash,
                 payload, publishable, created_at)
             VALUES ('', '{instance}', 'b', 'a', 'n', 'e', '{name}', sha256(''), '{{}}', {publishable}, now() - interval '1 hour');"
        )
    };
    let waits = INSTANCE.to_owned() + &bookmark("i7", true, "Elsa.Event");
    let database = TestDatabase::create().await;
    database.connect().await.run(&waits).await;
    let found = examine(&database);
    assert_silent(&found, "stuck-instances");
    assert_silent(&found, "bookmark-owners");

    finds(
        "bookmark-owners",
        &bookmark("gone", true, "Elsa.Event"),
        &["gone", "no instance that runs"],
    )
    .await;
    let delay = INSTANCE.to_owned() + &bookmark("i7", false, "Elsa.Delay");
    finds("bookmark-owners", &delay, &["i7", "has no timer"]).await;
    let timer = "INSERT INTO mainspring.timer (tenant_id, instance_id, id, due, available_at)
                 VALUES ('', 'i7', 'b', now() + interval '1 hour', now() + interval '1 hour')";
    finds("timer-owners", timer, &["i7", "has no bookmark"]).await;
    let trigger = "INSERT INTO mainspring.trigger (tenant_id, definition_id, activity_id, hash, name, payload)
                   VALUES ('', 'd7', 'a', sha256(''), 'Elsa.Event', '{}')";
    finds("trigger-owners", trigger, &["d7", "no published version"]).await;
}

#[tokio::test]
async fn retries_dead_letters_and_sinks_are_found_by_their_cause() {
    let work = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at, failures, crashes)
                VALUES ('', 'i7', 1, '{}', now() + interval '30 s', 5, 0), ('', 'i8', 1, '{}', now() + interval '30 s', 0, 2)";
    let (database, _) = finds("retries", work, &["i7", "has failed 5 times"]).await;
    assert_finds(
        &examine(&database),
        "retries",
        &["i8", "runs alone, as 2 processes crashed"],
    );
    let letters = "INSERT INTO mainspring.dead_letter (tenant_id, instance_id, kind, reason, work_id, failures, crashes)
                   VALUES ('', 'i7', 1, 'the disk of the service is full', 1, 20, 0), ('', 'i8', 1, 'the process crashed', 2, 0, 3)";
    let (database, _) = finds(
        "dead-letters",
        letters,
        &["1 dead letters with the cause failed", "i7", "the disk of"],
    )
    .await;
    assert_finds(&examine(&database), "dead-letters", &["the cause crashed", "i8"]);
    let sink = "INSERT INTO mainspring.webhook_sink (tenant_id, id, url, event_types, definitions, secret, retry_for, failures, note)
                VALUES ('', 'shop', 'http://sink.example', '{}', '{}', 'whsec_', '1 day', 4, 'the answer was 500')";
    finds("webhook-sinks", sink, &["shop", "4 times in a row: the answer was 500"]).await;
}

/// The activity type is published by a node that has it, and only nodes without it are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_no_node_can_run_is_found_with_the_activity() {
    let database = TestDatabase::create().await;
    {
        let node = Node::start(&database, "one");
        let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": [waits_for("never")]});
        node.http
            .as_ref()
            .unwrap()
            .publish(&json!({"definitionId": "old", "root": root}))
            .await;
        assert_silent(&examine(&database), "unsupported");
    }
    let lacks = ["--check-in", "200ms", "--disable-activity", "Elsa.Event"];
    let _two = Node::start_with(&database, "two", &lacks, "");
    // The first node was killed, and is removed.
    let found = poll_until(TIMEOUT, "the finding", async || {
        let found = examine(&database);
        (!of(&found, "unsupported").is_empty()).then_some(found)
    })
    .await;
    assert_finds(&found, "unsupported", &["definition old, version 1", "Elsa.Event"]);
}

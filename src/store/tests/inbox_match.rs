//! The pages that start what the inbox keeps for a published trigger: each stimulus starts each trigger once, whatever
//! happens between two pages.

use super::activation::Environment;
use super::definitions::{definition, trigger};
use crate::assert_outcome;
use crate::db::Pool;
use crate::id::DefinitionId;
use crate::store::commit::CommitOutcome;
use crate::store::definition::{self, StartSources, TriggerRow};
use crate::store::{activation, check, inbox_match};
use crate::testing::store::{Fixture, burst, waiting};

const HASH: u8 = 9;

/// Keeps stimuli for anyone, with payloads of so many bytes.
async fn keep(fixture: &Fixture, count: i64, bytes: i32) {
    let kept = format!(
        "INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
         SELECT '', decode(repeat('0{HASH}', 32), 'hex'), 'Elsa.Event', to_json(n || repeat('x', {bytes})), now() + '1 h'
         FROM generate_series(1, {count}) n"
    );
    fixture.execute(&kept).await;
}

/// Publishes a definition, each time with another body.
async fn publish(fixture: &Fixture, pool: &Pool, id: &str, triggers: &[TriggerRow]) {
    let mut new = definition("n");
    new.definition_id = DefinitionId::new(id);
    new.body = serde_json::json!({"edition": rand::random::<u64>().to_string()}).into();
    let class = fixture.base.schema().lock_class();
    definition::save(pool, class, &new, Some(StartSources::by(triggers)))
        .await
        .unwrap();
}

async fn page(pool: &Pool) -> usize {
    inbox_match::page(pool).await.unwrap().unwrap().started
}

/// So many starts of each definition, each of another stimulus.
async fn assert_started(fixture: &Fixture, expected: &[(&str, i64)]) {
    let sql = "SELECT definition_id, count(*), count(DISTINCT body->>'payload'), count(DISTINCT instance_id)
               FROM work GROUP BY 1 ORDER BY 1";
    let rows = fixture.admin.client.query(sql, &[]).await.unwrap();
    let started: Vec<(String, i64, i64, i64)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let expected: Vec<_> = expected.iter().map(|(id, n)| ((*id).to_owned(), *n, *n, *n)).collect();
    assert_eq!(started, expected);
}

async fn left(fixture: &Fixture) -> (i64, i64) {
    (
        fixture.count("SELECT count(*) FROM inbox").await,
        fixture.count("SELECT count(*) FROM inbox_match").await,
    )
}

#[tokio::test]
async fn pages_start_the_oldest_first_and_each_trigger_once() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 4).unwrap();
    keep(&fixture, 1200, 1).await;
    let another = TriggerRow {
        activity_id: "z".to_owned(),
        ..trigger(HASH)
    };
    publish(&fixture, &pool, "d", &[trigger(HASH), another, trigger(8)]).await;
    assert_eq!(left(&fixture).await, (1200, 1));
    // 250 stimuli for two triggers.
    assert_eq!(page(&pool).await, 500);
    assert_eq!(left(&fixture).await, (950, 1));
    let oldest = "SELECT count(*) FROM inbox WHERE payload::text NOT LIKE ALL (SELECT '\"' || n || 'x\"'
                  FROM generate_series(251, 1200) n)";
    assert_eq!(fixture.count(oldest).await, 0);
    fixture.is_sound().await;
    assert_eq!(fixture.match_inbox(&pool).await, 4);
    assert_eq!(left(&fixture).await, (0, 0));
    assert_eq!(
        fixture.count("SELECT count(DISTINCT instance_id) FROM work").await,
        2400
    );
    assert_eq!(
        fixture.count("SELECT count(DISTINCT body->>'payload') FROM work").await,
        1200
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_page_copies_at_most_so_many_bytes_and_one_stimulus_at_least() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 4).unwrap();
    keep(&fixture, 6, 1_500_000).await;
    keep(&fixture, 2, 5_000_000).await;
    publish(&fixture, &pool, "d", &[trigger(HASH)]).await;
    let mut pages = Vec::new();
    while let Some(page) = inbox_match::page(&pool).await.unwrap() {
        pages.push(page.started);
    }
    // The last page finds that nothing is left.
    assert_eq!(pages, [2, 2, 2, 1, 1]);
    assert_eq!(left(&fixture).await, (0, 0));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_publish_between_two_pages_loses_and_doubles_nothing() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 4).unwrap();
    keep(&fixture, 1100, 1).await;
    publish(&fixture, &pool, "d", &[trigger(HASH)]).await;
    assert_eq!(page(&pool).await, 500);
    // The same trigger in another version continues.
    publish(&fixture, &pool, "d", &[trigger(HASH), trigger(8)]).await;
    assert_eq!(left(&fixture).await, (600, 1));
    assert_eq!(page(&pool).await, 500);
    // Without the trigger the match ends, and the rest is kept for others.
    publish(&fixture, &pool, "d", &[trigger(8)]).await;
    assert_eq!(fixture.match_inbox(&pool).await, 0);
    assert_eq!(left(&fixture).await, (100, 0));
    fixture.is_sound().await;
    publish(&fixture, &pool, "d", &[trigger(HASH)]).await;
    assert_eq!(fixture.match_inbox(&pool).await, 1);
    assert_started(&fixture, &[("d", 1100)]).await;
    let versions = "SELECT count(DISTINCT definition_version) FROM work";
    assert_eq!(fixture.count(versions).await, 3);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_publish_waits_for_the_page_in_flight() {
    for has_trigger in [true, false] {
        let fixture = Fixture::new().await;
        let pool = Pool::new(&fixture.base, 4).unwrap();
        keep(&fixture, 600, 1).await;
        publish(&fixture, &pool, "d", &[trigger(HASH)]).await;
        let blocker = fixture.session().await;
        let locks = "BEGIN; SELECT 1 FROM inbox ORDER BY id LIMIT 1 FOR UPDATE";
        blocker.client.batch_execute(locks).await.unwrap();
        let pages = tokio::spawn({
            let pool = pool.clone();
            async move { page(&pool).await }
        });
        fixture.a_session_waits().await;
        // Another node finds nothing to do.
        assert!(inbox_match::page(&pool).await.unwrap().is_none());
        let triggers = if has_trigger { vec![trigger(HASH)] } else { Vec::new() };
        let publishes = publish(&fixture, &pool, "d", &triggers);
        let goes_on = async {
            fixture.so_many_wait(2).await;
            blocker.client.batch_execute("ROLLBACK").await.unwrap();
        };
        tokio::join!(publishes, goes_on);
        assert_eq!(pages.await.unwrap(), 500);
        fixture.is_sound().await;
        fixture.match_inbox(&pool).await;
        let (started, kept) = if has_trigger { (600, 0) } else { (500, 100) };
        assert_started(&fixture, &[("d", started)]).await;
        assert_eq!(left(&fixture).await, (kept, 0));
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn of_two_definitions_the_one_that_was_published_first_takes_all() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 4).unwrap();
    keep(&fixture, 1100, 1).await;
    publish(&fixture, &pool, "first", &[trigger(HASH)]).await;
    assert_eq!(page(&pool).await, 500);
    publish(&fixture, &pool, "a-second", &[trigger(HASH)]).await;
    assert_eq!(page(&pool).await, 500);
    assert_started(&fixture, &[("first", 1000)]).await;
    fixture.is_sound().await;
    // What the first one no longer takes is left to the second one.
    publish(&fixture, &pool, "first", &[]).await;
    fixture.match_inbox(&pool).await;
    assert_started(&fixture, &[("a-second", 100), ("first", 1000)]).await;
    assert_eq!(left(&fixture).await, (0, 0));
    fixture.is_sound().await;
}

#[tokio::test]
async fn pages_of_several_nodes_and_lost_connections_start_each_stimulus_once() {
    let fixture = Fixture::new().await;
    let pools = [
        Pool::new(&fixture.base, 2).unwrap(),
        Pool::new(&fixture.base, 2).unwrap(),
    ];
    keep(&fixture, 5000, 1).await;
    publish(&fixture, &pools[0], "d", &[trigger(HASH)]).await;
    let loses = async {
        for _ in 0..20 {
            let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                             WHERE datname = current_database() AND pid <> pg_backend_pid()";
            fixture.execute(terminate).await;
            tokio::task::yield_now().await;
        }
    };
    let node = async |pool: &Pool| {
        while fixture.count("SELECT count(*) FROM inbox_match").await > 0 {
            // The connection is lost, or the other node has the match.
            let _ = inbox_match::page(pool).await;
        }
    };
    tokio::join!(loses, node(&pools[0]), node(&pools[1]));
    assert_started(&fixture, &[("d", 5000)]).await;
    assert_eq!(left(&fixture).await, (0, 0));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_bookmark_takes_what_no_page_has_taken_yet() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    keep(&fixture, 501, 1).await;
    publish(&fixture, &writer.pool, "d", &[trigger(HASH)]).await;
    assert_eq!(page(&writer.pool).await, 500);
    assert_outcome!(
        writer.write(waiting(burst("i", None), "b", HASH)).await,
        CommitOutcome::Committed(_)
    );
    assert_eq!(fixture.match_inbox(&writer.pool).await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 2").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 0").await, 500);
    assert_eq!(left(&fixture).await, (0, 0));
    fixture.is_sound().await;
}

#[tokio::test]
async fn pages_wait_until_the_instances_of_a_new_strategy_are_counted() {
    let env = Environment::new("AllowAlways").await;
    let pool = env.writer.pool.clone();
    env.start("pending", None).await.unwrap();
    keep(&env.fixture, 1100, 1).await;
    super::activation::publish(&env.fixture, &env.writer, "Singleton", &[trigger(HASH)]).await;
    let client = &env.fixture.admin.client;
    let unseeded = "UPDATE definition SET seeding = 2 WHERE is_published";
    client.batch_execute(unseeded).await.unwrap();
    assert_eq!(env.fixture.match_inbox(&pool).await, 0);
    assert_eq!(left(&env.fixture).await, (1100, 1));
    let class = env.fixture.base.schema().lock_class();
    activation::finish_all_publishes(&pool, class).await.unwrap();
    let mut refused = 0;
    while let Some(page) = inbox_match::page(&pool).await.unwrap() {
        assert_eq!(page.started, 0);
        refused += page.refused;
    }
    assert_eq!(refused, 1100);
    assert_eq!(left(&env.fixture).await, (0, 0));
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_kept_event_without_a_match_and_a_match_without_a_trigger_are_reported() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 2).unwrap();
    keep(&fixture, 3, 1).await;
    publish(&fixture, &pool, "d", &[trigger(HASH)]).await;
    let reported = async |broken: &str| {
        fixture.execute(broken).await;
        let found = check::check(&fixture.admin.client).await.unwrap();
        fixture.execute("ROLLBACK").await;
        found.into_iter().map(|found| found.invariant).collect::<Vec<_>>()
    };
    let missed = ["trigger-missed-its-stimulus"];
    assert_eq!(reported("BEGIN; DELETE FROM inbox_match").await, missed);
    assert_eq!(reported("BEGIN; UPDATE inbox_match SET cursor = 1").await, missed);
    let stale = reported("BEGIN; DELETE FROM trigger").await;
    assert_eq!(stale, ["inbox-match-without-trigger"]);
    fixture.is_sound().await;
}

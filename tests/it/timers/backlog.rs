//! What became due during a downtime runs in order, interleaved with new work.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::schedule_load::script;
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, long, poll_until, wait_until};

/// How many triggers one definition has.
const TRIGGERS: usize = 250;

fn size() -> usize {
    if long() { 25_000 } else { 500 }
}

/// Accepts work while no node with workers runs.
fn api_node(database: &TestDatabase) -> (Node, Http) {
    let api_node = Node::start_with(database, "api-node", &["--check-in", "200ms", "--roles", "api"], "");
    let http = api_node.http.clone().unwrap();
    (api_node, http)
}

fn workers(database: &TestDatabase) -> Vec<Node> {
    let settings = ["--check-in", "200ms", "--roles", "worker,scheduler"];
    let start = |name| Node::start_with(database, name, &settings, "");
    ["one", "two"].map(start).into()
}

fn new(n: usize) -> Value {
    json!({"instanceId": format!("new-{n}")})
}

async fn publish_new(http: &Http) {
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": script("String", "'new'")});
    http.publish(&json!({"definitionId": "new", "root": line})).await;
}

async fn wait_until_finished(client: &Connection, all: usize) {
    poll_until(TIMEOUT * 10, "all to finish", async || {
        (client.rows("instance WHERE sub_status = 3").await == i64::try_from(all).unwrap()).then_some(())
    })
    .await;
}

/// The order in which they finished: for each place the rank by due time; none for new work.
async fn order(client: &Connection, rank: &str) -> Vec<Option<usize>> {
    let sql = format!(
        "SELECT CASE WHEN i.id LIKE 'new-%' THEN NULL ELSE {rank} END
         FROM mainspring.instance i ORDER BY i.finished_at, i.id"
    );
    let rows = client.query(&sql, &[]).await.unwrap();
    let ranks = rows.iter().map(|row| row.get::<_, Option<i64>>(0));
    ranks
        .map(|rank| rank.map(|rank| usize::try_from(rank).unwrap()))
        .collect()
}

/// Most are where their age puts them; gives how far the last new one is from the first of all, of one.
fn is_in_turn(order: &[Option<usize>], news: usize) -> f64 {
    let mut off: Vec<usize> = Vec::new();
    let mut last_new = 0;
    for (place, rank) in order.iter().enumerate() {
        match rank {
            Some(rank) => off.push(rank.abs_diff(place)),
            None => last_new = place,
        }
    }
    off.sort_unstable();
    assert_eq!(off.len() + news, order.len());
    let most = off[off.len() * 9 / 10];
    println!(
        "nine of ten are at most {most} places off their turn, half at most {}; of {} the last new one was at place {last_new}",
        off[off.len() / 2],
        order.len()
    );
    // In any order it would be half of all. A few polls of two nodes claim a small backlog, and says
    // nothing of its order.
    assert!(most < order.len() / 3 || !long(), "{most} places off");
    last_new as f64 / order.len() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_due_during_a_downtime_end_in_order_interleaved_with_new_ones() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let (_api_node, http) = api_node(&database);
    let nap = json!({"definitionId": "nap", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", "'01:00:00'")},
        {"type": "Elsa.WriteLine", "id": "line", "text": script("String", "'up'")}
    ]}});
    http.publish(&nap).await;
    publish_new(&http).await;
    let mut nodes = workers(&database);
    let (size, news) = (size(), 20);
    let lane = async |lane: usize| {
        for n in (lane..size).step_by(8) {
            let start = json!({"instanceId": format!("{n}")});
            http.dispatch("nap", &start).await;
        }
    };
    futures_util::future::join_all((0..8).map(lane)).await;
    let wanted = i64::try_from(size).unwrap();
    poll_until(TIMEOUT * 10, "all to sleep", async || {
        (client.rows("timer WHERE claimed_by IS NULL").await == wanted).then_some(())
    })
    .await;
    for node in &mut nodes {
        node.child.kill9();
    }
    // They come due, in an order that is not that of their rows.
    let due = "UPDATE mainspring.timer SET due = t.at, available_at = t.at
               FROM (SELECT instance_id, clock_timestamp() - interval '1 minute'
                            + (instance_id::bigint * 7919 % (SELECT count(*) FROM mainspring.timer)) * interval '1 millisecond' AS at
                     FROM mainspring.timer) t
               WHERE timer.instance_id = t.instance_id";
    client.run(due).await;
    for n in 0..news {
        http.dispatch("new", &new(n)).await;
    }
    let began = std::time::Instant::now();
    let _nodes = workers(&database);
    wait_until_finished(&client, size + news).await;
    println!("{size} sleepers in {:?}", began.elapsed());
    let rank = format!("i.id::bigint * 7919 % {size}");
    let last_new = is_in_turn(&order(&client, &rank).await, news);
    assert!(
        last_new < 0.75 || !long(),
        "the new ones waited for {last_new} of the old ones"
    );
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_due_during_a_downtime_fire_in_order_interleaved_with_new_ones() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let (_api_node, http) = api_node(&database);
    let size = size();
    for n in 0..size / TRIGGERS {
        let timer = |at: usize| json!({"type": "Elsa.Timer", "id": format!("t{}", n * TRIGGERS + at), "canStartWorkflow": true, "interval": "01:00:00"});
        let timers: Vec<Value> = (0..TRIGGERS).map(timer).collect();
        let chart = json!({"type": "Elsa.Flowchart", "id": "chart", "activities": timers, "connections": []});
        http.publish(&json!({"definitionId": format!("many{n}"), "root": chart}))
            .await;
    }
    publish_new(&http).await;
    // Each has come due once.
    let due = "UPDATE mainspring.schedule SET version = version + 1, next_occurrence = s.at, next_fire = s.at, anchor = s.at - interval '1 hour'
               FROM (SELECT id, clock_timestamp() - interval '1 minute'
                            + (substr(activity_id, 2)::bigint * 7919 % (SELECT count(*) FROM mainspring.schedule)) * interval '1 millisecond' AS at
                     FROM mainspring.schedule) s
               WHERE schedule.id = s.id";
    client.run(due).await;
    let began = std::time::Instant::now();
    let _nodes = workers(&database);
    // As soon as there is a backlog of starts: nothing is new before.
    wait_until("the first to fire", async || {
        client.count("SELECT sum(fired)::bigint FROM mainspring.schedule").await > 0
    })
    .await;
    let news = 20;
    for n in 0..news {
        http.dispatch("new", &new(n)).await;
    }
    wait_until_finished(&client, size + news).await;
    println!("{size} schedules in {:?}", began.elapsed());
    let rank = format!(
        "(SELECT substr(j.activity_id, 2)::bigint * 7919 % {size} FROM mainspring.journal j
          WHERE j.instance_id = i.id AND j.activity_id LIKE 't%' AND j.event_name = 'Completed')"
    );
    let order = order(&client, &rank).await;
    let ranks: std::collections::BTreeSet<usize> = order.iter().flatten().copied().collect();
    assert_eq!(ranks.len(), size, "each has fired once");
    let last_new = is_in_turn(&order, news);
    // A small backlog is due before anything is new.
    assert!(
        last_new < 0.75 || !long(),
        "the new ones waited for {last_new} of the old ones"
    );
    assert_invariants(&database).await;
}

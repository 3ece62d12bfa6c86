//! `history`: lists, searches and bulk deletes among many instances, and executes beside them; definitions
//! with many versions, and a long journal.

mod rows;
mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{
    ANY_PORT, Client, Failure, Node, PersistentConnection, ScratchDatabase, Target, add_fields, count_violations,
    describe_environment, log_only, nearest_rank, node_options, on_signals, print_line, unless_stopped,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::settings::History;

/// Lists that are not measured: connections and caches are filled.
const WARM_UP: usize = 3;

/// Starts a second beside a bulk delete.
const STARTS: usize = 2_000;

/// Connections that send those starts.
const STARTERS: usize = 32;

pub(crate) async fn run(target: &Target, settings: &History) -> Result<(), Failure> {
    for line in describe_environment(target.database_url()?).await? {
        print_line(&line);
    }
    let stop = on_signals()?;
    let scratch = match &settings.history {
        Some(schema) => ScratchDatabase::existing(target.database_url()?, schema),
        None => ScratchDatabase::create_schema(target.database_url()?, "bench").await?,
    };
    let measured = unless_stopped(&stop, measure(target, settings, &scratch)).await;
    if settings.keep || settings.history.is_some() {
        print_line(&format!("the schema {} was kept", scratch.schema));
        return measured;
    }
    let removed = scratch.remove().await;
    measured.and(removed)
}

async fn measure(target: &Target, settings: &History, scratch: &ScratchDatabase) -> Result<(), Failure> {
    let mut node = Node::start(&node_options(target, scratch, log_only()), "node-1", ANY_PORT)?;
    node.ready().await?;
    let client = Client::new(&node.url());
    if settings.history.is_none() {
        rows::definitions(&client).await?;
        views::fill(&client, scratch).await?;
        let began = Instant::now();
        rows::fill(scratch, settings.rows).await?;
        let took = began.elapsed().as_secs_f64();
        print_line(&format!("{} instances written in {took:.0} s", settings.rows));
    }
    let samples = rows::Samples::read(scratch).await?;
    let mut report = json!({"bench": "history", "rows": settings.rows, "queries": settings.queries});
    for (name, body) in lists(&samples) {
        let request = |n| ("workflow-instances".to_owned(), Some(body(n)));
        let times = read_times(&client, settings.queries, request).await?;
        print_line(&format!("{name}: {times}"));
        add_fields(&mut report, json!({ (name): times.in_json() }));
    }
    for (name, request) in views::reads() {
        let times = read_times(&client, settings.queries, request).await?;
        print_line(&format!("{name}: {times}"));
        add_fields(&mut report, json!({ (name): times.in_json() }));
    }
    let alone = execute_times(&client, settings.seconds).await?;
    let (stop, listed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut listers = JoinSet::new();
    for number in 0..settings.clients {
        let bodies: Vec<String> = lists(&samples).into_iter().map(|(_, body)| body(number)).collect();
        let (client, stop, listed) = (client.clone(), Arc::clone(&stop), Arc::clone(&listed));
        listers.spawn(async move {
            let mut connection = PersistentConnection::open(&client).await?;
            for body in bodies.iter().cycle().skip(number) {
                if stop.load(Relaxed) {
                    break;
                }
                // Refused ones count, too: they are sent again at once.
                let _ = connection.post("workflow-instances", body.clone()).await;
                listed.fetch_add(1, Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    let beside = execute_times(&client, settings.seconds).await?;
    stop.store(true, Relaxed);
    while let Some(ended) = listers.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??;
    }
    let ratio = nearest_rank(&beside, 99) / nearest_rank(&alone, 99).max(1e-9);
    print_line(&format!(
        "execute: p99 {:.1} ms alone, {:.1} ms beside {} clients that list ({} lists): {ratio:.2} times",
        nearest_rank(&alone, 99),
        nearest_rank(&beside, 99),
        settings.clients,
        listed.load(Relaxed),
    ));
    add_fields(
        &mut report,
        json!({"execute_p99_ratio": (ratio * 100.0).round() / 100.0}),
    );
    if settings.delete {
        let per_second = delete(&client, settings).await?;
        add_fields(&mut report, json!({"deleted_per_s": per_second.round()}));
    }
    node.stop().await;
    let violations = count_violations(scratch).await?;
    if settings.json {
        print_line(&report.to_string());
    }
    if violations > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

type Body<'a> = Box<dyn Fn(usize) -> String + Send + Sync + 'a>;

fn list<'a>(name: &'static str, more: Box<dyn Fn(usize) -> Value + Send + Sync + 'a>) -> (&'static str, Body<'a>) {
    let body: Body<'a> = Box::new(move |n| {
        let mut body = json!({"page": 0, "pageSize": 25, "orderDirection": "Descending"});
        add_fields(&mut body, more(n));
        body.to_string()
    });
    (name, body)
}

/// The lists by name; each takes a number, so that no two requests ask for the same rows.
fn lists(samples: &rows::Samples) -> Vec<(&'static str, Body<'_>)> {
    vec![
        list("newest", Box::new(|_| json!({}))),
        list("page_40", Box::new(|n| json!({"page": 40 + n % 10}))),
        list(
            "by_definition",
            Box::new(|n| json!({"definitionId": samples.definition(n)})),
        ),
        list(
            "by_definitions",
            Box::new(|n| json!({"definitionIds": [samples.definition(n), samples.definition(n + 7)]})),
        ),
        list(
            "by_version",
            Box::new(|n| json!({"definitionVersionIds": [samples.version(n)]})),
        ),
        list(
            "by_version_number",
            Box::new(|n| json!({"definitionId": samples.definition(n), "version": 1 + n % 3})),
        ),
        list(
            "by_created",
            Box::new(|n| {
                let filter =
                    |operator: &str, at: &str| json!({"column": "CreatedAt", "operator": operator, "timestamp": at});
                json!({"timestampFilters": [filter("GreaterThanOrEqual", samples.time(n)), filter("LessThan", samples.time(n + 1))]})
            }),
        ),
        list("by_id", Box::new(|n| json!({"searchTerm": samples.id(n)}))),
        list(
            "search_correlation",
            Box::new(|n| json!({"searchTerm": samples.correlation(n)})),
        ),
        list("search_part", Box::new(|n| json!({"searchTerm": samples.part(n)}))),
        list("search_common", Box::new(|_| json!({"searchTerm": "order"}))),
        list(
            "by_correlation",
            Box::new(|n| json!({"correlationId": samples.correlation(n)})),
        ),
        list("by_name", Box::new(|n| json!({"name": samples.name(n)}))),
        list("running", Box::new(|_| json!({"status": "Running"}))),
        list(
            "suspended_of_definition",
            Box::new(|n| json!({"subStatus": "Suspended", "definitionId": samples.definition(n)})),
        ),
        list("faulted", Box::new(|_| json!({"subStatus": "Faulted"}))),
        list("incidents", Box::new(|_| json!({"hasIncidents": true}))),
        list(
            "by_finished",
            Box::new(
                |n| json!({"timestampFilters": [{"column": "FinishedAt", "operator": "GreaterThan", "timestamp": samples.time(n)}]}),
            ),
        ),
        list(
            "order_name",
            Box::new(|_| json!({"orderBy": "Name", "orderDirection": "Ascending"})),
        ),
        list("order_updated", Box::new(|_| json!({"orderBy": "UpdatedAt"}))),
    ]
}

/// The times of one list, in milliseconds, and how many were refused.
struct Times {
    answered: Vec<f64>,
    refused: Vec<f64>,
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (nearest_rank(&self.answered, 50), nearest_rank(&self.answered, 99));
        write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms, of {}", self.answered.len())?;
        if self.refused.is_empty() {
            return Ok(());
        }
        let longest = nearest_rank(&self.refused, 100);
        write!(f, "; {} refused, after {longest:.0} ms at most", self.refused.len())
    }
}

impl Times {
    fn in_json(&self) -> Value {
        json!({
            "p50_ms": nearest_rank(&self.answered, 50),
            "p99_ms": nearest_rank(&self.answered, 99),
            "refused": self.refused.len(),
        })
    }
}

async fn read_times(client: &Client, queries: usize, request: impl Fn(usize) -> views::Read) -> Result<Times, Failure> {
    let mut connection = PersistentConnection::open(client).await?;
    let mut times = Times {
        answered: Vec::new(),
        refused: Vec::new(),
    };
    for number in 0..queries + WARM_UP {
        let (path, body) = request(number);
        let began = Instant::now();
        let answer = match body {
            Some(body) => connection.post(&path, body).await,
            None => connection.get(&path).await,
        };
        let took = began.elapsed().as_secs_f64() * 1e3;
        match answer {
            _ if number < WARM_UP => {}
            Ok(_) => times.answered.push(took),
            Err(failure) if failure.redacted().contains("503") => times.refused.push(took),
            Err(failure) => return Err(failure),
        }
        if times.refused.len() >= WARM_UP {
            break;
        }
    }
    Ok(times)
}

/// One execute after the other, in milliseconds.
async fn execute_times(client: &Client, seconds: usize) -> Result<Vec<f64>, Failure> {
    let mut connection = PersistentConnection::open(client).await?;
    let until = Instant::now() + Duration::from_secs(seconds as u64);
    let mut times = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        connection.post("workflow-definitions/plain/execute", "{}").await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Deletes all finished instances while others start; returns how many a second.
async fn delete(client: &Client, settings: &History) -> Result<f64, Failure> {
    let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut starters = JoinSet::new();
    let began = Instant::now();
    for _ in 0..STARTERS {
        let (client, stop, started) = (client.clone(), Arc::clone(&stop), Arc::clone(&started));
        starters.spawn(async move {
            let mut connection = PersistentConnection::open(&client).await?;
            while !stop.load(Relaxed) {
                let number = started.fetch_add(1, Relaxed);
                let due = began + Duration::from_secs_f64(number as f64 / STARTS as f64);
                tokio::time::sleep_until(due.into()).await;
                connection.post("workflow-definitions/plain/dispatch", "{}").await?;
            }
            Ok::<_, Failure>(())
        });
    }
    let ids = rows::definition_ids();
    let answer = client
        .post(
            "bulk-actions/delete/workflow-instances",
            &json!({"workflowDefinitionIds": ids}),
        )
        .await?;
    let plan = answer
        .get("planId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let mut deleted = 0;
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let progress = client.get(&format!("cluster/bulk-actions/{plan}")).await?;
        let now = progress.get("processed").and_then(Value::as_u64).unwrap_or(0);
        if now == deleted && last.elapsed() > Duration::from_secs(60) {
            return Err(Failure::failed(format!(
                "the bulk delete makes no progress: {progress}"
            )));
        }
        if now > deleted {
            (deleted, last) = (now, Instant::now());
        }
        if progress.get("finishedAt").is_some_and(Value::is_string) {
            break;
        }
        eprintln!("{:.0} s: {deleted} deleted", began.elapsed().as_secs_f64());
    }
    let took = began.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    while let Some(ended) = starters.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??;
    }
    let per_second = deleted as f64 / took;
    print_line(&format!(
        "bulk delete of {deleted} of {} instances: {per_second:.0}/s, beside {:.0} starts/s",
        settings.rows,
        started.load(Relaxed) as f64 / took
    ));
    Ok(per_second)
}

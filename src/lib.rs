//! A clustered workflow engine whose only infrastructure is one PostgreSQL database. It runs Elsa Workflows 3 definitions.
//!
//! Accepted work is never lost, an instance has one writer, a timer fires once, and a crashed node is taken over. Locks,
//! hints, timers and failover use what PostgreSQL provides; no other server is needed.
//!
//! ```no_run
//! use mainspring::{Engine, Result, definition::WorkflowDefinition, runtime::StartRequest};
//!
//! # async fn run(json: &[u8]) -> Result<()> {
//! let engine = Engine::builder("postgres://user:password@localhost/name").start().await?;
//! engine.save(WorkflowDefinition::from_json(json)?, true).await?;
//! let request = StartRequest { definition_id: "greeting".into(), ..StartRequest::default() };
//! let run = engine.execute(request).await?;
//! println!("{} is {:?}", run.instance_id, run.sub_status());
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! Imports run downward and never in a circle. The public modules, for users of the library:
//!
//! - [`Engine`] and [`runtime`]: start, resume, cancel, events, definitions, schedules, dead letters, views
//! - [`activity`]: the trait for a program's own activities, and Elsa's activities
//! - [`definition`]: Elsa's JSON model; [`schedule`]: cron, intervals, time zones and due occurrences
//! - [`lock`], [`signal`], [`wake`]: three services that can be used alone and replaced in an engine
//! - `webhook` (feature `http`): receivers and senders of events
//! - [`error`], [`id`]: the error with its predicates, and the ids
//! - `testing` (feature `testing`): the suites that every provider of these services must pass
//! - `api` (feature `http`): Elsa's REST API as a router and a server
//!
//! The private modules, from the top: `cli` and `bench` (the program), `harness` (child nodes, a private PostgreSQL), `endpoint`
//! (workflows behind URLs), `http`
//! and `auth` (server and credentials below `api`), `runtime` (rooms `engine`, `worker`, `scheduler`, `context`), `cluster`
//! (membership, check-in, take-over), `execution` and `expression` (the interpreter and its languages), `store` and `db`
//! (rows, SQL, connections), `outgoing` (requests to other servers), `openid` (tokens of OpenID Connect issuers), `mail` (the mail server), `otlp` (spans to a collector), `redis_server` and `rabbitmq_server` (features `redis` and `rabbitmq`: connections to them).
//! Below them `compute` (long computations), `watchdog` (hung nodes), `weight` (bytes of JSON), `shortened` (texts in
//! messages), `identity` (callers and permissions), `metric` (the table of metrics), `elsa_json` (times and absent
//! values in JSON), `refusals` (repeated refusals), `spool` (large files),
//! `open_files` (their limit), `log` (bounded lines, levels at run time), `trace` (traces of runs), `network` (of addresses), `private_file`, `failpoint`, and `internals` for
//! benches.
//!
//! `docs/architecture.md` describes how it works and what it promises, `docs/glossary.md` defines the words,
//! `docs/reference` is the exact contract, and `examples/embedded.rs` is a complete program. A future of this crate may be
//! dropped at any await; each method says what is then cancelled.
#![deny(unsafe_code)]

pub mod activity;
#[cfg(feature = "http")]
pub mod api;
#[cfg(feature = "http")]
mod auth;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod cluster;
mod compute;
mod db;
pub mod definition;
mod elsa_json;
#[cfg(feature = "http")]
mod endpoint;
pub mod error;
#[cfg_attr(
    not(all(feature = "cli", feature = "csharp", feature = "liquid")),
    allow(unreachable_pub, dead_code, unused_imports)
)]
mod execution;
#[cfg_attr(
    not(all(feature = "cli", feature = "csharp", feature = "liquid")),
    allow(unreachable_pub, dead_code, unused_imports)
)]
mod expression;
mod failpoint;
#[cfg(feature = "cli")]
mod harness;
#[cfg(feature = "http")]
mod http;
pub mod id;
#[cfg_attr(not(feature = "http"), allow(dead_code, unused_imports))]
mod identity;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod internals;
pub mod lock;
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "the program has the log")
)]
mod log;
#[cfg(feature = "http")]
mod mail;
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
mod metric;
#[cfg(feature = "http")]
mod network;
mod open_files;
#[cfg(feature = "http")]
mod openid;
#[cfg(feature = "otlp")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "the program selects by settings")
)]
mod otlp;
#[cfg(feature = "http")]
mod outgoing;
mod private_file;
#[cfg(feature = "rabbitmq")]
mod rabbitmq_server;
#[cfg(feature = "redis")]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the program selects by settings"))]
mod redis_server;
mod refusals;
pub mod runtime;
#[cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]
pub mod schedule;
mod shortened;
pub mod signal;
mod spool;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "only an exporter takes spans"))]
mod trace;
pub mod wake;
mod watchdog;
#[cfg(feature = "http")]
pub mod webhook;
mod weight;

pub use error::{Error, Result};
pub use runtime::{Engine, EngineBuilder, check, migrate};
pub use store::Violation;

//! The state that the engine, the worker and the scheduler share. It imports none of them.
//!
//! # Layout
//!
//! - `node_context`: the state of one incarnation: its connections, its caches, and the structs of the files below.
//! - `settings`, `request`, `instance_list`: settings, requests and results; `services`: what carries locks and
//!   notifications.
//! - `locks`, `lifecycle`: the locks of instances, the beginning and end of an incarnation.
//! - `claim_state`: claims, with `in_flight` for running bursts, `byte_budget` for the memory of their rows and states, and
//!   `unsupported` for versions left to other nodes.
//! - `wake_timer`: when to poll next for work and for schedules, with `precise_sleep`.
//! - `replies`, `waiting_requests`, `wake_sender`: notifications for callers and HTTP clients on this node, and for other
//!   nodes.
//! - `pause_state`: the pause of the cluster as this node knows it; `known_sample`: its sample.
//!   `observed`: who observes instances, and what.
//! - `kept_events`: whether the inbox has room for more events.
//! - `token_keys`: the keys of resume links and tokens; `setting_digests`: what nodes compare of who may do what. `known_callers`:
//!   applications and sessions; `password_hasher`: the threads that hash passwords.
//! - `composition`: versions with all that they use, from their rows.
//! - `route_cache`: the routes of published endpoints. `webhooks`: the sinks of webhooks.
//! - `program_cache`, `definition_cache`: caches of definitions, and `payload_cache`, all on `byte_cache`.

pub(crate) mod byte_budget;
pub(crate) mod byte_cache;
pub(crate) mod claim_state;
pub(crate) mod composition;
pub(crate) mod definition_cache;
pub(crate) mod in_flight;
pub(crate) mod instance_list;
pub(crate) mod kept_events;
#[cfg(feature = "http")]
pub(crate) mod known_callers;
pub(crate) mod known_sample;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod node_context;
pub(crate) mod observed;
#[cfg(feature = "http")]
pub(crate) mod password_hasher;
pub(crate) mod pause_state;
pub(crate) mod payload_cache;
mod precise_sleep;
pub(crate) mod program_cache;
pub(crate) mod replies;
pub(crate) mod request;
#[cfg(feature = "http")]
pub(crate) mod route_cache;
pub(crate) mod services;
pub(crate) mod setting_digests;
pub(crate) mod settings;
pub(crate) mod token_keys;
pub(crate) mod unsupported;
pub(crate) mod waiting_requests;
pub(crate) mod wake_sender;
pub(crate) mod wake_timer;
#[cfg(feature = "http")]
pub(crate) mod webhooks;

//! What the engine, the worker and the scheduler share: state only.

pub(crate) mod byte_cache;
pub(crate) mod definition_cache;
pub(crate) mod hints;
pub(crate) mod in_flight;
pub(crate) mod instance_lock;
pub(crate) mod node_context;
pub(crate) mod program_cache;
pub(crate) mod replies;
pub(crate) mod request;
pub(crate) mod services;
pub(crate) mod wake_timer;

//! Services over servers that many have anyway: what they cost, and that they decide nothing.
//!
//! # Layout
//!
//! `rabbitmq_services`: wake notifications and cache notifications over RabbitMQ. `rabbitmq_nodes`: the same in nodes.
//! `rabbitmq_bench`: its benchmark.

#[cfg(feature = "rabbitmq")]
mod rabbitmq_bench;
#[cfg(feature = "rabbitmq")]
mod rabbitmq_nodes;
#[cfg(feature = "rabbitmq")]
mod rabbitmq_services;

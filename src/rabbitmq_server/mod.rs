//! A RabbitMQ broker: where it is, connections to it, and a fanout exchange over which members send messages to each other.
//!
//! The client's own recovery is off: it would use the first host and the first password forever, and does not report what
//! was missed. A connection that ends is replaced by a new one.
//!
//! # Layout
//!
//! - `address`: URLs. `stream`: TCP and TLS. `connection`: connects, and says why it is refused.
//! - `topic`: the exchange and the queue, and their refusals. `traffic`: what a service sends and receives. `link`: keeps
//!   one topic open, and heals it. `member`: what both services share over a topic.

mod address;
mod connection;
mod link;
mod member;
mod stream;
mod topic;
mod traffic;

pub(crate) use connection::RabbitServer;
pub(crate) use member::RabbitMember;
pub(crate) use traffic::{Incoming, Sender, Traffic};

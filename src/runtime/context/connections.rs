//! The connections of an incarnation, and as which node it uses them.

use super::locks::InstanceLock;
use crate::db::{Connector, Pool, SchemaName};
use crate::id::{Incarnation, NodeId};
use crate::store::commit::CommitWriter;
use crate::store::start::Acceptor;

/// The database as this incarnation uses it.
pub(crate) struct Database {
    pub(crate) incarnation: Incarnation,
    pub(crate) node_id: NodeId,
    pub(crate) pool: Pool,
    /// For statements that would occupy a connection of the pool for too long.
    pub(crate) connector: Connector,
    pub(crate) schema: SchemaName,
}

impl Database {
    /// The class of the advisory locks of this schema.
    pub(crate) fn lock_class(&self) -> i32 {
        self.schema.lock_class()
    }
}

/// What writes commits and starts.
pub(crate) struct Commits {
    pub(crate) writer: CommitWriter<InstanceLock>,
    /// Starts that this node runs at once.
    pub(crate) direct_starts: Acceptor,
    /// Starts that wait in the queue for any node.
    pub(crate) queued_starts: Acceptor,
}

impl Commits {
    /// Whether the database takes commits of this node, as far as it knows. While it does not, starts are only accepted, for
    /// a probe of this node or for another node.
    pub(crate) fn are_accepted(&self) -> bool {
        !self.writer.breaker().is_open()
    }
}

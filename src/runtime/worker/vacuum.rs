//! Vacuums the tables that all work passes through, after so many bursts of this node. A busy cluster needs that more often
//! than the server's autovacuum runs, and an idle one not at all.

use std::time::Duration;

use crate::db::Connector;
use crate::runtime::context::claim_state::VacuumTrigger;
use crate::runtime::context::lifecycle::Lifecycle;
use crate::store::maintenance;

/// The least time between two vacuums.
const PAUSE: Duration = Duration::from_secs(2);

/// Vacuums whenever the trigger is due, until the incarnation stops.
pub(crate) async fn run(connector: &Connector, trigger: &VacuumTrigger, lifecycle: &Lifecycle) {
    loop {
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = trigger.due() => {}
        }
        trigger.reset();
        // Dropped half-way, the server ends it with the connection.
        let vacuumed = tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            vacuumed = maintenance::vacuum(connector) => vacuumed,
        };
        if let Err(error) = vacuumed {
            tracing::debug!(%error, "the vacuum failed; autovacuum does the rest");
        }
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

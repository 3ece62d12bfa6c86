//! Nodes of one cluster have the same services: a node compares its own with those of the live nodes before it starts, and
//! keeps recording them, because the nonce of a server may change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::db::Pool;
use crate::id::Incarnation;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::services::Difference;
use crate::store::node::{self as store, ServiceDomains};
use crate::{Error, Result};

/// How long the nodes of an emptied server may take to agree on another nonce: a second to read it, and half a second to record it.
const AGREE: Duration = Duration::from_secs(4);
/// How often a node compares its services with what it has recorded.
const KEEP: Duration = Duration::from_millis(500);
/// Between two comparisons meanwhile.
const AGAIN: Duration = Duration::from_millis(200);

/// Records the roles, the services, and the digests of the identity settings.
///
/// # Errors
/// `service-differs` beside a live node that has a service elsewhere.
pub(super) async fn join(
    pool: &Pool,
    incarnation: Incarnation,
    roles: &[&str],
    identity_settings: &[String],
    domains: impl Fn() -> ServiceDomains,
) -> Result<()> {
    let began = Instant::now();
    let message = loop {
        let ours = domains();
        store::report_roles(pool, incarnation, roles, &ours, identity_settings).await?;
        let others = store::other_domains(pool, incarnation).await?;
        let Some((node, difference)) = first_difference(&ours, &others) else {
            return Ok(());
        };
        if !difference.is_of_servers() || began.elapsed() > AGREE {
            let Difference {
                service,
                ours,
                theirs,
                setting,
            } = difference;
            break format!(
                "this node {service} {ours}, and for the live node {node} it is {theirs}: give all nodes the same {setting} and the \
                 same server; to change it, stop all of them first"
            );
        }
        tokio::time::sleep(AGAIN).await;
    };
    // Its row must not keep others from starting.
    if let Err(error) = store::leave(pool, incarnation).await {
        tracing::debug!(%error, "the registration could not be deleted; it expires");
    }
    Err(Error::invalid("service-differs", message))
}

fn first_difference<'a>(
    ours: &'a ServiceDomains,
    others: &'a [(String, ServiceDomains)],
) -> Option<(&'a str, Difference<'a>)> {
    let mut each = others.iter();
    each.find_map(|(node, theirs)| Some((node.as_str(), Difference::between(ours, theirs)?)))
}

/// Records the services again whenever they have changed, until the incarnation stops.
pub(super) async fn keep(node: Arc<NodeContext>, roles: Vec<&'static str>) {
    let mut recorded = node.service_domains();
    let database = &node.database;
    loop {
        // Both are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = tokio::time::sleep(KEEP) => {}
        }
        let ours = node.service_domains();
        if ours == recorded {
            continue;
        }
        let identity = &node.identity_settings;
        let reported = store::report_roles(&database.pool, database.incarnation, &roles, &ours, identity).await;
        if let Err(error) = reported {
            tracing::debug!(%error, "the services of this node could not be recorded yet");
            continue;
        }
        tracing::info!(
            locks = ours.locks,
            signal = ours.signal,
            wake = ours.wake,
            "the services of this node have changed"
        );
        recorded = ours;
    }
}

//! Nodes with different identity settings name the difference: what one node admits, another one may refuse.
//!
//! Each node records digests of its settings when it registers, and compares them with those of the live nodes whenever a check-in
//! shows other members. A change of the settings node by node is such a difference for as long as it takes, so nothing is
//! refused because of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::setting_digests::differing;
use crate::store::node as store;

/// The nodes with other settings than this one, as the log names them: the differing settings by node.
type Differences = BTreeMap<String, Vec<String>>;

/// Compares until the incarnation stops.
pub(super) async fn compare(node: Arc<NodeContext>) {
    let stopped = node.lifecycle.stop.cancelled();
    if node.identity_settings.is_empty() {
        return stopped.await;
    }
    let mut stopped = std::pin::pin!(stopped);
    let mut reports = node.lifecycle.reports.clone();
    let (mut compared, mut named) = (Vec::new(), Differences::new());
    loop {
        // Both are cancellation safe.
        tokio::select! {
            () = &mut stopped => return,
            changed = reports.changed() => if changed.is_err() {
                return stopped.await;
            }
        }
        let members = reports.borrow_and_update().check_in.members.clone();
        if members == compared {
            continue;
        }
        match differences(&node).await {
            Ok(Some(found)) => {
                tell(&named, &found);
                (compared, named) = (members, found);
            }
            // A node that has just registered records its settings a moment later.
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the settings of the nodes could not be compared yet"),
        }
    }
}

/// The live nodes with other settings. `None`: one has not recorded its settings yet.
async fn differences(node: &NodeContext) -> Result<Option<Differences>> {
    let others = store::other_identity_settings(&node.database.pool, node.database.incarnation).await?;
    let mut found = Differences::new();
    for (name, theirs) in others {
        let Some(theirs) = theirs else { return Ok(None) };
        let names = differing(&node.identity_settings, &theirs);
        if !names.is_empty() {
            found.insert(name, names.into_iter().map(str::to_owned).collect());
        }
    }
    Ok(Some(found))
}

/// Logs what is new since the comparison before.
fn tell(before: &Differences, found: &Differences) {
    metrics::gauge!("mainspring_identity_settings_differ").set(found.len() as f64);
    for (node, settings) in found
        .iter()
        .filter(|(node, settings)| before.get(*node) != Some(settings))
    {
        tracing::warn!(
            node,
            settings = settings.join(", "),
            "this node and another live one have different settings, so one may refuse what the other admits; give all nodes \
             the same (while they are changed one by one, this is expected)"
        );
    }
    if found.is_empty() && !before.is_empty() {
        tracing::info!("all live nodes have the same identity settings again");
    }
}

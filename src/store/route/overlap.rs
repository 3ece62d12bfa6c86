//! Routes of different templates that match a path in common, which only one definition may have.

use deadpool_postgres::Object;
use mainspring_route::Template;
use serde_json::Value;

use super::lookup::limit;
use super::{taken, text};
use crate::Result;
use crate::db::columns;

const OVERLAPPING: &str = include_str!("../../../sql/queries/route/overlapping.sql");

/// With so many endpoints of other definitions those of a publish are compared, which takes a ms each where these have regular
/// expressions, and all publishes wait meanwhile. Requests for which others are ambiguous are refused.
const MOST_COMPARED: usize = 32;

/// Refuses the routes of a definition that match a path in common with one of another definition, in the publishing transaction
/// after it has increased the revision. `routes`: the outline of each that has one, and its options.
pub(in crate::store) async fn check_overlap(
    client: &Object,
    tenant: &str,
    id: &str,
    routes: &[(&[u8], &Value)],
) -> Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    let outlines: Vec<&[u8]> = routes.iter().map(|(outline, _)| *outline).collect();
    let rows = client
        .query(OVERLAPPING, &[&tenant, &id, &outlines, &limit(MOST_COMPARED)])
        .await?;
    let at = columns!(rows; no, definition_id, name, payload)?;
    for row in &rows {
        let place = usize::try_from(row.get::<_, i32>(at.no) - 1);
        let Some((_, own)) = place.ok().and_then(|place| routes.get(place)) else {
            continue;
        };
        let other: Value = row.get(at.payload);
        let templates = [own, &other].map(|options| Template::parse(text(options, "path")).ok());
        let [Some(own), Some(template)] = templates else {
            continue;
        };
        if let Some(common) = own.common_path(&template) {
            let (owner, name): (String, Option<String>) = (row.get(at.definition_id), row.get(at.name));
            return Err(taken(&owner, name.as_deref(), &other, Some(&common)));
        }
    }
    Ok(())
}

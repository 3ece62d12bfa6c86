//! Lists of instances.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Datelike, SecondsFormat, Utc};

use super::Engine;
use super::instances::summary;
use crate::db::bounded_list;
use crate::runtime::context::instance_list::{
    InstanceFilter, InstanceList, InstanceOrder, InstancePage, InstanceSummary,
};
use crate::runtime::context::request::{Listed, Page};
use crate::runtime::worker::instance_filter::list_filter;
use crate::store::instance::list::{self, InstanceListOrder, ListCursor, ListPage, ListPools};
use crate::{Error, Result};

/// The longest cursor: a name may be long.
const MAX_CURSOR: usize = 16_384;

impl Engine {
    /// Lists instances, newest first.
    pub async fn instances(&self, filter: &InstanceFilter, page: Page) -> Result<Listed<InstanceSummary>> {
        let page = InstancePage {
            page,
            ..InstancePage::default()
        };
        let listed = self.list_instances(filter, &page).await?;
        Ok(Listed {
            items: listed.items,
            total_count: listed.total_count,
        })
    }

    /// Lists instances in an order. A list that takes too long fails as unavailable (code `read-timeout`).
    pub async fn list_instances(&self, filter: &InstanceFilter, page: &InstancePage) -> Result<InstanceList> {
        let (limit, offset) = page.page.window();
        let order = match page.order {
            InstanceOrder::Created => InstanceListOrder::Created,
            InstanceOrder::Updated => InstanceListOrder::Updated,
            InstanceOrder::Finished => InstanceListOrder::Finished,
            InstanceOrder::Name => InstanceListOrder::Name,
        };
        let after = page
            .cursor
            .as_deref()
            .map(|text| read_cursor(text, order, page.descending));
        let after = after.transpose()?;
        let wanted = ListPage {
            order,
            descending: page.descending,
            limit,
            offset: if after.is_some() { 0 } else { offset },
            after,
        };
        let filter = list_filter(filter)?;
        let node = self.node()?;
        let pools = ListPools::of_reads(&node.database.reads);
        let listed = bounded_list(list::list(pools, &self.tenant, &filter, &wanted)).await?;
        Ok(InstanceList {
            items: listed.rows.into_iter().map(summary).collect(),
            total_count: listed.total,
            total_count_is_estimate: listed.is_estimate,
            next_cursor: listed.next.map(|next| write_cursor(&next, order, page.descending)),
        })
    }
}

fn write_cursor(cursor: &ListCursor, order: InstanceListOrder, descending: bool) -> String {
    let text = serde_json::json!([order.word(), descending, cursor.key, cursor.id]).to_string();
    URL_SAFE_NO_PAD.encode(text)
}

/// Fails for a cursor of another order.
fn read_cursor(text: &str, order: InstanceListOrder, descending: bool) -> Result<ListCursor> {
    let wrong = || {
        let message = "it must be the nextCursor of a page in the same order";
        Error::invalid("invalid-field", "the cursor cannot be read").field("cursor", message)
    };
    if text.len() > MAX_CURSOR {
        return Err(wrong());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
    let (word, is_descending, key, id): (String, bool, String, String) =
        serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    if word != order.word() || is_descending != descending || key.contains('\0') || id.contains('\0') {
        return Err(wrong());
    }
    let key = match order {
        InstanceListOrder::Name => key,
        InstanceListOrder::Finished if key == "infinity" => key,
        _ => time_key(&key).ok_or_else(wrong)?,
    };
    Ok(ListCursor { key, id })
}

/// A time as the database reads it; the database knows no year 0 and fewer offsets than a client can write.
fn time_key(text: &str) -> Option<String> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
    let is_known = (1..=9999).contains(&time.year());
    is_known.then(|| time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_order_only() {
        let cursor = ListCursor {
            key: "2026-01-01T00:00:00.000005Z".to_owned(),
            id: "i".to_owned(),
        };
        let text = write_cursor(&cursor, InstanceListOrder::Created, true);
        assert_eq!(read_cursor(&text, InstanceListOrder::Created, true).unwrap(), cursor);
        assert_eq!(
            read_cursor(&text, InstanceListOrder::Created, false)
                .unwrap_err()
                .code(),
            "invalid-field"
        );
        assert_eq!(
            read_cursor(&text, InstanceListOrder::Name, true).unwrap_err().code(),
            "invalid-field"
        );
        let forged = |key: &str| {
            let forged = ListCursor {
                key: key.to_owned(),
                id: "i".to_owned(),
            };
            write_cursor(&forged, InstanceListOrder::Created, true)
        };
        let moved = read_cursor(&forged("2026-01-01T20:00:00+20:00"), InstanceListOrder::Created, true).unwrap();
        assert_eq!(moved.key, "2026-01-01T00:00:00.000000Z");
        let years = [forged("0000-06-01T00:00:00Z"), forged("0001-01-01T00:00:00+14:00")];
        for bad in [&forged("yesterday"), &years[0], &years[1], "", "%", &"a".repeat(20_000)] {
            assert_eq!(
                read_cursor(bad, InstanceListOrder::Created, true).unwrap_err().code(),
                "invalid-field"
            );
        }
    }
}

//! The journal of an instance.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::paging::{self, PagedList, RowRange};
use crate::api::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::{Engine, JournalRecord, Listed, Page};
use crate::{Error, Result};

/// The most records that a filtered read examines.
const MAX_EXAMINED: usize = 200_000;
/// Records per read: the largest page.
const READ_SIZE: u32 = 1000;

/// The journal of one instance.
struct Journal {
    engine: Engine,
    id: InstanceId,
}

impl PagedList<JournalRecord> for Journal {
    async fn page(&self, page: Page) -> Result<Listed<JournalRecord>> {
        self.engine.journal(&self.id, page).await
    }
}

/// Which records are returned; an empty list means any.
#[derive(Debug, Default)]
struct JournalFilter {
    activity_ids: Vec<String>,
    node_ids: Vec<String>,
    excluded_types: Vec<String>,
    events: Vec<String>,
}

/// `GET /workflow-instances/{id}/journal`
pub(super) async fn list(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let range = paging::row_range(&mut Fields::from_query(&uri)?)?;
    journal_response(api, id, range, &JournalFilter::default()).await
}

/// `POST /workflow-instances/{id}/journal`: the same with a filter. Elsa's client puts the paging into the query.
pub(super) async fn filtered(State(api): State<Api>, Id(id): Id, uri: Uri, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let paged = |fields: &Fields| {
        let names = ["page", "pageSize", "skip", "take"];
        fields
            .names()
            .any(|name| names.iter().any(|paging| paging.eq_ignore_ascii_case(name)))
    };
    let range = if paged(&fields) {
        paging::row_range(&mut fields)?
    } else {
        paging::row_range(&mut Fields::from_query(&uri)?)?
    };
    let mut filter = Fields::from_body(fields.object("filter")?.map(Into::into))?;
    let filter = JournalFilter {
        activity_ids: filter.texts("activityIds")?,
        node_ids: filter.texts("activityNodeIds")?,
        excluded_types: filter.texts("excludedActivityTypes")?,
        events: filter.texts("eventNames")?,
    };
    journal_response(api, id, range, &filter).await
}

async fn journal_response(api: Api, id: String, range: RowRange, filter: &JournalFilter) -> ApiResult {
    let journal = Journal {
        engine: api.engine,
        id: InstanceId::new(id),
    };
    let listed = if filter.is_empty() {
        range.read(&journal).await?
    } else {
        filter.read(range, &journal).await?
    };
    Ok(Json(listed).into_response())
}

impl JournalFilter {
    fn is_empty(&self) -> bool {
        [&self.activity_ids, &self.node_ids, &self.excluded_types, &self.events]
            .iter()
            .all(|list| list.is_empty())
    }

    fn matches(&self, record: &JournalRecord) -> bool {
        let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        among(&self.activity_ids, &record.activity_id)
            && among(&self.node_ids, &record.node_id)
            && among(&self.events, record.event_name.as_deref().unwrap_or_default())
            && !self.excluded_types.contains(&record.activity_type)
    }

    /// Reads the whole journal page by page, because the total must be exact, and keeps the range of the matching records.
    async fn read(&self, range: RowRange, list: &impl PagedList<JournalRecord>) -> Result<Listed<JournalRecord>> {
        let mut kept = Listed {
            items: Vec::new(),
            total_count: 0,
        };
        let mut seen = 0;
        for page in 0.. {
            let part = list
                .page(Page {
                    page,
                    page_size: READ_SIZE,
                })
                .await?;
            let length = part.items.len();
            for record in part.items.into_iter().filter(|record| self.matches(record)) {
                if kept.total_count >= range.skip && kept.items.len() < range.take as usize {
                    kept.items.push(record);
                }
                kept.total_count += 1;
            }
            seen += length;
            if length < READ_SIZE as usize {
                break;
            }
            if seen >= MAX_EXAMINED {
                return Err(Error::too_large(
                    "journal-too-long",
                    format!("The journal has more than {MAX_EXAMINED} records; read it by pages without a filter."),
                ));
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct LongJournal;

    impl PagedList<JournalRecord> for LongJournal {
        async fn page(&self, page: Page) -> Result<Listed<JournalRecord>> {
            let from = page.page * page.page_size;
            let items = (from..(from + page.page_size).min(2500)).map(record).collect();
            Ok(Listed {
                items,
                total_count: 2500,
            })
        }
    }

    fn record(n: u32) -> JournalRecord {
        JournalRecord {
            id: n.to_string(),
            activity_instance_id: String::new(),
            parent_activity_instance_id: None,
            activity_id: format!("a{}", n % 3),
            activity_type: format!("t{}", n % 2),
            activity_type_version: 1,
            activity_name: None,
            node_id: String::new(),
            timestamp: chrono::DateTime::UNIX_EPOCH,
            sequence: n.into(),
            event_name: Some("Started".to_owned()),
            message: None,
            source: None,
            activity_state: Some(json!({})),
            payload: None,
        }
    }

    #[tokio::test]
    async fn a_filter_counts_all_matches_and_returns_its_range() {
        let filter = JournalFilter {
            activity_ids: vec!["a1".to_owned()],
            excluded_types: vec!["t1".to_owned()],
            events: vec!["Started".to_owned()],
            ..JournalFilter::default()
        };
        let read = filter.read(RowRange { skip: 2, take: 2 }, &LongJournal).await.unwrap();
        let expected: Vec<i64> = (0..2500).filter(|n| n % 3 == 1 && n % 2 == 0).collect();
        assert_eq!(read.total_count, expected.len() as u64);
        assert_eq!(
            read.items.iter().map(|record| record.sequence).collect::<Vec<_>>(),
            expected[2..4]
        );
    }
}

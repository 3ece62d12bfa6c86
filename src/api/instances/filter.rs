//! The filter of instances, as Elsa's clients write it, for lists and for bulk actions.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::api::fields::Fields;
use crate::http::ApiError;
use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::runtime::{InstanceFilter, InstanceTime, TimeFilter, TimeOperator};

// Enumerations of Elsa, in the order of their numbers.
const STATUSES: [&str; 2] = ["Running", "Finished"];
const SUB_STATUSES: [&str; 7] = [
    "Pending",
    "Executing",
    "Suspended",
    "Finished",
    "Cancelled",
    "Faulted",
    INTERRUPTED,
];
/// Elsa's sub-status of what a drain has cut off. No instance has it here: a drain waits for bursts, and a lost one is repeated.
const INTERRUPTED: &str = "Interrupted";

const COLUMNS: [(&str, InstanceTime); 3] = [
    ("CreatedAt", InstanceTime::CreatedAt),
    ("UpdatedAt", InstanceTime::UpdatedAt),
    ("FinishedAt", InstanceTime::FinishedAt),
];

const OPERATORS: [(&str, TimeOperator); 6] = [
    ("Is", TimeOperator::Is),
    ("IsNot", TimeOperator::IsNot),
    ("LessThan", TimeOperator::LessThan),
    ("GreaterThan", TimeOperator::GreaterThan),
    ("LessThanOrEqual", TimeOperator::LessThanOrEqual),
    ("GreaterThanOrEqual", TimeOperator::GreaterThanOrEqual),
];

/// The most values of one list, and comparisons of times.
const MAX_VALUES: usize = 10_000;
const MAX_TIMES: usize = 20;

/// The longest text to search for.
const MAX_SEARCH: usize = 1_000;

/// Takes the filter out of the fields; `None` if no instance can meet it.
pub(in crate::api) fn take(fields: &mut Fields) -> Result<Option<InstanceFilter>, ApiError> {
    let status = fields.member("status", &STATUSES, &[])?.map(str::to_owned);
    let sub_status = fields.member("subStatus", &SUB_STATUSES, &[])?.map(str::to_owned);
    let lists = (
        intersect(fields.id("id")?, both(fields, "ids", "workflowInstanceIds")?),
        intersect(fields.id("definitionId")?, bounded(fields, "definitionIds")?),
        intersect(
            fields.id("definitionVersionId")?,
            bounded(fields, "definitionVersionIds")?,
        ),
        intersect(fields.text("correlationId")?, bounded(fields, "correlationIds")?),
        intersect(status, fields.members("statuses", &STATUSES)?),
        intersect(sub_status, fields.members("subStatuses", &SUB_STATUSES)?),
        intersect(fields.text("name")?, bounded(fields, "names")?),
    );
    let search_term = fields.text("searchTerm")?.filter(|term| !term.trim().is_empty());
    if search_term
        .as_ref()
        .is_some_and(|term| term.chars().count() > MAX_SEARCH)
    {
        let message = format!("searchTerm has at most {MAX_SEARCH} characters.");
        return Err(ApiError::invalid_field("searchTerm", message));
    }
    let version = fields.number("version", 0)?.map(i32::try_from).transpose();
    let version = version.map_err(|_| ApiError::invalid_field("version", "version is the number of a version."))?;
    let has_incidents = fields.flag("hasIncidents")?;
    let time_filters = time_filters(fields.any("timestampFilters"))?;
    // As a version of the system is rare, false excludes nothing.
    let is_system = fields.flag("isSystem")? == Some(true);
    let parent_ids = both(fields, "parentWorkflowInstanceIds", "parentIds")?;
    let (
        Some(ids),
        Some(definitions),
        Some(versions),
        Some(correlations),
        Some(statuses),
        Some(mut sub_statuses),
        Some(names),
    ) = lists
    else {
        return Ok(None);
    };
    let is_interrupted = !sub_statuses.is_empty() && sub_statuses.iter().all(|word| word == INTERRUPTED);
    if is_interrupted {
        return Ok(None);
    }
    sub_statuses.retain(|word| word != INTERRUPTED);
    if names.len() > 1 {
        return Err(ApiError::invalid_field("names", "names has at most one name."));
    }
    Ok(Some(InstanceFilter {
        ids: ids.into_iter().map(InstanceId::new).collect(),
        definition_ids: definitions.into_iter().map(DefinitionId::new).collect(),
        version_ids: versions.into_iter().map(VersionId::new).collect(),
        version,
        is_system,
        correlation_ids: correlations,
        name: names.into_iter().next(),
        parent_ids: parent_ids.into_iter().map(InstanceId::new).collect(),
        has_incidents,
        statuses,
        sub_statuses,
        time_filters,
        search_term,
    }))
}

fn bounded(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let texts = fields.texts(name)?;
    if texts.len() > MAX_VALUES {
        return Err(ApiError::invalid_field(
            name,
            format!("{name} has at most {MAX_VALUES} values."),
        ));
    }
    Ok(texts)
}

/// A list with two names.
fn both(fields: &mut Fields, one: &str, other: &str) -> Result<Vec<String>, ApiError> {
    let mut texts = bounded(fields, one)?;
    texts.append(&mut bounded(fields, other)?);
    Ok(texts)
}

fn time_filters(value: Option<Value>) -> Result<Vec<TimeFilter>, ApiError> {
    let wrong = |message: String| ApiError::invalid_field("timestampFilters", message);
    let filters = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(filters)) if filters.len() <= MAX_TIMES => filters,
        Some(_) => {
            return Err(wrong(format!(
                "timestampFilters must be a list of at most {MAX_TIMES} filters."
            )));
        }
    };
    filters
        .into_iter()
        .map(|filter| {
            let mut fields = Fields::from_body(Some(filter))
                .map_err(|_| wrong("A filter has column, operator and timestamp.".to_owned()))?;
            let column = fields.text("column")?.unwrap_or_default();
            let operator = fields.member("operator", &OPERATORS.map(|(name, _)| name), &[]);
            let operator = operator.map_err(|_| {
                let all = words(&OPERATORS);
                wrong(format!("The operator is not one of {all}, or its number from 0."))
            })?;
            let timestamp = fields.text("timestamp")?.unwrap_or_default();
            Ok(TimeFilter {
                column: named(&COLUMNS, &column)
                    .ok_or_else(|| wrong(format!("The column {column:?} is not one of {}.", words(&COLUMNS))))?,
                operator: operator
                    .and_then(|name| named(&OPERATORS, name))
                    .unwrap_or(TimeOperator::Is),
                timestamp: time(&timestamp)
                    .ok_or_else(|| wrong(format!("The timestamp {timestamp:?} is not a time with an offset.")))?,
            })
        })
        .collect()
}

fn named<T: Copy>(all: &[(&str, T)], word: &str) -> Option<T> {
    let known = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    known.map(|(_, value)| *value)
}

fn words<T>(all: &[(&str, T)]) -> String {
    let words: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    words.join(", ")
}

/// Of the years that the database knows.
fn time(text: &str) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
    (0..=9999).contains(&chrono::Datelike::year(&time)).then_some(time)
}

/// Combines Elsa's two filters on one property, a single value and a list, which must both hold; `None` if they exclude
/// each other. An empty list means any value.
fn intersect(one: Option<String>, many: Vec<String>) -> Option<Vec<String>> {
    match one {
        None => Some(many),
        Some(one) if many.is_empty() || many.contains(&one) => Some(vec![one]),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Option<InstanceFilter>, ApiError> {
        take(&mut Fields::from_body(Some(body)).unwrap())
    }

    #[test]
    fn a_single_value_and_a_list_must_both_hold() {
        let ids = |body| read(body).unwrap().map(|filter| filter.definition_ids.len());
        assert_eq!(ids(json!({"definitionIds": ["a", "b"]})), Some(2));
        assert_eq!(ids(json!({"definitionId": "a", "definitionIds": ["a", "b"]})), Some(1));
        assert_eq!(ids(json!({"definitionId": "c", "definitionIds": ["a", "b"]})), None);
        let filter = read(json!({"status": "running", "subStatuses": ["SUSPENDED"], "version": 2}))
            .unwrap()
            .unwrap();
        assert_eq!(
            (filter.statuses, filter.sub_statuses),
            (vec!["Running".to_owned()], vec!["Suspended".to_owned()])
        );
        assert_eq!(filter.version, Some(2));
        assert!(read(json!({"isSystem": true})).unwrap().unwrap().is_system);
        assert_eq!(read(json!({"subStatus": "Interrupted"})).unwrap(), None);
        assert_eq!(read(json!({"subStatuses": [6]})).unwrap(), None);
        let filter = read(json!({"status": 0, "subStatuses": ["Interrupted", 2]}))
            .unwrap()
            .unwrap();
        assert_eq!(
            (&*filter.statuses[0], &*filter.sub_statuses),
            ("Running", &["Suspended".to_owned()][..])
        );
        let parents = |body| read(body).unwrap().unwrap().parent_ids.len();
        assert_eq!(
            parents(json!({"parentWorkflowInstanceIds": ["p"], "parentIds": ["q"]})),
            2
        );
        assert_eq!(parents(json!({"isSystem": false, "parentWorkflowInstanceIds": []})), 0);
    }

    #[test]
    fn wrong_filters_are_named() {
        let at = "2026-01-01T00:00:00Z";
        for (body, field) in [
            (json!({"status": "Idle"}), "status"),
            (json!({"timestampFilters": [{}]}), "timestampFilters"),
            (json!({"timestampFilters": {}}), "timestampFilters"),
            (
                json!({"timestampFilters": [{"column": "DueAt", "operator": "Is", "timestamp": at}]}),
                "timestampFilters",
            ),
            (
                json!({"timestampFilters": [{"column": "CreatedAt", "operator": "Like", "timestamp": at}]}),
                "timestampFilters",
            ),
            (
                json!({"timestampFilters": [{"column": "CreatedAt", "operator": "Is", "timestamp": "now"}]}),
                "timestampFilters",
            ),
            (json!({"searchTerm": "x".repeat(1001)}), "searchTerm"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert_eq!(error.status_and_code(), (400, "invalid-field"), "{body}");
            assert!(format!("{error:?}").contains(&format!("(\"{field}\", ")), "{error:?}");
        }
        let good = json!({"timestampFilters": [{"column": "createdAt", "operator": "IsNot", "timestamp": "2026-01-01T01:00:00+01:00"}]});
        let filter = read(good).unwrap().unwrap();
        assert_eq!(filter.time_filters[0].timestamp, time(at).unwrap());
        for (operator, meant) in [
            (json!(5), TimeOperator::GreaterThanOrEqual),
            (json!("5"), TimeOperator::GreaterThanOrEqual),
            (json!("lessThan"), TimeOperator::LessThan),
            (Value::Null, TimeOperator::Is),
        ] {
            let filter = json!({"timestampFilters": [{"column": "CreatedAt", "operator": operator, "timestamp": at}]});
            let filter = read(filter).unwrap().unwrap();
            assert_eq!(filter.time_filters[0].operator, meant, "{operator}");
        }
    }
}

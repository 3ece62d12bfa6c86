//! Converts a filter of instances for the store.

use chrono::{DateTime, SubsecRound, Utc};

use super::effects::{status_number, sub_status_number};
use crate::execution::{Status, SubStatus};
use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::runtime::context::instance_list::{InstanceFilter, InstanceTime, TimeOperator};
use crate::store::instance::list::{InstanceListFilter, TimeRange};
use crate::{Error, Result};

/// The filter as the store has it.
pub(crate) fn list_filter(filter: &InstanceFilter) -> Result<InstanceListFilter> {
    let mut list = InstanceListFilter {
        ids: filter.ids.iter().map(InstanceId::as_str).map(str::to_owned).collect(),
        definition_ids: filter
            .definition_ids
            .iter()
            .map(DefinitionId::as_str)
            .map(str::to_owned)
            .collect(),
        version_ids: filter
            .version_ids
            .iter()
            .map(VersionId::as_str)
            .map(str::to_owned)
            .collect(),
        version: filter.version,
        is_system: filter.is_system,
        correlation_ids: filter.correlation_ids.clone(),
        name: filter.name.clone(),
        has_incidents: filter.has_incidents,
        statuses: numbers::<Status>(&filter.statuses, "statuses", status_number)?,
        sub_statuses: numbers::<SubStatus>(&filter.sub_statuses, "subStatuses", sub_status_number)?,
        parents: filter
            .parent_ids
            .iter()
            .map(InstanceId::as_str)
            .map(str::to_owned)
            .collect(),
        search: filter.search_term.clone().filter(|term| !term.is_empty()),
        ..InstanceListFilter::default()
    };
    for time in &filter.time_filters {
        let range = match time.column {
            InstanceTime::CreatedAt => &mut list.created,
            InstanceTime::UpdatedAt => &mut list.updated,
            InstanceTime::FinishedAt => &mut list.finished,
        };
        narrow(range, time.operator, time.timestamp);
    }
    Ok(list)
}

/// A time of the database has microseconds; one of a client may have more digits.
fn narrow(range: &mut TimeRange, operator: TimeOperator, at: DateTime<Utc>) {
    let whole = at.trunc_subsecs(6);
    let step = TimeRange::step();
    let above = if whole < at { whole + step } else { whole };
    match operator {
        TimeOperator::Is => {
            range.at_least(whole);
            range.at_most(whole);
        }
        TimeOperator::IsNot => range.not.push(whole),
        TimeOperator::GreaterThan => range.at_least(whole + step),
        TimeOperator::GreaterThanOrEqual => range.at_least(above),
        TimeOperator::LessThan => range.at_most(above - step),
        TimeOperator::LessThanOrEqual => range.at_most(whole),
    }
}

fn numbers<T: std::str::FromStr<Err = String>>(
    words: &[String],
    field: &'static str,
    number: fn(T) -> i16,
) -> Result<Vec<i16>> {
    words
        .iter()
        .map(|word| {
            word.parse::<T>().map(number).map_err(|problem| {
                Error::invalid("invalid-filter", format!("{field}: {problem}")).field(field, problem)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn times_compare_to_the_microsecond() {
        let range = |operator, text| {
            let mut range = TimeRange::default();
            narrow(&mut range, operator, at(text));
            (range.from, range.to)
        };
        let (whole, finer) = ("2026-01-01T00:00:00.000005Z", "2026-01-01T00:00:00.0000052Z");
        let (before, same, after) = (
            Some(at("2026-01-01T00:00:00.000004Z")),
            Some(at(whole)),
            Some(at("2026-01-01T00:00:00.000006Z")),
        );
        assert_eq!(range(TimeOperator::GreaterThan, whole), (after, None));
        assert_eq!(range(TimeOperator::GreaterThan, finer), (after, None));
        assert_eq!(range(TimeOperator::GreaterThanOrEqual, whole), (same, None));
        assert_eq!(range(TimeOperator::GreaterThanOrEqual, finer), (after, None));
        assert_eq!(range(TimeOperator::LessThan, whole), (None, before));
        assert_eq!(range(TimeOperator::LessThan, finer), (None, same));
        assert_eq!(range(TimeOperator::LessThanOrEqual, finer), (None, same));
        assert_eq!(range(TimeOperator::Is, finer), (same, same));
    }
}

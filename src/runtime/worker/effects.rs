//! Converts the result of a burst into the rows of its commit.

use std::time::Duration;

use crate::execution::{Bookmark, BurstResult, Status, SubStatus};
use crate::id::ActivityExecutionId;
use crate::store::code::{StatusCode, SubStatusCode};
use crate::store::commit::{BookmarkRow, DueRow, Effects, StimulusRow, WaitingBookmark};
use crate::store::record::{Entry, Execution, ExecutionRef, Record, RecordRow};
use crate::{Result, weight};

/// The number of a status in the database.
pub(crate) fn status_number(status: Status) -> i16 {
    let code = match status {
        Status::Running => StatusCode::Running,
        Status::Finished => StatusCode::Finished,
    };
    code.number()
}

/// The number of a sub-status in the database.
pub(crate) fn sub_status_number(sub_status: SubStatus) -> i16 {
    let code = match sub_status {
        SubStatus::Pending => SubStatusCode::Pending,
        SubStatus::Executing => SubStatusCode::Executing,
        SubStatus::Suspended => SubStatusCode::Suspended,
        SubStatus::Finished => SubStatusCode::Finished,
        SubStatus::Cancelled => SubStatusCode::Cancelled,
        SubStatus::Faulted => SubStatusCode::Faulted,
    };
    code.number()
}

/// The name of the status with this number in the database.
pub(crate) fn status_word(number: i16) -> &'static str {
    let status = match StatusCode::from_number(number) {
        Some(StatusCode::Running) => Status::Running,
        Some(StatusCode::Finished) | None => Status::Finished,
    };
    status.as_str()
}

/// The name of the sub-status with this number in the database.
pub(crate) fn sub_status_word(number: i16) -> &'static str {
    let sub_status = match SubStatusCode::from_number(number) {
        Some(SubStatusCode::Pending) | None => SubStatus::Pending,
        Some(SubStatusCode::Executing) => SubStatus::Executing,
        Some(SubStatusCode::Suspended) => SubStatus::Suspended,
        Some(SubStatusCode::Finished) => SubStatus::Finished,
        Some(SubStatusCode::Cancelled) => SubStatus::Cancelled,
        Some(SubStatusCode::Faulted) => SubStatus::Faulted,
    };
    sub_status.as_str()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Makes the rows that a commit writes. `stimuli` matched nothing and go into the inbox.
pub(crate) fn of(result: &BurstResult, stimuli: Vec<StimulusRow>) -> Result<Effects> {
    let made = result
        .bookmarks_created
        .iter()
        .map(|bookmark| weight::json(&bookmark.payload));
    let unmatched = stimuli.iter().filter_map(|stimulus| stimulus.payload.as_ref());
    let payload_bytes = made.chain(unmatched.map(weight::json)).sum();
    Ok(Effects {
        status: status_number(result.status),
        sub_status: sub_status_number(result.sub_status),
        correlation_id: result.correlation_id.clone(),
        name: result.name.clone(),
        incident_count: result.incident_count,
        state: result.state.to_bytes()?,
        elapsed: result.elapsed,
        bookmarks_made: result.bookmarks_created.iter().map(bookmark).collect(),
        bookmarks_burned: result.bookmarks_burned.clone(),
        payload_bytes,
        rematched: Vec::new(),
        dues: result.bookmarks_created.iter().filter_map(due).collect(),
        stimuli,
        unmet: Vec::new(),
        record: record(result)?,
        continues: result.yielded,
        reads_pending_work: false,
    })
}

/// Finds the earlier bookmarks of an instance, which may match stimuli of its new correlation id.
pub(crate) fn rematched(result: &BurstResult) -> Vec<WaitingBookmark> {
    let is_new = |bookmark: &Bookmark| result.bookmarks_created.iter().any(|made| made.id == bookmark.id);
    let bookmarks = result.state.bookmarks().iter();
    let earlier = bookmarks.filter(|bookmark| bookmark.publishable && !is_new(bookmark));
    earlier
        .map(|bookmark| WaitingBookmark {
            bookmark: bookmark.id.as_str().to_owned(),
            hash: bookmark.hash,
        })
        .collect()
}

fn bookmark(bookmark: &Bookmark) -> BookmarkRow {
    BookmarkRow {
        no: 0,
        id: bookmark.id.as_str().to_owned(),
        activity_id: bookmark.activity_id.as_str().to_owned(),
        node_id: bookmark.node_id.clone(),
        activity_execution_id: bookmark.activity_execution_id.as_str().to_owned(),
        name: bookmark.name.clone(),
        hash: bookmark.hash.0.to_vec(),
        payload: bookmark.payload.clone(),
        publishable: bookmark.publishable,
        // Rounded up: a timer may be late, never early.
        delay: bookmark.delay.map(|delay| micros(delay + Duration::from_nanos(999))),
    }
}

fn due(bookmark: &Bookmark) -> Option<DueRow> {
    Some(DueRow {
        no: 0,
        id: bookmark.id.as_str().to_owned(),
        due: bookmark.due?,
    })
}

fn record(result: &BurstResult) -> Result<Option<RecordRow>> {
    let mut record = Record::default();
    // Executions first: their references name what they were scheduled after.
    for execution in &result.activity_executions {
        let execution_ref = ExecutionRef {
            number: execution.id.number(),
            parent: execution.parent_id.as_ref().map(ActivityExecutionId::number),
            scheduled_after: execution.scheduled_after,
            activity_id: execution.activity_id.as_str(),
            node_id: &execution.node_id,
            activity_type: &execution.activity_type,
            activity_type_version: execution.activity_type_version,
            activity_name: execution.activity_name.as_deref(),
        };
        let execution = Execution {
            status: execution.status,
            started: execution.started.map(micros),
            completed: execution.completed.map(micros),
            activity_state: &execution.activity_state,
            outputs: &execution.outputs,
            payload: execution.payload.as_ref(),
            properties: execution.properties.as_ref(),
            exception: execution.exception.as_ref(),
            has_bookmarks: execution.has_bookmarks,
            fault_count: execution.fault_count,
        };
        record.execution(execution_ref, execution);
    }
    for entry in &result.journal {
        let execution_ref = ExecutionRef {
            number: entry.activity_execution_id.number(),
            parent: entry
                .parent_activity_execution_id
                .as_ref()
                .map(ActivityExecutionId::number),
            scheduled_after: None,
            activity_id: entry.activity_id.as_str(),
            node_id: &entry.node_id,
            activity_type: &entry.activity_type,
            activity_type_version: entry.activity_type_version,
            activity_name: entry.activity_name.as_deref(),
        };
        let entry = Entry {
            at: micros(entry.at),
            event_name: entry.event_name,
            message: entry.message.as_deref(),
            source: entry.source.as_deref(),
            activity_state: entry.activity_state.as_ref(),
            payload: entry.payload.as_ref(),
        };
        record.entry(execution_ref, entry);
    }
    record.into_row(result.journal.first().map_or(0, |entry| entry.sequence))
}

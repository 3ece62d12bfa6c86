//! Converts the result of a burst into the rows of its commit.

use std::time::Duration;

use super::instruction::StartBody;
use crate::activity::EventPublication;
#[cfg(feature = "http")]
use crate::activity::{EndpointRoute, HTTP_ENDPOINT};
use crate::execution::{
    AwaitedChild, Bookmark, BurstResult, ChildStart, InstanceState, MadeLink, Status, SubStatus, event_hash,
};
use crate::expression::{LeadsTo, LinkExpiry};
use crate::id::ActivityExecutionId;
use crate::store::code::{StatusCode, SubStatusCode};
use crate::store::commit::{
    AwaitedRow, BookmarkRow, ChildEndRow, ChildRow, DueRow, Effects, EventRow, LinkRow, StimulusRow, WaitingBookmark,
};
use crate::store::record::{ExecutionRef, NewEntry, NewExecution, Record, RecordRow};
use crate::store::route::BookmarkRoute;
#[cfg(feature = "http")]
use crate::store::route::anchor_key;
use crate::{Error, Result, weight};

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

/// Makes the rows that a commit writes. `stimuli` matched nothing and go into the inbox, which keeps an event for
/// `inbox_lifetime` microseconds.
pub(crate) fn of(result: &BurstResult, stimuli: Vec<StimulusRow>, inbox_lifetime: i64) -> Result<Effects> {
    let made = result
        .bookmarks_created
        .iter()
        .map(|bookmark| weight::json(&bookmark.payload));
    let unmatched = stimuli.iter().filter_map(|stimulus| stimulus.payload.as_ref());
    let published = result.events.iter().filter_map(|event| event.payload.as_ref());
    // An instance that has ended waits for nothing.
    let has_ended = result.status == Status::Finished;
    let events = result.events.iter().filter(|event| !(event.is_local && has_ended));
    let children = result.children.iter().map(child).collect::<Result<Vec<_>>>()?;
    let bodies = children.iter().map(|(_, bytes)| *bytes);
    let given = result.child_end.iter().map(|end| weight::json(&end.result));
    let payloads = made.chain(unmatched.chain(published).map(weight::json));
    let payload_bytes = payloads.chain(bodies).chain(given).sum();
    Ok(Effects {
        status: status_number(result.status),
        sub_status: sub_status_number(result.sub_status),
        correlation_id: result.correlation_id.clone(),
        name: result.name.clone(),
        incident_count: result.incident_count,
        state: result.state.to_row()?,
        elapsed: result.elapsed,
        bookmarks_made: result.bookmarks_created.iter().map(bookmark).collect(),
        bookmarks_burned: result.bookmarks_burned.clone(),
        routes_made: result.bookmarks_created.iter().filter_map(bookmark_route).collect(),
        payload_bytes,
        rematched: Vec::new(),
        dues: result.bookmarks_created.iter().filter_map(due).collect(),
        stimuli,
        events: events.map(|event| published_event(event, inbox_lifetime)).collect(),
        unmet: Vec::new(),
        record: record(result)?,
        continues: result.yielded,
        retried: false,
        reads_pending_work: false,
        parent: result.state.parent().map(|parent| parent.instance_id.clone()),
        children: children.into_iter().map(|(row, _)| row).collect(),
        child_end: result.child_end.as_ref().map(|end| ChildEndRow {
            no: 0,
            ends: end.ends,
            result: end.result.clone(),
        }),
        awaited: result.awaited.iter().map(awaited).collect(),
        cancels_children: result.cancels_children,
        answers: Vec::new(),
        links: result.links.iter().map(link).collect(),
        deliveries: Vec::new(),
        delivery_sinks: Vec::new(),
    })
}

/// Makes the rows of an instance that comes whole from a file, with the due times of its timers.
pub(crate) fn of_state(
    state: &InstanceState,
    dues: Vec<DueRow>,
    record: Option<RecordRow>,
    elapsed: Duration,
) -> Result<Effects> {
    let bookmarks = state.bookmarks().iter();
    Ok(Effects {
        status: status_number(state.status()),
        sub_status: sub_status_number(state.sub_status()),
        correlation_id: state.correlation_id().map(str::to_owned),
        name: state.name().map(str::to_owned),
        incident_count: i32::try_from(state.incidents().len()).unwrap_or(i32::MAX),
        state: state.to_row()?,
        elapsed,
        payload_bytes: bookmarks.clone().map(|bookmark| weight::json(&bookmark.payload)).sum(),
        // Its timer has a due time of its own.
        bookmarks_made: bookmarks
            .map(|made| BookmarkRow {
                delay: None,
                ..bookmark(made)
            })
            .collect(),
        routes_made: state.bookmarks().iter().filter_map(bookmark_route).collect(),
        dues,
        record,
        ..Effects::default()
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
        delay: bookmark
            .delay
            .map(|delay| micros(delay.saturating_add(Duration::from_nanos(999)))),
    }
}

/// The route of an endpoint, unless requests find its bookmark by their path.
#[cfg(feature = "http")]
fn bookmark_route(bookmark: &Bookmark) -> Option<BookmarkRoute> {
    if bookmark.name != HTTP_ENDPOINT || !bookmark.publishable {
        return None;
    }
    let route = EndpointRoute::of_options(&bookmark.payload)?;
    let template = route.template();
    (!template.is_literal()).then(|| BookmarkRoute {
        anchor: anchor_key(&template.anchor()),
        hash: bookmark.hash,
        template: template.as_str().to_owned(),
        method: route.method().to_owned(),
    })
}

/// Without endpoints there are no routes.
#[cfg(not(feature = "http"))]
fn bookmark_route(_: &Bookmark) -> Option<BookmarkRoute> {
    None
}

fn published_event(event: &EventPublication, lifetime: i64) -> EventRow {
    EventRow {
        no: 0,
        hash: event_hash(&event.name).0.to_vec(),
        name: "Elsa.Event".to_owned(),
        payload: event.payload.clone(),
        correlation_id: event.correlation_id.clone(),
        is_local: event.is_local,
        lifetime,
    }
}

/// The row of a child, and the bytes of its body.
fn child(child: &ChildStart) -> Result<(ChildRow, usize)> {
    let body = StartBody {
        correlation_id: child.correlation_id.clone(),
        input: child.input.clone(),
        parent: Some(child.parent.clone()),
        trace: child.trace,
        ..StartBody::default()
    };
    let body = serde_json::to_value(body)
        .map_err(|error| Error::internal("the start of a child cannot be written").caused_by(error))?;
    let bytes = weight::json(&body);
    let row = ChildRow {
        no: 0,
        id: child.id.as_str().to_owned(),
        definition_id: child.definition_id.as_str().to_owned(),
        correlation_id: child.correlation_id.clone(),
        body,
        bookmark_id: child.bookmark_id.as_ref().map(|id| id.as_str().to_owned()),
    };
    Ok((row, bytes))
}

fn awaited(child: &AwaitedChild) -> AwaitedRow {
    AwaitedRow {
        no: 0,
        child_id: child.id.as_str().to_owned(),
        bookmark_id: child.bookmark_id.as_str().to_owned(),
        until_rest: child.until_rest,
    }
}

fn link((link, bookmark): &MadeLink) -> LinkRow {
    let (lifetime, expires_at) = match link.expiry {
        LinkExpiry::After(lifetime) => (Some(micros(lifetime)), None),
        LinkExpiry::At(time) => (None, Some(time)),
    };
    LinkRow {
        id: link.id.0,
        bookmark_id: bookmark.as_ref().map(|id| id.as_str().to_owned()),
        event: match &link.leads_to {
            LeadsTo::Event(name) => Some(name.clone()),
            LeadsTo::Bookmark(_) => None,
        },
        uses: i32::try_from(link.uses).unwrap_or(i32::MAX),
        signed_by: link.signed_by,
        lifetime,
        expires_at,
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
        let execution = NewExecution {
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
        record.execution(execution_ref, execution)?;
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
        let entry = NewEntry {
            at: micros(entry.at),
            event_name: entry.event_name,
            message: entry.message.as_deref(),
            source: entry.source.as_deref(),
            activity_state: entry.activity_state.as_ref(),
            payload: entry.payload.as_ref(),
        };
        record.entry(execution_ref, entry)?;
    }
    record.into_row(result.journal.first().map_or(0, |entry| entry.sequence))
}

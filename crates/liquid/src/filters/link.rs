//! Elsa's links, which the host makes.

use super::{Call, Filter, Filtered, with};
use crate::error::TemplateFailure;

pub(super) static FILTERS: [Filter; 2] = [
    with(
        "event_trigger_url",
        0,
        "event_trigger_url: \"1.00:00:00\", 1",
        event_trigger_url,
    ),
    with("resume_url", 0, "resume_url: 1", resume_url),
];

/// `{{ "Approved" | event_trigger_url: "1.00:00:00", 1 }}`.
fn event_trigger_url<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let event = call.text()?.to_string();
    let until = call.argument_text(0)?.to_string();
    url(&call, Some(&event), &until, 1)
}

/// `{{ "1.00:00:00" | resume_url: 1 }}`.
fn resume_url<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let until = call.text()?.to_string();
    url(&call, None, &until, 0)
}

fn url<'a>(call: &Call<'a, '_>, event: Option<&str>, until: &str, uses: usize) -> Filtered<'a> {
    let uses = match call.given(uses) {
        Some(value) if !value.is_nil() => Some(value.integer("the number of uses", call.budget)? as f64),
        _ => None,
    };
    let until = Some(until).filter(|text| !text.is_empty());
    let url = call.data.link(event, until, uses);
    call.made_of(url.map_err(TemplateFailure::invalid)?)
}

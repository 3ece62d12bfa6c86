//! `Elsa.SendHttpRequest` and `Elsa.FlowSendHttpRequest`: a request to another server, and what follows its answer.
//!
//! A request is sent again where its burst is repeated, with the same key; there is no other retry here.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::invalid_input;
use super::outgoing_answer::{
    FLOW_OUTCOMES, Unanswered, count_answer, flow_failure, flow_outcomes, header_values, parsed_content, response_value,
};
use super::outgoing_request::{
    LONGEST, RequestInputs, any_method_input, authorization_input, content_input, content_type_input,
    expected_codes_input, headers_input, status_code, status_codes, timeout_input, url_input, validation_input,
};
use super::services::HttpServices;
use crate::activity::descriptor::item_port;
use crate::activity::{
    Activity, ActivityContext, ActivityKind, Descriptor, EXPECTED_STATUS_CODES, EndedChild, Fault, InputDescriptor,
    OutputDescriptor, SentFailure, Step, UiHint,
};

const INPUTS: RequestInputs = RequestInputs {
    content: "Content",
    content_type: "ContentType",
};

#[derive(Debug)]
pub(super) struct SendHttpRequest(pub(super) Arc<HttpServices>);

impl Activity for SendHttpRequest {
    fn descriptor(&self) -> Descriptor {
        base("Elsa.SendHttpRequest", "HTTP Request")
            .input(
                InputDescriptor::new("ExpectedStatusCodes", "ICollection<HttpStatusCodeCase>")
                    .raw()
                    .hint(UiHint::HttpStatusCodes)
                    .describe(
                        "A list of expected status codes to handle and the corresponding activity to execute when the status code \
                         matches.",
                    ),
            )
            .item_children(EXPECTED_STATUS_CODES, &["activity"])
            .port("UnmatchedStatusCode")
            .port("FailedToConnect")
            .port("Timeout")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let child = match send(&self.0, context).await? {
            Ok(status) => {
                let cases = context.node().property(EXPECTED_STATUS_CODES).and_then(Value::as_array);
                let mut cases = cases.into_iter().flatten();
                let matching = cases.position(|case| case.get("statusCode").and_then(status_code) == Some(status));
                match matching {
                    Some(number) => context.port(&item_port(EXPECTED_STATUS_CODES, number, "activity")),
                    None => context.port("UnmatchedStatusCode"),
                }
            }
            Err(was_cancelled) => context.port(if was_cancelled { "Timeout" } else { "FailedToConnect" }),
        };
        let Some(child) = child else { return Ok(Step::Done) };
        context.schedule(child);
        Ok(Step::Wait)
    }

    async fn child_cancelled(&self, _context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(Step::Done)
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        INPUTS.problems(inputs)
    }
}

#[derive(Debug)]
pub(super) struct FlowSendHttpRequest(pub(super) Arc<HttpServices>);

impl Activity for FlowSendHttpRequest {
    fn descriptor(&self) -> Descriptor {
        base("Elsa.FlowSendHttpRequest", "HTTP Request (flow)")
            .input(expected_codes_input().order(5.1))
            .outcomes(FLOW_OUTCOMES)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let expected = status_codes(context.input("ExpectedStatusCodes"))
            .map_err(|problem| invalid_input("ExpectedStatusCodes", &problem))?;
        Ok(match send(&self.0, context).await? {
            Ok(status) => flow_outcomes(&expected, status),
            Err(was_cancelled) => flow_failure(was_cancelled),
        })
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        INPUTS.problems(inputs)
    }
}

/// What both have.
fn base(type_name: &str, display_name: &str) -> Descriptor {
    Descriptor::new(type_name)
        .display_name(display_name)
        .describe("HTTP", "Send an HTTP request.")
        .kind(ActivityKind::Task)
        .input(url_input().describe("The URL to send the request to.").order(0.0))
        .input(any_method_input().order(1.0))
        .input(content_input("Content").order(2.0))
        .input(content_type_input("ContentType").order(3.0))
        .input(authorization_input().order(4.0))
        .input(validation_input().order(5.0))
        .input(headers_input().order(6.0))
        .input(
            InputDescriptor::new("EnableResiliency", "Boolean")
                .default(false)
                .describe("Obsolete. Use the common Resilience Strategy setting instead."),
        )
        .input(timeout_input().order(7.0))
        .output(OutputDescriptor::new("StatusCode", "Int32").describe("The HTTP response status code"))
        .output(OutputDescriptor::new("ParsedContent", "Object").describe("The parsed content, if any."))
        .output(
            OutputDescriptor::new("ResponseHeaders", "HttpHeaders")
                .describe("The response headers that were received."),
        )
        .output(
            OutputDescriptor::new("Result", "HttpResponseMessage")
                .describe("The response.")
                .not_serializable(),
        )
        .fault_category("HTTP")
        .timeout(CALL)
}

/// The timeout of a call: that of the request ends it before.
pub(super) const CALL: Duration = LONGEST.saturating_add(Duration::from_secs(60));

/// Sends the request and sets the outputs: the status, or whether the time ran out where there is no answer.
async fn send(services: &HttpServices, context: &mut ActivityContext<'_>) -> Result<Result<u16, bool>, Fault> {
    let (request, timeout) = INPUTS.read(context, services)?;
    let answer = async {
        let mut response = services.outgoing.send(request, timeout).await?;
        let content = parsed_content(context, services, &mut response).await?;
        count_answer();
        let status = response.status();
        context.set_output("Result", response_value(&response));
        context.set_output("ParsedContent", content);
        context.set_output("StatusCode", status);
        context.set_output("ResponseHeaders", header_values(response.headers(), |_| true));
        Ok::<u16, Unanswered>(status)
    };
    match answer.await {
        Ok(status) => Ok(Ok(status)),
        Err(Unanswered::Fault(fault)) => Err(fault),
        Err(Unanswered::Failed(failure)) => Ok(Err(note(context, failure))),
    }
}

/// Notes a request without an answer; returns whether its time ran out.
pub(super) fn note(context: &mut ActivityContext<'_>, failure: SentFailure) -> bool {
    let was_cancelled = failure.was_cancelled;
    context.note_failure(failure);
    was_cancelled
}

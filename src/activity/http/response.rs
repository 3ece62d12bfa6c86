//! `Elsa.WriteHttpResponse`: answers the request of the run.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::content::{Unmatched, WrittenBody, WrittenContent, check_content_type, content_type_hint, reads_bytes};
use super::header_fields::HeaderFields;
use super::services::HttpServices;
use super::status_code::StatusCode;
use super::{invalid_input, problems_of};
use crate::activity::{
    Activity, ActivityContext, Answer, AnswerBody, AnswerStatus, Choice, Descriptor, Fault, InputDescriptor, Step,
    UiHint,
};

/// Elsa's code of a response that no request takes.
const NO_HTTP_CONTEXT: &str = "NoHttpContext";

#[derive(Debug)]
pub(super) struct WriteHttpResponse(pub(super) Arc<HttpServices>);

impl Activity for WriteHttpResponse {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.WriteHttpResponse")
            .display_name("HTTP Response")
            .describe("HTTP", "Write a response to the current HTTP response object.")
            .input(
                InputDescriptor::new("StatusCode", "System.Net.HttpStatusCode, System.Private.CoreLib")
                    .hint(UiHint::Dropdown(StatusCode::names().map(Choice::from).collect()))
                    .default("OK")
                    .describe("The status code to return."),
            )
            .input(InputDescriptor::new("Content", "Object").describe(
                "The content to write back. String values will be sent as-is, while objects will be serialized to a JSON string. Byte \
                 arrays and streams will be sent as files.",
            ))
            .input(
                InputDescriptor::new("ContentType", "String")
                    .hint(content_type_hint())
                    .describe("The content type to write when sending the response."),
            )
            .input(
                InputDescriptor::new("ResponseHeaders", "HttpHeaders")
                    .hint(UiHint::JsonEditor)
                    .category("Advanced")
                    .default(json!({}))
                    .describe("The headers to send along with the response."),
            )
            .fault_category("HTTP")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        require_request(context)?;
        let status =
            StatusCode::read(context.input("StatusCode")).map_err(|problem| invalid_input("StatusCode", &problem))?;
        let mut headers = HeaderFields::read(context.input("ResponseHeaders"))
            .map_err(|problem| invalid_input("ResponseHeaders", &problem))?;
        let content = context.input("Content");
        let mut body = AnswerBody::Bytes(Vec::new());
        if !content.is_null() {
            let chosen = context.text("ContentType").filter(|chosen| !chosen.trim().is_empty());
            let chosen = chosen.or_else(|| headers.get("content-type").map(str::to_owned));
            let is_bytes = reads_bytes(context, "Content");
            let written = WrittenContent::write(content, chosen.as_deref(), is_bytes, Unmatched::Text);
            let written = written
                .map_err(|problem| Fault::new(format!("The response cannot be written: {problem}")).category("HTTP"))?;
            headers.set("Content-Type", written.content_type);
            body = match written.body {
                _ if status.is_bodiless() => body,
                WrittenBody::Bytes(bytes) => AnswerBody::Bytes(bytes),
                WrittenBody::File(file) => self.0.content_of(&file)?,
            };
        }
        context.answer(Answer {
            status: status.number(),
            headers: headers.into_list(),
            body,
        });
        Ok(Step::Done)
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let status = inputs
            .get("StatusCode")
            .map(|status| StatusCode::read(status).map(drop));
        let headers = inputs
            .get("ResponseHeaders")
            .map(|headers| HeaderFields::read(headers).map(drop));
        let chosen = inputs.get("ContentType").and_then(Value::as_str).map(str::trim);
        let chosen = chosen.filter(|chosen| !chosen.is_empty()).map(check_content_type);
        let checked = [
            ("StatusCode", status),
            ("ResponseHeaders", headers),
            ("ContentType", chosen),
        ];
        problems_of(checked)
    }
}

/// Makes sure that a request waits for a response of this run.
/// Errors: Elsa's fault, with what to do.
pub(super) fn require_request(context: &ActivityContext<'_>) -> Result<(), Fault> {
    let message = match context.answer_status() {
        AnswerStatus::Open => return Ok(()),
        AnswerStatus::Answered => {
            "The request of this run has been answered already, and it takes one response; remove one of the responses, or end the \
             workflow after the first one"
        }
        AnswerStatus::NoRequest => {
            "No HTTP request waits for a response of this run: a timer, an event or the API runs the workflow, or it has waited since \
             the request, which was then answered with 202; to let the request wait for this response, set waitForResponse of its \
             HTTP endpoint"
        }
    };
    Err(Fault::new(message)
        .code(NO_HTTP_CONTEXT)
        .category("HTTP")
        .quoting_nothing(true))
}

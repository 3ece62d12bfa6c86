//! `Elsa.DownloadHttpFile`: the answer to a request as a file.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::file_value::FileValue;
use super::invalid_input;
use super::outgoing_answer::{
    FLOW_OUTCOMES, Unanswered, count_answer, flow_failure, flow_outcomes, header_values, is_of_content, received_file,
    response_value,
};
use super::outgoing_request::{
    RequestInputs, authorization_input, content_input, content_type_input, expected_codes_input, headers_input,
    method_input, status_codes, timeout_input, url_input, validation_input,
};
use super::send_request::{CALL, note};
use super::services::HttpServices;
use crate::activity::{Activity, ActivityContext, ActivityKind, AnswerBody, Descriptor, Fault, OutputDescriptor, Step};

/// Elsa declares the content as `Content`, and its own serializer writes the property `requestContent`.
const INPUTS: RequestInputs = RequestInputs {
    content: "RequestContent",
    content_type: "RequestContentType",
};

#[derive(Debug)]
pub(super) struct DownloadHttpFile(pub(super) Arc<HttpServices>);

impl Activity for DownloadHttpFile {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.DownloadHttpFile")
            .display_name("Download File")
            .describe("HTTP", "Downloads a file from a given URL.")
            .kind(ActivityKind::Task)
            .input(
                url_input()
                    .display_name("URL")
                    .describe("The URL to download the file from."),
            )
            .input(method_input(&["GET", "POST", "PUT"]))
            .input(expected_codes_input())
            .input(content_input("Content"))
            .input(content_input("RequestContent").hidden())
            .input(content_type_input("RequestContentType"))
            .input(authorization_input())
            .input(validation_input())
            .input(headers_input())
            .input(timeout_input())
            .output(
                OutputDescriptor::new("Response", "HttpResponseMessage")
                    .describe("The HTTP response.")
                    .not_serializable(),
            )
            .output(OutputDescriptor::new("StatusCode", "Int32").describe("The HTTP response status code"))
            .output(
                OutputDescriptor::new("ResponseContentStream", "Stream")
                    .describe("The downloaded content stream, if any.")
                    .not_serializable(),
            )
            .output(
                OutputDescriptor::new("ResponseContentBytes", "Byte[]")
                    .describe("The downloaded content bytes, if any.")
                    .not_serializable(),
            )
            .output(
                OutputDescriptor::new("ResponseHeaders", "HttpHeaders")
                    .describe("The response headers that were received."),
            )
            .output(
                OutputDescriptor::new("ResponseContentHeaders", "HttpHeaders")
                    .display_name("Content Headers")
                    .describe("The response content headers that were received."),
            )
            .output(
                OutputDescriptor::new("Result", "HttpFile")
                    .describe("The downloaded file.")
                    .not_serializable(),
            )
            .fault_category("HTTP")
            .timeout(CALL)
            .outcomes(FLOW_OUTCOMES)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let services = &*self.0;
        let expected = status_codes(context.input("ExpectedStatusCodes"))
            .map_err(|problem| invalid_input("ExpectedStatusCodes", &problem))?;
        let (request, timeout) = INPUTS.read(context, services)?;
        let answer = async {
            let mut response = services.outgoing.send(request, timeout).await?;
            let file = received_file(context, services, &mut response).await?;
            count_answer();
            if is_bound(context, "ResponseContentBytes") {
                let bytes = bytes_of(context, services, file.as_ref()).await?;
                context.set_output("ResponseContentBytes", bytes);
            }
            let file = file.map_or(Value::Null, |file| file.to_value());
            // What nothing receives is not written into the journal a second time.
            if is_bound(context, "ResponseContentStream") {
                context.set_output("ResponseContentStream", file.clone());
            }
            let status = response.status();
            let headers = response.headers();
            context.set_output("Response", response_value(&response));
            context.set_output("Result", file);
            context.set_output("StatusCode", status);
            context.set_output("ResponseHeaders", header_values(headers, |name| !is_of_content(name)));
            context.set_output("ResponseContentHeaders", header_values(headers, is_of_content));
            Ok::<u16, Unanswered>(status)
        };
        match answer.await {
            Ok(status) => Ok(flow_outcomes(&expected, status)),
            Err(Unanswered::Fault(fault)) => Err(fault),
            Err(Unanswered::Failed(failure)) => Ok(flow_failure(note(context, failure))),
        }
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        INPUTS.problems(inputs)
    }
}

fn is_bound(context: &ActivityContext<'_>, output: &str) -> bool {
    context.node.outputs.iter().any(|bound| bound.name == output)
}

/// The bytes of a file, as a value.
/// Errors: they are more than a value can have.
async fn bytes_of(
    context: &ActivityContext<'_>,
    services: &HttpServices,
    file: Option<&FileValue>,
) -> Result<Value, Unanswered> {
    let Some(file) = file else { return Ok(Value::Null) };
    let most = context.max_value_bytes() as u64;
    if file.length > most {
        let message = format!(
            "The file has {} bytes, and a value of a workflow has at most {most} (the setting value-kib); use the output Result, which is \
             the file itself",
            file.length
        );
        return Err(Fault::new(message).code("response-too-large").category("HTTP").into());
    }
    let bytes = match services.content_of(file)? {
        AnswerBody::Bytes(bytes) => bytes,
        AnswerBody::File(spooled) => {
            let lost = |error: std::io::Error| Fault::new(format!("The downloaded file is lost: {error}"));
            spooled.read().await.map_err(lost)?
        }
    };
    Ok(STANDARD.encode(bytes).into())
}

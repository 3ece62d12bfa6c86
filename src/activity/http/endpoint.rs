//! `Elsa.HttpEndpoint`: starts a workflow by a request, or waits for one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::body_kind::{BodyKind, read_json};
use super::content::wanted_type;
use super::file_value::FileValue;
use super::form::dictionary;
use super::options::{RequestProblem, RouteOptions};
use super::received::{ReceivedBody, ReceivedRequest};
use super::services::HttpServices;
use crate::activity::{
    Activity, ActivityContext, ActivityKind, AddedOutcomes, AnswerBody, BookmarkRequest, Choice, Descriptor,
    ENDPOINT_METHODS, EndpointRoute, Fault, HTTP_ENDPOINT, InputDescriptor, OutputDescriptor, Resumption, Step,
    TriggerStimulus, UiHint,
};
use crate::expression::{TimeSpan, TypeName};

/// The longest time that a request can wait: as long as its answer would be kept.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// In bytes: the compiled regular expressions of a path at which an instance waits. There may be one for each instance, and a
/// request compiles those that may match its path.
const MOST_BOOKMARK_PATTERN_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct HttpEndpoint(pub(super) Arc<HttpServices>);

impl Activity for HttpEndpoint {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(HTTP_ENDPOINT)
            .display_name("HTTP Endpoint")
            .describe(
                "HTTP",
                "Wait for an inbound HTTP request that matches the specified path and methods.",
            )
            .kind(ActivityKind::Trigger)
            .input(
                InputDescriptor::new("Path", "String")
                    .hint(self.path_hint())
                    .describe("The path to associate with the workflow."),
            )
            .input(
                InputDescriptor::new("SupportedMethods", "String[]")
                    .hint(UiHint::CheckList(
                        ["GET", "POST", "PUT", "HEAD", "DELETE"].map(Choice::from).into(),
                    ))
                    .default(json!(["GET"]))
                    .describe("The HTTP methods to accept."),
            )
            .input(
                InputDescriptor::new("Authorize", "Boolean")
                    .category("Security")
                    .default(false)
                    .describe("Allow authenticated requests only."),
            )
            .input(
                InputDescriptor::new("Policy", "String")
                    .category("Security")
                    .describe("The permission that the caller needs, such as approve:invoices. It implies Authorize."),
            )
            .input(upload("RequestTimeout", "TimeSpan", "The maximum time allowed to process the request."))
            .input(upload("RequestSizeLimit", "Int64", "The maximum request size allowed in bytes."))
            .input(upload("FileSizeLimit", "Int64", "The maximum file size allowed in bytes for an individual file."))
            .input(upload(
                "AllowedFileExtensions",
                "String[]",
                "Only file extensions in this list are allowed. Leave empty to allow all extensions",
            ))
            .input(upload(
                "BlockedFileExtensions",
                "String[]",
                "File extensions in this list are forbidden. Leave empty to not block any extension.",
            ))
            .input(upload(
                "AllowedMimeTypes",
                "String[]",
                "Only MIME types in this list are allowed. Leave empty to allow all types",
            ))
            .input(outcome("ExposeRequestTooLargeOutcome", RequestProblem::RequestTooLarge))
            .input(outcome("ExposeFileTooLargeOutcome", RequestProblem::FileTooLarge))
            .input(outcome("ExposeInvalidFileExtensionOutcome", RequestProblem::InvalidFileExtension))
            .input(outcome("ExposeInvalidFileMimeTypeOutcome", RequestProblem::InvalidFileMimeType))
            .input(
                InputDescriptor::new("WaitForResponse", "TimeSpan")
                    .category("Response")
                    .describe(
                        "How long the request waits for a response of a later step, after a delay or a child. Leave empty to answer \
                         202 as soon as the workflow waits.",
                    ),
            )
            .output(OutputDescriptor::new("ParsedContent", "Object").describe("The parsed request content, if any."))
            .output(
                OutputDescriptor::new("Files", "FormFile[]")
                    .describe("The uploaded files, if any.")
                    .not_serializable(),
            )
            .output(
                OutputDescriptor::new("File", "FormFile")
                    .describe("The first uploaded file, if any.")
                    .not_serializable(),
            )
            .output(OutputDescriptor::new("RouteData", "ObjectDictionary").describe("The parsed route data, if any."))
            .output(
                OutputDescriptor::new("QueryStringData", "ObjectDictionary").describe("The querystring data, if any."),
            )
            .output(OutputDescriptor::new("Headers", "ObjectDictionary").describe("The headers, if any."))
            .output(
                OutputDescriptor::new("Result", "HttpRequest")
                    .describe("The request.")
                    .not_serializable(),
            )
            .fault_category("HTTP")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if let Some(payload) = context.started_by().cloned() {
            return receive(&self.0, context, &payload).await;
        }
        let routes = routes(context.inputs());
        let routes = routes.map_err(|problems| {
            Fault::new(format!(
                "The endpoint cannot wait for a request: {}",
                problems.join("; ")
            ))
            .category("HTTP")
        })?;
        let patterns = routes.iter().map(|(route, _)| route.template().pattern_bytes()).max();
        if patterns.unwrap_or_default() > MOST_BOOKMARK_PATTERN_BYTES {
            return Err(Fault::new(format!(
                "The endpoint cannot wait for a request: the regular expressions of its path would take more than {} KiB; use \
                 other constraints, or repeat fewer parts",
                MOST_BOOKMARK_PATTERN_BYTES >> 10
            ))
            .category("HTTP"));
        }
        for (route, options) in routes {
            context.bookmark(BookmarkRequest {
                name: Some(HTTP_ENDPOINT.to_owned()),
                key: Some(route.key()),
                ..BookmarkRequest::new(options.to_payload())
            });
        }
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        receive(&self.0, context, &resumption.payload.unwrap_or_default()).await
    }

    fn trigger_stimuli(&self, inputs: &Map<String, Value>) -> Result<Vec<TriggerStimulus>, Vec<String>> {
        let stimuli = routes(inputs)?.into_iter();
        let stimuli = stimuli.map(|(route, options)| TriggerStimulus {
            key: route.key(),
            payload: options.to_payload(),
        });
        Ok(stimuli.collect())
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        routes(inputs).err().unwrap_or_default()
    }
}

impl HttpEndpoint {
    /// A line of text behind the URL that is before it, which a designer copies with it.
    fn path_hint(&self) -> UiHint {
        let adornment = json!({"adornmentText": self.0.complete_base_url(), "enableCopyAdornment": true});
        let specifications = json!({"singleline": adornment, "Refresh": true});
        match specifications {
            Value::Object(specifications) => UiHint::Custom(UiHint::SingleLine.as_str().to_owned(), specifications),
            _ => UiHint::SingleLine,
        }
    }
}

fn upload(name: &str, type_name: &str, description: &str) -> InputDescriptor {
    InputDescriptor::new(name, type_name)
        .category("Upload")
        .describe(description)
}

fn outcome(name: &str, problem: RequestProblem) -> InputDescriptor {
    let description = format!(
        "A value indicating whether to expose the \"{}\" outcome.",
        problem.outcome()
    );
    let input = InputDescriptor::new(name, "Boolean").category("Outcomes").bare();
    let input = input.default(false).describe(description);
    input.adds_outcomes(AddedOutcomes::WhereSet(problem.outcome().to_owned()))
}

/// The routes of an endpoint, one for each method. An input that is missing here has no known value yet and is not checked.
/// Errors: what is wrong with the inputs.
fn routes(inputs: &Map<String, Value>) -> Result<Vec<(EndpointRoute, RouteOptions)>, Vec<String>> {
    let mut problems = Vec::new();
    let path = inputs.get("Path").map(|path| path.as_str().unwrap_or_default());
    if path.is_some_and(|path| path.trim().is_empty()) {
        let remedy = "write the path below the base path, as orders/{id}, or / for the base path itself";
        problems.push(format!("the input Path is empty; {remedy}"));
    }
    let methods = inputs.get("SupportedMethods");
    let methods = methods.map_or_else(Vec::new, |methods| methods_of(methods, &mut problems));
    let mut routes = Vec::new();
    for method in &methods {
        match path
            .filter(|path| !path.trim().is_empty())
            .map(|path| EndpointRoute::new(path, method))
        {
            Some(Ok(route)) => routes.push(route),
            Some(Err(problem)) => {
                problems.push(problem);
                break;
            }
            None => {}
        }
    }
    let policy = inputs.get("Policy").and_then(Value::as_str).map(str::trim);
    let policy = policy.filter(|policy| !policy.is_empty());
    let flag = |value: Option<&Value>| value == Some(&Value::Bool(true));
    let exposed = [
        (
            inputs.get("ExposeRequestTooLargeOutcome"),
            RequestProblem::RequestTooLarge,
        ),
        (inputs.get("ExposeFileTooLargeOutcome"), RequestProblem::FileTooLarge),
        (
            inputs.get("ExposeInvalidFileExtensionOutcome"),
            RequestProblem::InvalidFileExtension,
        ),
        (
            inputs.get("ExposeInvalidFileMimeTypeOutcome"),
            RequestProblem::InvalidFileMimeType,
        ),
    ];
    let exposed = exposed.into_iter().filter(|(value, _)| flag(*value));
    let extensions = |value: Option<&Value>| {
        let with_dot = |text: String| {
            if text.starts_with('.') {
                text
            } else {
                format!(".{text}")
            }
        };
        texts(value).into_iter().map(with_dot).collect::<Vec<String>>()
    };
    let options = RouteOptions {
        path: path.unwrap_or_default().to_owned(),
        authorize: flag(inputs.get("Authorize")),
        policy: policy.map(str::to_owned),
        request_timeout: length_of_time("RequestTimeout", inputs.get("RequestTimeout"), &mut problems),
        request_size_limit: size("RequestSizeLimit", inputs.get("RequestSizeLimit"), &mut problems),
        file_size_limit: size("FileSizeLimit", inputs.get("FileSizeLimit"), &mut problems),
        allowed_file_extensions: extensions(inputs.get("AllowedFileExtensions")),
        blocked_file_extensions: extensions(inputs.get("BlockedFileExtensions")),
        allowed_mime_types: texts(inputs.get("AllowedMimeTypes")),
        exposed: exposed.map(|(_, problem)| problem).collect(),
        wait_for_response: length_of_time("WaitForResponse", inputs.get("WaitForResponse"), &mut problems),
        ..RouteOptions::default()
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let with_options = routes.into_iter().map(|route| {
        let options = RouteOptions {
            method: route.method().to_owned(),
            ..options.clone()
        };
        (route, options)
    });
    Ok(with_options.collect())
}

/// Known ones in lower case, each once.
fn methods_of(value: &Value, problems: &mut Vec<String>) -> Vec<String> {
    let named = match value {
        Value::Null => vec!["GET".to_owned()],
        value => texts(Some(value)),
    };
    if named.is_empty() {
        problems
            .push("the input SupportedMethods is empty, so no request would ever match; choose a method".to_owned());
    }
    let mut methods: Vec<String> = Vec::new();
    for method in named {
        if !ENDPOINT_METHODS.iter().any(|known| known.eq_ignore_ascii_case(&method)) {
            let known = ENDPOINT_METHODS.join(", ").to_ascii_uppercase();
            problems.push(format!(
                "the method {method:?} in SupportedMethods is none that a server answers; use {known}"
            ));
            continue;
        }
        let method = method.to_ascii_lowercase();
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    let texts = items.filter_map(Value::as_str).map(str::trim);
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

fn size(name: &str, value: Option<&Value>, problems: &mut Vec<String>) -> Option<u64> {
    let value = value.filter(|value| !value.is_null())?;
    let size = value.as_u64();
    if size.is_none() {
        problems.push(format!(
            "the input {name} is {value}, which is no number of bytes; use 0 or more, or leave it empty"
        ));
    }
    size
}

/// .NET's text of a length of time; zero is none.
fn length_of_time(name: &str, value: Option<&Value>, problems: &mut Vec<String>) -> Option<String> {
    let text = value?.as_str().filter(|text| !text.trim().is_empty())?;
    let span = TimeSpan::parse(text);
    match span.and_then(TimeSpan::to_duration) {
        Some(Duration::ZERO) => None,
        Some(length) if length <= LONGEST_WAIT => span.map(|span| span.to_string()),
        Some(_) => {
            problems.push(format!(
                "the input {name} is {text}; at most 1.00:00:00 (a day) is possible"
            ));
            None
        }
        None => {
            problems.push(format!(
                "the input {name} is {text}, which is no length of time above zero; write it as 00:00:30"
            ));
            None
        }
    }
}

/// Goes on with a request.
async fn receive(services: &HttpServices, context: &mut ActivityContext<'_>, payload: &Value) -> Result<Step, Fault> {
    // A client can start or resume at an endpoint by the API, which brings no request.
    let Ok(request) = ReceivedRequest::read(payload) else {
        return Ok(Step::Done);
    };
    if request.method.is_empty() {
        return Ok(Step::Done);
    }
    context.set_workflow_input("Path", request.path.clone());
    context.set_output("Result", request.to_value());
    context.set_output("RouteData", request.route.clone());
    context.set_output("QueryStringData", request.query_values());
    context.set_output("Headers", request.header_values());
    if request.problem == Some(RequestProblem::RequestTooLarge) {
        return Ok(Step::outcome(RequestProblem::RequestTooLarge.outcome()));
    }
    let kind = BodyKind::of(request.content_type());
    match &request.body {
        ReceivedBody::None => {}
        ReceivedBody::Text(text) => {
            let value = parsed(context, kind, text)?;
            context.set_output("ParsedContent", value);
        }
        ReceivedBody::Form { fields, .. } => {
            context.set_output("ParsedContent", dictionary(fields.iter().cloned()));
        }
        ReceivedBody::File(file) if kind.is_text() => {
            let text = text_of(services, context, kind, &request, file).await?;
            let value = parsed(context, kind, &text)?;
            context.set_output("ParsedContent", value);
        }
        ReceivedBody::File(file) => context.set_output("ParsedContent", file.to_value()),
    }
    if let Some(problem) = request.problem {
        return Ok(Step::outcome(problem.outcome()));
    }
    if let Some(first) = request.body.files().first() {
        let files: Vec<Value> = request.body.files().iter().map(FileValue::to_value).collect();
        context.set_output("Files", files);
        context.set_output("File", first.to_value());
    }
    Ok(Step::Done)
}

/// The value of a body of text. JSON is text where the variable that receives it is.
fn parsed(context: &ActivityContext<'_>, kind: BodyKind, text: &str) -> Result<Value, Fault> {
    if kind != BodyKind::Json || text.trim().is_empty() || wanted_type(context) == Some(TypeName::Text) {
        return Ok(text.into());
    }
    read_json(text).map_err(|malformed| Fault::new(malformed).code("malformed-body").category("HTTP"))
}

/// The text of a body that was too large for the row of its request.
async fn text_of(
    services: &HttpServices,
    context: &ActivityContext<'_>,
    kind: BodyKind,
    request: &ReceivedRequest,
    file: &FileValue,
) -> Result<String, Fault> {
    let most = context.max_value_bytes();
    if u64::try_from(most).is_ok_and(|most| file.length > most) {
        let message = format!(
            "The body has {} bytes, and a value of a workflow has at most {most} (the setting value-kib); let the client send it as \
             application/octet-stream, which the workflow receives as a file",
            file.length
        );
        return Err(Fault::new(message).code("body-too-large").category("HTTP"));
    }
    let bytes = match services.content_of(file)? {
        AnswerBody::Bytes(bytes) => bytes,
        AnswerBody::File(spooled) => spooled.read().await?,
    };
    let decoded = kind.decode(request.content_type(), bytes);
    decoded.map_err(|malformed| Fault::new(malformed).code("malformed-body").category("HTTP"))
}

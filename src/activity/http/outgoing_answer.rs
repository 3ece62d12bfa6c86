//! What an activity makes of the answer to its request.

use std::io::Read;
use std::time::Duration;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName};
use reqwest::{Method, Url};
use serde_json::{Map, Value, json};

use super::body_kind::{BodyKind, media_type, read_json};
use super::content::wanted_type;
use super::content_disposition::filename_of;
use super::file_value::{FileContent, FileValue};
use super::form::percent_decoded;
use super::header_fields::written_name;
use super::services::HttpServices;
use crate::activity::{ActivityContext, Fault, SentFailure, Step};
use crate::expression::TypeName;
use crate::outgoing::{OutgoingBody, OutgoingRequest, OutgoingResponse, SendError};
use crate::spool::{SpoolContent, SpoolFile, SpoolPlace};

/// The largest file that is a value of the workflow itself, in bytes: it outlives waits. Larger ones are in the spool.
const LARGEST_INLINE: usize = 256 << 10;

impl ActivityContext<'_> {
    /// Notes a request that had no answer.
    pub(crate) fn note_failure(&mut self, failure: SentFailure) {
        self.commands.sent.failures.push(failure);
    }

    /// Keeps a file until the burst has ended.
    pub(crate) fn hold_file(&mut self, file: SpoolFile) {
        self.commands.sent.files.push(file);
    }
}

/// Why an activity has no outputs.
pub(crate) enum Unanswered {
    /// An outcome of the activity.
    Failed(SentFailure),
    /// A fault.
    Fault(Fault),
}

impl From<Fault> for Unanswered {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<crate::Error> for Unanswered {
    fn from(error: crate::Error) -> Self {
        Self::Fault(Fault::new(error.to_string()).code(error.code()).category("HTTP"))
    }
}

impl From<SendError> for Unanswered {
    fn from(error: SendError) -> Self {
        metrics::counter!("mainspring_outgoing_requests_total", "result" => error.result()).increment(1);
        let fault = |code, message: String| Self::Fault(Fault::new(message).code(code).category("HTTP"));
        match error {
            SendError::Refused(reason) => fault("target-refused", format!("The request was not sent: {reason}")),
            SendError::TooLarge(limit) => {
                let message = format!(
                    "The answer is larger than {limit} bytes, the limit of this server (the setting http-response-mib)"
                );
                Self::Fault(
                    Fault::new(message)
                        .code("response-too-large")
                        .category("HTTP")
                        .quoting_nothing(true),
                )
            }
            SendError::TimedOut(limit) => {
                let reason = format!("No complete answer came within {limit:?}");
                Self::Failed(SentFailure {
                    reason: Fault::new(reason).quoting_nothing(true),
                    was_cancelled: true,
                })
            }
            SendError::Failed(reason) => Self::Failed(SentFailure {
                reason: Fault::new(reason),
                was_cancelled: false,
            }),
        }
    }
}

/// Counts a request whose answer is complete.
pub(super) fn count_answer() {
    metrics::counter!("mainspring_outgoing_requests_total", "result" => "answered").increment(1);
}

/// The outcomes of an activity in a flowchart: that of the code, and `Done` in any case.
pub(super) fn flow_outcomes(expected: &[u16], status: u16) -> Step {
    let of_code = match expected {
        [] => None,
        codes if codes.contains(&status) => Some(status.to_string()),
        _ => Some(UNMATCHED.to_owned()),
    };
    Step::Outcomes(of_code.into_iter().chain([DONE.to_owned()]).collect())
}

/// The outcome of a code that is not expected.
const UNMATCHED: &str = "Unmatched status code";

/// The outcome of a request without a connection to its server.
const FAILED: &str = "Failed to connect";

/// The outcome of a request whose time has run out.
const TIMED_OUT: &str = "Timeout";

/// The outcome of a request with an answer.
const DONE: &str = "Done";

/// The outcomes of a request, besides those of its expected codes.
pub(super) const FLOW_OUTCOMES: [&str; 4] = [UNMATCHED, FAILED, TIMED_OUT, DONE];

/// The outcome of a request without an answer.
pub(super) fn flow_failure(was_cancelled: bool) -> Step {
    Step::outcome(if was_cancelled { TIMED_OUT } else { FAILED })
}

/// Headers as a value: the names with their values, each a list. `select` chooses among them.
pub(super) fn header_values(headers: &HeaderMap, select: impl Fn(&HeaderName) -> bool) -> Value {
    let mut values = Map::new();
    for name in headers.keys().filter(|name| select(name)) {
        let of_name = headers.get_all(name).iter();
        let texts = of_name.map(|value| Value::String(String::from_utf8_lossy(value.as_bytes()).replace('\0', "")));
        values.insert(written_name(name.as_str()), Value::Array(texts.collect()));
    }
    Value::Object(values)
}

/// Whether .NET has a header among those of the content.
pub(super) fn is_of_content(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("content-") && name != "content-security-policy"
        || ["allow", "expires", "last-modified"].contains(&name)
}

/// The response as a value: what of it a later script can read.
pub(super) fn response_value(response: &OutgoingResponse) -> Value {
    let status = response.status();
    let reason = reqwest::StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
    let headers = header_values(response.headers(), |_| true);
    json!({"statusCode": status, "reasonPhrase": reason, "headers": headers})
}

fn content_type(response: &OutgoingResponse) -> String {
    let given = response
        .headers()
        .get(CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()));
    let given = given.filter(|given| !given.trim().is_empty());
    given.map_or_else(
        || "application/octet-stream".to_owned(),
        |given| given.trim().to_owned(),
    )
}

/// Reads the content of an answer by its content type; null if it is empty.
pub(super) async fn parsed_content(
    context: &mut ActivityContext<'_>,
    services: &HttpServices,
    response: &mut OutgoingResponse,
) -> Result<Value, Unanswered> {
    let content_type = content_type(response);
    let kind = match BodyKind::of(&content_type) {
        kind if kind.is_text() => kind,
        // Elsa has no reader of forms for answers.
        _ => {
            return Ok(received_file(context, services, response)
                .await?
                .map_or(Value::Null, |file| file.to_value()));
        }
    };
    let most = context.max_value_bytes();
    let mut bytes = Vec::new();
    while let Some(part) = response.next().await? {
        if bytes.len() + part.len() > most {
            return Err(too_much(most).into());
        }
        bytes.extend_from_slice(&part);
    }
    let bytes = decoded(response.headers(), bytes, most)?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let malformed = |message: String| {
        let message = format!("The answer cannot be read: {message}");
        Fault::new(message).code("malformed-body").category("HTTP")
    };
    let wanted = wanted_type(context);
    let is_value = match (kind, &wanted) {
        (BodyKind::Json, None) => media_type(&content_type) == "application/json",
        (BodyKind::Json, Some(wanted)) => *wanted != TypeName::Text,
        _ => false,
    };
    if !is_value {
        // The text of JSON is not read, so it need be none.
        let kind = if kind == BodyKind::Json { BodyKind::Text } else { kind };
        let text = kind.decode(&content_type, bytes).map_err(malformed)?;
        return Ok(text.into());
    }
    let text = kind.decode(&content_type, bytes).map_err(malformed)?;
    Ok(read_json(&text).map_err(malformed)?)
}

fn too_much(most: usize) -> Fault {
    let message = format!(
        "The answer is larger than {most} bytes, the limit of a value (the setting value-kib); receive it as a file with DownloadHttpFile"
    );
    Fault::new(message)
        .code("response-too-large")
        .category("HTTP")
        .quoting_nothing(true)
}

/// Undoes a compression that the server chose by itself or that a header of the workflow asked for. What has more bytes than
/// `most` then is refused before it is in memory.
fn decoded(headers: &HeaderMap, bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, Fault> {
    let encoding = headers
        .get(CONTENT_ENCODING)
        .and_then(|encoding| encoding.to_str().ok());
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    let limit = most as u64 + 1;
    let mut whole = Vec::new();
    let read = match encoding.as_str() {
        _ if bytes.is_empty() => return Ok(bytes),
        "" | "identity" => return Ok(bytes),
        "gzip" | "x-gzip" => MultiGzDecoder::new(bytes.as_slice())
            .take(limit)
            .read_to_end(&mut whole),
        "deflate" => ZlibDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut whole),
        other => {
            let message = format!(
                "The answer is compressed as {other:?}, which cannot be read; ask for another form by the header Accept-Encoding"
            );
            return Err(Fault::new(message).code("malformed-body").category("HTTP"));
        }
    };
    read.map_err(|error| {
        let message = format!("The answer cannot be decompressed: {error}");
        Fault::new(message).code("malformed-body").category("HTTP")
    })?;
    if whole.len() > most {
        return Err(too_much(most));
    }
    Ok(whole)
}

/// Receives the content of an answer as a file; `None` if it is empty.
pub(super) async fn received_file(
    context: &mut ActivityContext<'_>,
    services: &HttpServices,
    response: &mut OutgoingResponse,
) -> Result<Option<FileValue>, Unanswered> {
    let mut content = SpoolContent::default();
    while let Some(part) = response.next().await? {
        content.write(&part, LARGEST_INLINE, &services.spool).await?;
    }
    let content_type = content_type(response);
    let filename = file_name(response.headers(), response.url().path());
    let mut file = match content.finish().await? {
        SpoolPlace::Memory(bytes) if bytes.is_empty() => return Ok(None),
        SpoolPlace::Memory(bytes) => FileValue::inline(filename, content_type, bytes),
        SpoolPlace::File(stored) => {
            let file = FileValue {
                name: None,
                filename,
                content_type,
                length: stored.length(),
                e_tag: None,
                content: FileContent::Spooled(stored.id().to_owned()),
            };
            context.hold_file(stored);
            file
        }
    };
    file.e_tag = response
        .headers()
        .get(ETAG)
        .and_then(|tag| Some(tag.to_str().ok()?.to_owned()));
    Ok(Some(file))
}

/// Gets the file at a URL, of at most so many bytes; it is held until the burst has ended.
/// Errors: also an answer that is none of success.
pub(crate) async fn fetch_file(
    context: &mut ActivityContext<'_>,
    services: &HttpServices,
    url: Url,
    most: u64,
    timeout: Duration,
) -> Result<FileValue, Unanswered> {
    let request = OutgoingRequest {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: OutgoingBody::None,
    };
    let mut response = services.outgoing.send(request, timeout).await?;
    let status = response.status();
    if !(200..300).contains(&status) {
        count_answer();
        return Err(Unanswered::Failed(SentFailure {
            reason: Fault::new(format!("the answer has the status {status}")),
            was_cancelled: false,
        }));
    }
    response.limit_to(most);
    let received = received_file(context, services, &mut response).await?;
    count_answer();
    Ok(received.unwrap_or_else(|| {
        let filename = file_name(response.headers(), response.url().path());
        FileValue::inline(filename, content_type(&response), Vec::new())
    }))
}

/// The name of a file: from the header, else the last segment of the path, else `file.dat`. It has no folder in it.
fn file_name(headers: &HeaderMap, path: &str) -> String {
    let disposition = headers.get(CONTENT_DISPOSITION);
    let named = disposition.and_then(|value| filename_of(value.as_bytes()));
    let segment = path.rsplit('/').next().map(percent_decoded);
    let names = [named, segment].into_iter().flatten().map(|name| without_folder(&name));
    let mut names = names.filter(|name| !name.is_empty());
    names.next().unwrap_or_else(|| "file.dat".to_owned())
}

fn without_folder(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| !c.is_control()).take(255).collect();
    let plain = plain.trim();
    if plain.chars().all(|c| c == '.') {
        return String::new();
    }
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn a_file_has_the_name_of_its_header_or_its_path() {
        for (disposition, path, name) in [
            ("attachment; filename=\"a \\\"b\\\".pdf\"", "/x", "a \"b\".pdf"),
            ("attachment; filename=a.pdf; x=y", "/x", "a.pdf"),
            (
                "attachment; filename=\"e.txt\"; filename*=UTF-8''%C3%A9+.txt",
                "/x",
                "é+.txt",
            ),
            ("attachment; filename=\"../../etc/passwd\"", "/x", "passwd"),
            ("attachment; filename=\"C:\\\\x\\\\a.doc\"", "/x", "a.doc"),
            ("attachment; filename=\"..\"", "/files/a%20b.txt", "a b.txt"),
            ("attachment", "/files/..%2Fb.txt", "b.txt"),
            ("attachment; filename=\"", "/", "file.dat"),
            (";;=;filename", "/x/", "file.dat"),
            ("", "/a+b", "a+b"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_DISPOSITION, HeaderValue::from_str(disposition).unwrap());
            assert_eq!(file_name(&headers, path), name, "{disposition} {path}");
        }
    }

    #[test]
    fn a_compressed_bomb_is_refused_before_it_is_in_memory() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..64 {
            encoder.write_all(&[b' '; 1 << 20]).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 100_000);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let fault = decoded(&headers, bomb, 1 << 20).unwrap_err();
        assert_eq!(fault.code, "response-too-large");
        assert_eq!(
            decoded(&headers, b"no gzip".to_vec(), 1 << 20).unwrap_err().code,
            "malformed-body"
        );
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert!(decoded(&headers, vec![1], 10).unwrap_err().message.contains("\"br\""));
    }
}

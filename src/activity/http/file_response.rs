//! `Elsa.WriteFileHttpResponse`: answers the request of the run with a file, or with several as a zip.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::content::{check_content_type, reads_bytes};
use super::file_value::FileValue;
use super::header_fields::value_problem;
use super::media_types::{is_active, media_type_of};
use super::problems_of;
use super::response::require_request;
use super::services::HttpServices;
use super::zip_file::{MOST_FILES, ZipFile};
use crate::activity::{Activity, ActivityContext, Answer, AnswerBody, Descriptor, Fault, InputDescriptor, Step};
use crate::spool::{SpoolContent, SpoolPlace};

/// How much of a zip is kept in memory: as much as a kept answer can have. What is larger goes to the spool.
const IN_MEMORY: usize = 1 << 20;

/// The content type of bytes of which nothing else is known.
const OCTETS: &str = "application/octet-stream";

/// How much of a file is read at once.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct WriteFileHttpResponse(pub(super) Arc<HttpServices>);

impl Activity for WriteFileHttpResponse {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.WriteFileHttpResponse")
            .display_name("HTTP File Response")
            .describe("HTTP", "Send one ore more files (zipped) to the HTTP response.")
            .input(InputDescriptor::new("ContentType", "String").describe(
                "The content type of the file to serve. Leave empty to let the system determine the content type.",
            ))
            .input(InputDescriptor::new("Filename", "String").describe(
                "The name of the file to serve. Leave empty to let the system determine the file name.",
            ))
            .input(InputDescriptor::new("EntityTag", "String").describe(
                "The Entity Tag of the file to serve. Leave empty to let the system determine the Entity Tag.",
            ))
            .input(InputDescriptor::new("Content", "Object").describe(
                "The file content to serve. Supports various types, such as byte array, stream, string, Uri, Downloadable and a (mixed) \
                 array of the aforementioned types.",
            ))
            .input(
                InputDescriptor::new("EnableResumableDownloads", "Boolean").describe(
                    "Whether to enable resumable downloads. When enabled, the client can resume a download if the connection is lost.",
                ),
            )
            .input(InputDescriptor::new("DownloadCorrelationId", "String").describe(
                "The correlation ID of the download used to resume a download. It changes nothing here: the same files make the same \
                 download.",
            ))
            .fault_category("HTTP")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        require_request(context)?;
        let invalid = |problem: String| Fault::new(format!("The file cannot be sent: {problem}")).category("HTTP");
        let is_bytes = reads_bytes(context, "Content");
        let mut files = Vec::new();
        collect(context.input("Content"), is_bytes, 0, &mut files).map_err(invalid)?;
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let filename = given(context.text("Filename"));
        let content_type = given(context.text("ContentType"));
        let e_tag = given(context.text("EntityTag"));
        let is_resumable = context.input("EnableResumableDownloads") == &Value::Bool(true);
        let Some(first) = files.first() else {
            context.answer(Answer {
                status: 204,
                headers: Vec::new(),
                body: AnswerBody::Bytes(Vec::new()),
            });
            return Ok(Step::Done);
        };
        let (body, made) = if files.len() == 1 {
            let own = first.content_type.trim();
            let own_tag = first.e_tag.clone().filter(|tag| !tag.trim().is_empty());
            let made = Made {
                filename: first.filename.clone(),
                content_type: (!own.is_empty()).then(|| own.to_owned()),
                e_tag: own_tag,
            };
            (self.0.content_of(first)?, made)
        } else {
            self.zip(&files).await?
        };
        let is_named = filename.is_some();
        let filename = filename.unwrap_or(made.filename);
        let filename = if filename.trim().is_empty() {
            "file.bin".to_owned()
        } else {
            filename
        };
        let own = made.content_type.filter(|own| !is_active(own));
        let content_type = content_type.or(own).unwrap_or_else(|| match media_type_of(&filename) {
            by_own_name if !is_named && is_active(by_own_name) => OCTETS.to_owned(),
            by_name => by_name.to_owned(),
        });
        check_content_type(content_type.trim()).map_err(invalid)?;
        let mut headers = vec![
            ("Content-Type".to_owned(), content_type.trim().to_owned()),
            ("Content-Disposition".to_owned(), disposition(&filename)),
        ];
        if is_resumable {
            headers.push(("Accept-Ranges".to_owned(), "bytes".to_owned()));
            if let Some(tag) = e_tag.or(made.e_tag) {
                headers.push(("ETag".to_owned(), entity_tag(&tag).map_err(invalid)?));
            }
        }
        context.answer(Answer {
            status: 200,
            headers,
            body,
        });
        Ok(Step::Done)
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let content_type = text(inputs.get("ContentType")).map(|it| check_content_type(&it));
        let tag = text(inputs.get("EntityTag")).map(|it| entity_tag(&it).map(drop));
        let checked = [("ContentType", content_type), ("EntityTag", tag)];
        problems_of(checked)
    }
}

/// What a file says of itself where the inputs say nothing.
struct Made {
    filename: String,
    content_type: Option<String>,
    e_tag: Option<String>,
}

impl WriteFileHttpResponse {
    /// Several files as one. Its tag is that of its bytes.
    async fn zip(&self, files: &[FileValue]) -> Result<(AnswerBody, Made), Fault> {
        let mut zip = ZipFile::new();
        let mut target = ZipTarget {
            services: &self.0,
            content: SpoolContent::default(),
            hasher: Sha256::new(),
        };
        for (number, file) in files.iter().enumerate() {
            match safe_name(&file.filename) {
                "" => zip.begin(&format!("file-{number}.bin"))?,
                name => zip.begin(name)?,
            }
            match self.0.content_of(file)? {
                AnswerBody::Bytes(bytes) => target.add(&mut zip, &mut bytes.as_slice()).await?,
                AnswerBody::File(spooled) => target.add(&mut zip, &mut spooled.open().await?).await?,
            }
        }
        zip.finish()?;
        target.write(&zip.take()).await?;
        let made = Made {
            filename: "download.zip".to_owned(),
            content_type: Some("application/zip".to_owned()),
            e_tag: Some(target.hasher.clone()).map(|hasher| {
                let hash = hasher.finalize();
                format!("\"{}\"", STANDARD.encode(hash.get(..16).unwrap_or_default()))
            }),
        };
        Ok((target.finish().await?, made))
    }
}

/// Where a zip is written.
struct ZipTarget<'s> {
    services: &'s HttpServices,
    content: SpoolContent,
    hasher: Sha256,
}

impl ZipTarget<'_> {
    async fn add(&mut self, zip: &mut ZipFile, content: &mut (impl AsyncRead + Unpin)) -> Result<(), Fault> {
        let mut piece = vec![0; PIECE];
        loop {
            let count = content.read(&mut piece).await?;
            if count == 0 {
                return Ok(());
            }
            zip.write(piece.get(..count).unwrap_or_default())?;
            self.write(&zip.take()).await?;
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.hasher.update(bytes);
        Ok(self.content.write(bytes, IN_MEMORY, &self.services.spool).await?)
    }

    async fn finish(self) -> Result<AnswerBody, Fault> {
        Ok(match self.content.finish().await? {
            SpoolPlace::File(file) => AnswerBody::File(file),
            SpoolPlace::Memory(bytes) => AnswerBody::Bytes(bytes),
        })
    }
}

/// The files of a value, as Elsa's handlers find them in it.
/// Errors: what a part of it is not.
fn collect(content: &Value, is_bytes: bool, depth: usize, files: &mut Vec<FileValue>) -> Result<(), String> {
    if files.len() >= MOST_FILES {
        return Err(format!("it has more than {MOST_FILES} files"));
    }
    match content {
        Value::Null => Ok(()),
        Value::String(text) if is_bytes => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| "its bytes are no Base64".to_owned())?;
            files.push(FileValue::inline("file.bin", OCTETS, bytes));
            Ok(())
        }
        Value::String(text) if is_url(text) => Err(format!(
            "{text:?} is a URL; download it with Elsa.DownloadHttpFile, whose output Result is the file"
        )),
        Value::String(text) => {
            files.push(FileValue::inline("file.txt", "text/plain", text.clone().into_bytes()));
            Ok(())
        }
        // The items of an array of bytes, as a script has it.
        Value::Array(items) if !items.is_empty() && items.iter().all(is_byte) => {
            let bytes = items
                .iter()
                .filter_map(Value::as_u64)
                .filter_map(|byte| u8::try_from(byte).ok());
            files.push(FileValue::inline("file.bin", OCTETS, bytes.collect()));
            Ok(())
        }
        Value::Array(_) if depth > 8 => Err("its lists nest deeper than eight levels".to_owned()),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| collect(item, is_bytes, depth + 1, files)),
        Value::Object(fields) => {
            files.push(match FileValue::read(content) {
                Some(file) => file,
                None => downloadable(fields)?,
            });
            Ok(())
        }
        other => Err(format!(
            "{other} is no file; use text, bytes, a file, or a list of these"
        )),
    }
}

fn is_byte(item: &Value) -> bool {
    item.as_u64().is_some_and(|number| number < 256)
}

fn is_url(text: &str) -> bool {
    let begins = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    begins("http://") || begins("https://")
}

/// Elsa's `Downloadable` and `HttpFile`, as a script writes them: names in any case, the stream is bytes in Base64.
fn downloadable(fields: &Map<String, Value>) -> Result<FileValue, String> {
    let field = |name: &str| {
        fields
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    let text = |name: &str| field(name).and_then(Value::as_str).unwrap_or_default();
    let stream = field("stream").or_else(|| field("content"));
    let bytes = match stream {
        Some(Value::String(text)) => STANDARD.decode(text).ok(),
        Some(Value::Array(items)) if items.iter().all(is_byte) => {
            let bytes = items.iter().filter_map(Value::as_u64);
            Some(bytes.filter_map(|byte| u8::try_from(byte).ok()).collect())
        }
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| {
        "an object in it is no file; write {\"filename\": …, \"contentType\": …, \"content\": bytes in Base64}"
            .to_owned()
    })?;
    let file = FileValue::inline(text("filename"), text("contentType"), bytes);
    Ok(FileValue {
        e_tag: Some(text("eTag").to_owned()).filter(|tag| !tag.is_empty()),
        ..file
    })
}

/// A name without a path.
fn safe_name(name: &str) -> &str {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if matches!(name, "." | "..") { "" } else { name }
}

/// `Content-Disposition` of a download, as ASP.NET Core writes it: for names beyond ASCII in both forms.
fn disposition(filename: &str) -> String {
    let name = safe_name(filename);
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '_' })
        .collect();
    let is_token = super::header_fields::is_token(&plain);
    let quoted = plain.replace('\\', "\\\\").replace('"', "\\\"");
    let plain = if is_token { quoted } else { format!("\"{quoted}\"") };
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'!'
            | b'#'
            | b'$'
            | b'&'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("attachment; filename={plain}; filename*=UTF-8''{encoded}")
}

/// An entity tag with its quotes.
/// Errors: why it is none.
fn entity_tag(text: &str) -> Result<String, String> {
    let text = text.trim();
    if let Some(problem) = value_problem(text) {
        return Err(format!("the entity tag {problem}"));
    }
    let inner = text.strip_prefix("W/").unwrap_or(text);
    let inner = inner
        .strip_prefix('"')
        .and_then(|inner| inner.strip_suffix('"'))
        .unwrap_or(inner);
    if inner.is_empty() || inner.contains(['"', ' ']) || !inner.is_ascii() {
        return Err(format!(
            "{text:?} is no entity tag; write it as \"5d41402a\", in quotes"
        ));
    }
    let weak = if text.starts_with("W/") { "W/" } else { "" };
    Ok(format!("{weak}\"{inner}\""))
}

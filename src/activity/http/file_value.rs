//! A file as a value of a workflow.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of a file, in a value; see [`FileValue`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    filename: String,
    content_type: String,
    #[serde(default)]
    length: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e_tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spool: Option<String>,
}

/// A file that a request brought or that was downloaded. As JSON it is an object with `filename`, `contentType`, `length` and
/// either `content` in Base64 or the id of a file in the `spool` of the process, which lives as long as the burst; perhaps with
/// `name`, the field of a form, and `eTag`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "FileFields", try_from = "FileFields")]
pub(crate) struct FileValue {
    pub(crate) name: Option<String>,
    /// Without a path.
    pub(crate) filename: String,
    pub(crate) content_type: String,
    /// In bytes.
    pub(crate) length: u64,
    /// With its quotes.
    pub(crate) e_tag: Option<String>,
    pub(crate) content: FileContent,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileContent {
    Inline(Vec<u8>),
    /// The id of the file in the spool of this process.
    Spooled(String),
}

impl FileValue {
    /// A file with its bytes.
    pub(crate) fn inline(filename: impl Into<String>, content_type: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            name: None,
            filename: filename.into(),
            content_type: content_type.into(),
            length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            e_tag: None,
            content: FileContent::Inline(bytes),
        }
    }

    /// Reads a value; `None` if it is no file.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let has_content = fields.contains_key("content") || fields.contains_key("spool");
        if !has_content || !fields.contains_key("filename") {
            return None;
        }
        serde_json::from_value(value.clone()).ok()
    }

    /// The value of a workflow.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The end of the name with its dot, as .NET's `Path.GetExtension` has it; empty if there is none.
    pub(crate) fn extension(&self) -> &str {
        let name = self.filename.rsplit(['/', '\\']).next().unwrap_or_default();
        match name.rfind('.') {
            Some(dot) if dot + 1 < name.len() => name.get(dot..).unwrap_or_default(),
            _ => "",
        }
    }
}

impl From<FileValue> for FileFields {
    fn from(file: FileValue) -> Self {
        let (content, spool) = match file.content {
            FileContent::Inline(bytes) => (Some(STANDARD.encode(bytes)), None),
            FileContent::Spooled(id) => (None, Some(id)),
        };
        Self {
            name: file.name,
            filename: file.filename,
            content_type: file.content_type,
            length: file.length,
            e_tag: file.e_tag,
            content,
            spool,
        }
    }
}

impl TryFrom<FileFields> for FileValue {
    type Error = String;

    fn try_from(fields: FileFields) -> Result<Self, String> {
        let content = match (fields.content, fields.spool) {
            (Some(text), None) => {
                let bytes = STANDARD.decode(text);
                FileContent::Inline(bytes.map_err(|error| format!("the content of a file is no Base64: {error}"))?)
            }
            (None, Some(id)) => FileContent::Spooled(id),
            _ => return Err("a file has either content or a place in the spool".to_owned()),
        };
        let length = match &content {
            FileContent::Inline(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            FileContent::Spooled(_) => fields.length,
        };
        Ok(Self {
            name: fields.name,
            filename: fields.filename,
            content_type: fields.content_type,
            length,
            e_tag: fields.e_tag,
            content,
        })
    }
}

//! A request as an endpoint receives it: the payload of the start or the resume.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::file_value::FileValue;
use super::form::{decode_pairs, dictionary};
use super::options::RequestProblem;

/// A request that was let in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReceivedRequest {
    /// In upper case.
    pub(crate) method: String,
    /// `http` or `https`, as the client has sent it.
    pub(crate) scheme: String,
    pub(crate) host: String,
    /// The address of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// What workflows are served below: `/workflows`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) path_base: String,
    /// The path below it, decoded.
    pub(crate) path: String,
    /// The parameters of the template with their values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) route: Map<String, Value>,
    /// As it was sent, without the question mark.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) query: String,
    /// Names and values in their order.
    pub(crate) headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "ReceivedBody::is_none")]
    pub(crate) body: ReceivedBody,
    /// What the request does not meet, where the endpoint exposes the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<RequestProblem>,
}

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReceivedBody {
    #[default]
    None,
    /// JSON, XML or text, decoded. The endpoint reads it by the content type.
    Text(String),
    /// A form of either encoding.
    Form {
        /// In their order; a name may be repeated.
        fields: Vec<(String, String)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileValue>,
    },
    /// Anything else, and what is too large for a value.
    File(FileValue),
}

impl ReceivedBody {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The files of a form.
    pub(crate) fn files(&self) -> &[FileValue] {
        match self {
            Self::Form { files, .. } => files,
            _ => &[],
        }
    }
}

impl ReceivedRequest {
    /// Reads the payload of a start or a resume.
    /// Errors: it is no request, as that of a client that starts at an endpoint by the API.
    pub(crate) fn read(payload: &Value) -> serde_json::Result<Self> {
        Self::deserialize(payload)
    }

    /// The payload of a start or a resume.
    pub(crate) fn to_payload(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The first value of a header field, whatever the case of its name is.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// The content type of the body; empty if the request has none.
    pub(crate) fn content_type(&self) -> &str {
        self.header("content-type").unwrap_or_default()
    }

    /// The query as a value: repeated names have a list.
    pub(crate) fn query_values(&self) -> Map<String, Value> {
        dictionary(decode_pairs(&self.query))
    }

    /// The header fields as a value: repeated names have a list.
    pub(crate) fn header_values(&self) -> Map<String, Value> {
        dictionary(self.headers.iter().cloned())
    }

    /// The request as a value, under the names of .NET's `HttpRequest`. Headers, query, route and body are outputs of their own.
    pub(crate) fn to_value(&self) -> Value {
        let query = match self.query.as_str() {
            "" => String::new(),
            query => format!("?{query}"),
        };
        let length = self
            .header("content-length")
            .and_then(|length| length.parse::<u64>().ok());
        json!({
            "Method": self.method,
            "Scheme": self.scheme,
            "Host": self.host,
            "PathBase": self.path_base,
            "Path": self.path,
            "QueryString": query,
            "ContentType": self.header("content-type"),
            "ContentLength": length,
            "RemoteIpAddress": self.client,
        })
    }
}

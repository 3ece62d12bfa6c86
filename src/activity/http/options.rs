//! What the route of an endpoint requires of a request: the payload of its triggers and bookmarks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file_value::FileValue;

/// The options of a route, for one method. Trigger and bookmark keep them, so that a request is checked before it runs anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RouteOptions {
    /// The template as it was written.
    pub(crate) path: String,
    /// In lower case.
    pub(crate) method: String,
    /// Only a request with a credential of this server is let in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) authorize: bool,
    /// The permission that the caller needs; it asks for a credential as `authorize` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    /// How long a client waits, as .NET's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_timeout: Option<String>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_size_limit: Option<u64>,
    /// In bytes, of each file of a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_size_limit: Option<u64>,
    /// With their dots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_file_extensions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) blocked_file_extensions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_mime_types: Vec<String>,
    /// What runs the workflow with an outcome of its own instead of being refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exposed: Vec<RequestProblem>,
    /// How long the request waits for a response of a later burst, as .NET's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait_for_response: Option<String>,
}

/// A condition of an endpoint that a request does not meet. Its name is that of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestProblem {
    #[serde(rename = "Request too large")]
    RequestTooLarge,
    #[serde(rename = "File too large")]
    FileTooLarge,
    #[serde(rename = "Invalid file extension")]
    InvalidFileExtension,
    #[serde(rename = "Invalid file MIME type")]
    InvalidFileMimeType,
}

impl RequestProblem {
    /// The outcome of the endpoint.
    pub(crate) fn outcome(self) -> &'static str {
        match self {
            Self::RequestTooLarge => "Request too large",
            Self::FileTooLarge => "File too large",
            Self::InvalidFileExtension => "Invalid file extension",
            Self::InvalidFileMimeType => "Invalid file MIME type",
        }
    }

    /// The status where the outcome is not exposed.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::RequestTooLarge | Self::FileTooLarge => 413,
            Self::InvalidFileExtension | Self::InvalidFileMimeType => 415,
        }
    }
}

impl RouteOptions {
    /// Reads the payload of a trigger or a bookmark. What was written by another version has its known fields.
    /// Errors: it is none.
    pub(crate) fn read(payload: &Value) -> serde_json::Result<Self> {
        Self::deserialize(payload)
    }

    /// The payload of a trigger or a bookmark.
    pub(crate) fn to_payload(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether a request with this problem runs the workflow.
    pub(crate) fn is_exposed(&self, problem: RequestProblem) -> bool {
        self.exposed.contains(&problem)
    }

    /// What is wrong with the files of a form, in Elsa's order.
    pub(crate) fn problem_of_files(&self, files: &[FileValue]) -> Option<RequestProblem> {
        let is_among = |list: &[String], text: &str| list.iter().any(|item| item.eq_ignore_ascii_case(text));
        if let Some(limit) = self.file_size_limit
            && files.iter().any(|file| file.length > limit)
        {
            return Some(RequestProblem::FileTooLarge);
        }
        let allowed = &self.allowed_file_extensions;
        if !allowed.is_empty() && !files.iter().all(|file| is_among(allowed, file.extension())) {
            return Some(RequestProblem::InvalidFileExtension);
        }
        let blocked = &self.blocked_file_extensions;
        if files.iter().any(|file| is_among(blocked, file.extension())) {
            return Some(RequestProblem::InvalidFileExtension);
        }
        let types = &self.allowed_mime_types;
        if !types.is_empty() && !files.iter().all(|file| is_among(types, &file.content_type)) {
            return Some(RequestProblem::InvalidFileMimeType);
        }
        None
    }

    /// What a client reads of a problem, in Elsa's words.
    pub(crate) fn message_of(&self, problem: RequestProblem) -> String {
        let limit = |limit: Option<u64>| limit.unwrap_or_default();
        match problem {
            RequestProblem::RequestTooLarge => {
                format!(
                    "The maximum request size allowed is {} bytes.",
                    limit(self.request_size_limit)
                )
            }
            RequestProblem::FileTooLarge => {
                format!(
                    "The maximum file size allowed is {} bytes.",
                    limit(self.file_size_limit)
                )
            }
            RequestProblem::InvalidFileExtension if self.allowed_file_extensions.is_empty() => {
                let blocked = self.blocked_file_extensions.join(", ");
                format!("The following file extensions are not allowed: {blocked}")
            }
            RequestProblem::InvalidFileExtension => {
                let allowed = self.allowed_file_extensions.join(", ");
                format!("Only the following file extensions are allowed: {allowed}")
            }
            RequestProblem::InvalidFileMimeType => {
                let allowed = self.allowed_mime_types.join(", ");
                format!("Only the following MIME types are allowed: {allowed}")
            }
        }
    }
}

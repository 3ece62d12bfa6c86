//! Elsa's HTTP activities: workflows behind URLs.
//!
//! An endpoint never sees a connection. The room that serves workflows reads a request, and gives it to a start or a resume as its
//! payload; the answer is a command of the activity that writes it, which leaves the process after the commit of the burst.
//!
//! # Layout
//! - `endpoint`: `Elsa.HttpEndpoint`; `options`: what its route requires of a request; `received`: the request that it receives.
//! - `response`, `file_response`: `Elsa.WriteHttpResponse` and `Elsa.WriteFileHttpResponse`; `ranges`: parts of a file;
//!   `zip_file`: several files as one.
//! - `send_request`, `download`: `Elsa.SendHttpRequest`, `Elsa.FlowSendHttpRequest` and `Elsa.DownloadHttpFile`;
//!   `outgoing_request`: what their inputs describe; `outgoing_answer`: what becomes of an answer.
//! - `body_kind`: how a body is read, by its content type; `content`: how a value is written; `file_value`: a file as a value;
//!   `form`: encoded names and values; `media_types`: those of files, by their names.
//! - `header_fields`: header fields as values; `content_disposition`: the name of a file in one; `status_code`: .NET's names of status codes.
//! - `services`: what the activities share; `http_options`: what a program sets of it.

mod body_kind;
mod content;
mod content_disposition;
mod download;
mod endpoint;
mod file_response;
mod file_value;
mod form;
mod header_fields;
mod http_options;
mod media_types;
mod options;
mod outgoing_answer;
mod outgoing_request;
mod ranges;
mod received;
mod response;
mod send_request;
mod services;
mod status_code;
#[cfg(test)]
mod tests;
mod zip_file;

use std::sync::Arc;

pub(crate) use body_kind::BodyKind;
pub(crate) use content::{check_content_type, octets, reads_bytes};
pub(crate) use content_disposition::filename_of;
pub(crate) use file_value::{FileContent, FileValue};
pub(crate) use form::decode_pairs;
pub(crate) use header_fields::{is_of_connection, written_name};
pub use http_options::HttpOptions;
#[cfg(feature = "cli")]
pub(crate) use http_options::base_path;
pub(crate) use media_types::media_type_of;
pub(crate) use options::{RequestProblem, RouteOptions};
pub(crate) use outgoing_answer::{Unanswered, fetch_file};
pub(crate) use outgoing_request::parse_url;
pub(crate) use ranges::{Conditions, FilePart, file_part, is_divisible};
pub(crate) use received::{ReceivedBody, ReceivedRequest};
pub(crate) use services::HttpServices;
pub(crate) use status_code::has_no_body;

use super::{Catalogue, Fault};

/// The incident of an input that cannot be used.
fn invalid_input(input: &str, problem: &str) -> Fault {
    Fault::new(format!("The input {input} is invalid: {problem}")).category("HTTP")
}

/// What is wrong with inputs whose values are known, for the publish.
fn problems_of<'n, P>(checked: P) -> Vec<String>
where
    P: IntoIterator<Item = (&'n str, Option<Result<(), String>>)>,
{
    let problems = checked
        .into_iter()
        .filter_map(|(name, checked)| Some((name, checked?.err()?)));
    problems
        .map(|(name, problem)| format!("the input {name} is invalid: {problem}"))
        .collect()
}

impl Catalogue {
    /// What the HTTP activities share.
    pub(crate) fn http_services(&self) -> &Arc<HttpServices> {
        &self.http
    }

    /// Adds the HTTP activities with these services; those that are registered are replaced.
    pub(crate) fn register_http(&mut self, services: &Arc<HttpServices>) -> &mut Self {
        self.http = Arc::clone(services);
        self.register(endpoint::HttpEndpoint(services.clone()))
            .register(response::WriteHttpResponse(services.clone()))
            .register(file_response::WriteFileHttpResponse(services.clone()))
            .register(send_request::SendHttpRequest(services.clone()))
            .register(send_request::FlowSendHttpRequest(services.clone()))
            .register(download::DownloadHttpFile(services.clone()));
        // Attachments of mails are got by the same client.
        self.register_mail(self.mail().cloned())
    }
}

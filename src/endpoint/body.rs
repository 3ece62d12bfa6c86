//! The body of a request, read by its kind: what is small becomes part of the accepted row, the rest goes to the spool.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use sha2::{Digest, Sha256};

use super::body_stream::{BodyFailure, BodyStream, declared_length};
use super::form;
use crate::activity::http::{
    BodyKind, FileContent, FileValue, MalformedBody, ReceivedBody, RequestProblem, RouteOptions, decode_pairs,
};
use crate::http::{ApiError, BodyLimits, ReservedMemory, check_encoding, last_segment, nul_error};
use crate::spool::{Spool, SpoolFile, SpoolWriter};

/// What a body may have to be part of the accepted row, in bytes.
pub(super) const INLINE_BYTES: usize = 256 * 1024;

/// The most fields of a form.
pub(super) const MOST_FIELDS: usize = 1_000;

/// The name of a body that has none.
const UNNAMED: &str = "file.dat";

/// A body that was read, as far as it is accepted.
#[derive(Debug, Default)]
pub(super) struct ReadBody {
    pub(super) body: ReceivedBody,
    /// Its bytes, as far as they were read.
    pub(super) length: u64,
    /// What was wrong while it was read: the rest is missing then.
    pub(super) problem: Option<RequestProblem>,
    /// Of what it means: the same for a repeated form, whose encoding differs.
    pub(super) digest: [u8; 32],
    /// Its files in the spool.
    pub(super) files: Vec<SpoolFile>,
    memory: ReservedMemory,
}

impl ReadBody {
    /// What an endpoint with these options does not accept, in Elsa's order.
    pub(super) fn problem_for(&self, options: &RouteOptions) -> Option<RequestProblem> {
        if options.request_size_limit.is_some_and(|limit| self.length > limit) {
            return Some(RequestProblem::RequestTooLarge);
        }
        self.problem.or_else(|| options.problem_of_files(self.body.files()))
    }
}

/// Where a body goes, and within which limits.
pub(super) struct BodyReader<'r> {
    pub(super) headers: &'r HeaderMap,
    pub(super) options: &'r RouteOptions,
    pub(super) spool: &'r Spool,
    pub(super) limits: &'r BodyLimits,
    /// The time without enough progress, for messages.
    pub(super) timeout: std::time::Duration,
}

impl BodyReader<'_> {
    /// Reads a body. Errors: 400, 408, 413, 415, 503.
    pub(super) async fn read(&self, stream: &mut BodyStream) -> Result<ReadBody, ApiError> {
        let limit = self.options.request_size_limit.unwrap_or(u64::MAX);
        stream.limit(limit);
        let content_type = self.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.map_or("", |value| value.to_str().unwrap_or_default());
        let mut digest = Sha256::new();
        digest.update(
            content_type
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase(),
        );
        digest.update(b"\n");
        let too_large = |length: u64| ReadBody {
            length: length.max(limit.saturating_add(1)),
            problem: Some(RequestProblem::RequestTooLarge),
            ..ReadBody::default()
        };
        if declared_length(self.headers).is_some_and(|length| length > limit) {
            return Ok(too_large(0));
        }
        check_encoding(self.headers)?;
        let kind = BodyKind::of(content_type);
        let read = if kind == BodyKind::Multipart {
            form::read(self, stream, content_type, &mut digest).await
        } else {
            self.read_plain(stream, kind, content_type, &mut digest).await
        };
        let mut read = match read {
            Ok(read) => read,
            Err(ReadFailure::Body(BodyFailure::TooLarge)) => return Ok(too_large(stream.length())),
            Err(ReadFailure::Body(failure)) => return Err(failure.error(self.timeout)),
            Err(ReadFailure::Refused(error)) => return Err(*error),
        };
        read.length = stream.length();
        read.digest = digest.finalize().into();
        Ok(read)
    }

    async fn read_plain(
        &self,
        stream: &mut BodyStream,
        kind: BodyKind,
        content_type: &str,
        digest: &mut Sha256,
    ) -> Result<ReadBody, ReadFailure> {
        let mut content = Content::default();
        while let Some(part) = stream.next().await? {
            digest.update(&part);
            content.write(&part, INLINE_BYTES, self.spool).await?;
        }
        let mut read = ReadBody::default();
        match content.finish().await? {
            Finished::Bytes(bytes) if bytes.is_empty() => {}
            Finished::Bytes(bytes) => {
                self.limits.reserve(&bytes, &mut read.memory)?;
                read.body = self.inline(kind, content_type, bytes)?;
            }
            Finished::Spooled(_) if kind == BodyKind::Form => return Err(form_too_large().into()),
            Finished::Spooled(file) => {
                check_spooled(kind, &file).await?;
                read.body = ReceivedBody::File(FileValue {
                    name: None,
                    filename: self.filename(),
                    content_type: content_type.to_owned(),
                    length: file.length(),
                    e_tag: None,
                    content: FileContent::Spooled(file.id().to_owned()),
                });
                read.files.push(file);
            }
        }
        Ok(read)
    }

    fn inline(&self, kind: BodyKind, content_type: &str, bytes: Vec<u8>) -> Result<ReceivedBody, ApiError> {
        if kind.is_text() {
            let text = kind.decode(content_type, bytes).map_err(malformed)?;
            return Ok(ReceivedBody::Text(text));
        }
        if kind != BodyKind::Form {
            return Ok(ReceivedBody::File(FileValue::inline(
                self.filename(),
                content_type,
                bytes,
            )));
        }
        let fields = decode_pairs(&String::from_utf8_lossy(&bytes));
        if fields.len() > MOST_FIELDS {
            return Err(too_many_fields());
        }
        if fields
            .iter()
            .any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(nul_error("The form"));
        }
        Ok(ReceivedBody::Form {
            fields,
            files: Vec::new(),
        })
    }

    /// The name of a body that is a file.
    fn filename(&self) -> String {
        let disposition = self.headers.get(header::CONTENT_DISPOSITION);
        let name = disposition.and_then(|value| form::filename_of(value.as_bytes()));
        let name = name.map(|name| last_segment(&name)).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| UNNAMED.to_owned())
    }
}

/// Why a body was not read.
pub(super) enum ReadFailure {
    Body(BodyFailure),
    Refused(Box<ApiError>),
}

impl From<BodyFailure> for ReadFailure {
    fn from(failure: BodyFailure) -> Self {
        Self::Body(failure)
    }
}

impl From<ApiError> for ReadFailure {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<crate::Error> for ReadFailure {
    fn from(error: crate::Error) -> Self {
        super::answer::refused(error).into()
    }
}

/// Bytes that go to the spool once they are too many.
#[derive(Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    writer: Option<SpoolWriter>,
}

/// Where the bytes are.
pub(super) enum Finished {
    Bytes(Vec<u8>),
    Spooled(SpoolFile),
}

impl Content {
    /// What is in memory, in bytes.
    pub(super) fn in_memory(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes; they stay in memory up to `most`.
    pub(super) async fn write(&mut self, part: &Bytes, most: usize, spool: &Spool) -> crate::Result<()> {
        if self.writer.is_none() && self.bytes.len() + part.len() > most {
            self.writer = Some(spool.create().await?);
        }
        match &mut self.writer {
            Some(writer) => {
                let before = std::mem::take(&mut self.bytes);
                if !before.is_empty() {
                    writer.write(&before).await?;
                }
                writer.write(part).await
            }
            None => {
                self.bytes.extend_from_slice(part);
                Ok(())
            }
        }
    }

    pub(super) async fn finish(self) -> crate::Result<Finished> {
        match self.writer {
            Some(writer) => Ok(Finished::Spooled(writer.finish().await?)),
            None => Ok(Finished::Bytes(self.bytes)),
        }
    }
}

/// Checks a body that is too large for the accepted row: nothing starts with one that is broken.
async fn check_spooled(kind: BodyKind, file: &SpoolFile) -> Result<(), ApiError> {
    if kind != BodyKind::Json {
        return Ok(());
    }
    let path = file.path().to_owned();
    let checked = tokio::task::spawn_blocking(move || {
        let file = std::fs::File::open(path)?;
        Ok::<_, std::io::Error>(kind.check(file))
    });
    match checked.await {
        Ok(Ok(checked)) => checked.map_err(malformed),
        Ok(Err(error)) => {
            tracing::error!(%error, "a body in the spool cannot be read");
            Err(ApiError::internal())
        }
        Err(_) => Err(ApiError::internal()),
    }
}

fn malformed(body: MalformedBody) -> ApiError {
    ApiError::bad_request("malformed-body", format!("{}.", body.message.trim_end_matches('.')))
}

pub(super) fn form_too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "form-too-large",
        format!("The fields of a form have at most {INLINE_BYTES} bytes; send what is larger as a file."),
    )
}

pub(super) fn too_many_fields() -> ApiError {
    ApiError::bad_request("invalid-form", format!("A form has at most {MOST_FIELDS} parts."))
}

//! The body of a request, read by its kind: what is small becomes part of the accepted row, the rest goes to the spool.

use axum::http::header;
use sha2::{Digest, Sha256};

use super::body_stream::{BodyFailure, BodyStream, declared_length};
use super::content::{
    BodyReader, Content, INLINE_BYTES, MOST_FIELDS, ReadBody, ReadContent, ReadFailure, form_too_large, too_many_fields,
};
use super::form;
use crate::activity::http::{
    BodyKind, FileContent, FileValue, MalformedBody, ReceivedBody, RequestProblem, decode_pairs,
};
use crate::http::{ApiError, check_encoding, last_segment, nul_error};
use crate::spool::SpoolFile;

/// The name of a body that has none.
const UNNAMED: &str = "file.dat";

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
            ReadContent::Bytes(bytes) if bytes.is_empty() => {}
            ReadContent::Bytes(bytes) => {
                self.limits.reserve(&bytes, &mut read.memory)?;
                read.body = self.inline(kind, content_type, bytes)?;
            }
            ReadContent::Spooled(_) if kind == BodyKind::Form => return Err(form_too_large().into()),
            ReadContent::Spooled(file) => {
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

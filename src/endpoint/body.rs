//! The body of a request, read by its kind: what is small becomes part of the accepted row, the rest goes to the spool.

use axum::http::{StatusCode, header};

use super::body_stream::{BodyFailure, BodyStream, declared_length};
use super::content::{BodyReader, INLINE_BYTES, MOST_FIELDS, ReadBody, ReadFailure, form_too_large, too_many_fields};
use super::digest::BodyDigest;
use super::form;
use crate::activity::http::{
    BodyKind, FileContent, FileValue, ReceivedBody, RequestProblem, decode_pairs, filename_of,
};
use crate::execution::check_value;
use crate::http::{ApiError, ReservedMemory, check_encoding, last_segment, nul_error};
use crate::spool::{RequestFiles, SpoolContent, SpoolFile, SpoolPlace};

/// The name of a body that has none.
const UNNAMED: &str = "file.dat";

impl BodyReader<'_> {
    /// Reads a body. Errors: 400, 408, 413, 415, 503.
    pub(super) async fn read(&self, stream: &mut BodyStream) -> Result<ReadBody, ApiError> {
        let limit = self.options.request_size_limit.unwrap_or(u64::MAX);
        stream.limit(limit);
        let content_type = self.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.map_or("", |value| value.to_str().unwrap_or_default());
        let mut digest = BodyDigest::new(self.headers.contains_key("idempotency-key"));
        digest.update(
            content_type
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase(),
        );
        digest.update(b"\n");
        // What was read of it stands for it. Of one that is declared too large that is nothing but the length.
        let too_large = |length: u64, mut digest: BodyDigest| {
            digest.update(b"\ntoo large");
            ReadBody {
                length: length.max(limit.saturating_add(1)),
                problem: Some(RequestProblem::RequestTooLarge),
                digest: digest.finish(),
                ..ReadBody::default()
            }
        };
        let declared = declared_length(self.headers);
        if let Some(length) = declared.filter(|length| *length > limit) {
            digest.update(length.to_le_bytes());
            return Ok(too_large(0, digest));
        }
        check_encoding(self.headers)?;
        let kind = BodyKind::of(content_type);
        if kind.is_text() && declared.is_some_and(|length| length > self.largest_text) {
            return Err(self.text_too_large());
        }
        let read = if kind == BodyKind::Multipart {
            form::read(self, stream, content_type, &mut digest).await
        } else {
            self.read_plain(stream, kind, content_type, &mut digest).await
        };
        let mut read = match read {
            Ok(read) => read,
            Err(ReadFailure::Body(BodyFailure::TooLarge)) => return Ok(too_large(stream.length(), digest)),
            Err(ReadFailure::Body(failure)) => return Err(failure.error(self.timeout)),
            Err(ReadFailure::Refused(error)) => return Err(*error),
        };
        read.length = stream.length();
        read.digest = digest.finish();
        Ok(read)
    }

    async fn read_plain(
        &self,
        stream: &mut BodyStream,
        kind: BodyKind,
        content_type: &str,
        digest: &mut BodyDigest,
    ) -> Result<ReadBody, ReadFailure> {
        let mut content = SpoolContent::default();
        while let Some(part) = stream.next().await? {
            digest.update(&part);
            if kind.is_text() && stream.length() > self.largest_text {
                return Err(self.text_too_large().into());
            }
            content.write(&part, INLINE_BYTES, self.spool).await?;
        }
        let mut read = ReadBody::default();
        match content.finish().await? {
            SpoolPlace::Memory(bytes) if bytes.is_empty() => {}
            SpoolPlace::Memory(bytes) if kind.is_text() => {
                // What the text takes is not to be seen in its bytes, which may be UTF-16.
                let text = kind.text(content_type, bytes).map_err(malformed)?;
                self.limits.reserve(text.as_bytes(), &mut read.memory)?;
                kind.check(&text).map_err(malformed)?;
                read.body = ReceivedBody::Text(text);
            }
            SpoolPlace::Memory(bytes) => {
                self.limits.reserve(&bytes, &mut read.memory)?;
                read.body = self.inline(kind, content_type, bytes)?;
            }
            SpoolPlace::File(_) if kind == BodyKind::Form => return Err(form_too_large().into()),
            SpoolPlace::File(file) => {
                if kind.is_text() {
                    self.check_spooled(kind, content_type, &file, &mut read.memory).await?;
                }
                read.body = ReceivedBody::File(FileValue {
                    name: None,
                    filename: self.filename(),
                    content_type: content_type.to_owned(),
                    length: file.length(),
                    e_tag: None,
                    content: FileContent::Spooled(file.id().to_owned()),
                });
                read.files = RequestFiles::new(vec![file]);
            }
        }
        Ok(read)
    }

    fn inline(&self, kind: BodyKind, content_type: &str, bytes: Vec<u8>) -> Result<ReceivedBody, ApiError> {
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

    /// Checks a text that is too large for the accepted row, as a small one is: nothing starts with one that is broken.
    async fn check_spooled(
        &self,
        kind: BodyKind,
        content_type: &str,
        file: &SpoolFile,
        memory: &mut ReservedMemory,
    ) -> Result<(), ApiError> {
        let bytes = file.read().await.map_err(|error| {
            tracing::error!(%error, "a body in the spool cannot be read");
            ApiError::internal()
        })?;
        let text = kind.text(content_type, bytes).map_err(malformed)?;
        self.limits.reserve(text.as_bytes(), memory)?;
        // Parsing takes longer than other tasks of this thread should wait.
        let checking = tokio::task::spawn_blocking(move || kind.check(&text).map(|()| text));
        let text = checking.await.map_err(|_| ApiError::internal())?.map_err(malformed)?;
        if kind == BodyKind::Json {
            // How much its value takes depends on the variable that receives it.
            return Ok(());
        }
        let most = usize::try_from(self.largest_text).unwrap_or(usize::MAX);
        Ok(check_value("the body", &text.into(), most)?)
    }

    /// 413, for a text that no workflow can keep.
    fn text_too_large(&self) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "value-too-large",
            format!(
                "A body of text has at most {} bytes (the setting value-kib); as application/octet-stream the workflow receives \
                 it as a file.",
                self.largest_text
            ),
        )
    }

    /// The name of a body that is a file.
    fn filename(&self) -> String {
        let disposition = self.headers.get(header::CONTENT_DISPOSITION);
        let name = disposition.and_then(|value| filename_of(value.as_bytes()));
        let name = name.map(|name| last_segment(&name)).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| UNNAMED.to_owned())
    }
}

fn malformed(message: String) -> ApiError {
    ApiError::bad_request("malformed-body", format!("{}.", message.trim_end_matches('.')))
}

//! Forms with files: `multipart/form-data`, part by part as they come.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use futures_util::stream::{self, Stream};
use multer::{Field, Multipart};
use sha2::{Digest, Sha256};

use super::body_stream::{BodyFailure, BodyStream};
use super::content::{
    BodyReader, Content, INLINE_BYTES, MOST_FIELDS, ReadBody, ReadContent, ReadFailure, form_too_large, too_many_fields,
};
use crate::activity::http::{FileContent, FileValue, ReceivedBody, RequestProblem};
use crate::http::{ApiError, last_segment, nul_error};

/// What may come while the head of a part is looked for, in bytes: it is held in memory. A chunk of the server is at most a
/// quarter of it.
const HEAD_BYTES: u64 = 256 * 1024;

/// What a file is of which its sender does not say it.
const OCTETS: &str = "application/octet-stream";

/// What the source of a form shares with its reader.
#[derive(Default)]
struct SourceState {
    /// What may come before the reader has made progress.
    allowance: AtomicU64,
    /// Why the source has ended.
    failure: Mutex<Option<BodyFailure>>,
}

/// The bytes of the body for the parser, one chunk at a time: it takes all that is ready, however much that is.
fn source<'s>(
    body: &'s mut BodyStream,
    state: Arc<SourceState>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 's {
    stream::unfold((body, state), |(body, state)| async move {
        tokio::task::yield_now().await;
        let part = match body.next().await {
            Ok(None) => return None,
            Ok(Some(part)) => {
                let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
                let taken = state
                    .allowance
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(length));
                taken
                    .map(|_| part)
                    .map_err(|_| std::io::Error::other("the head of a part is too long"))
            }
            Err(failure) => {
                *state.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                Err(std::io::Error::other("the body cannot be read"))
            }
        };
        Some((part, (body, state)))
    })
}

/// Reads a form.
pub(super) async fn read(
    reader: &BodyReader<'_>,
    body: &mut BodyStream,
    content_type: &str,
    digest: &mut Sha256,
) -> Result<ReadBody, ReadFailure> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| {
        let message = "The content type of the form names no boundary.";
        ApiError::new(StatusCode::BAD_REQUEST, "invalid-form", message)
    })?;
    let state = Arc::<SourceState>::default();
    let mut form = FormReader {
        reader,
        state: Arc::clone(&state),
        fields: Vec::new(),
        field_bytes: 0,
        files: Vec::new(),
        inline_bytes: 0,
        read: ReadBody::default(),
    };
    let parser = Multipart::new(source(body, Arc::clone(&state)), boundary);
    match form.read_parts(parser, digest).await {
        Ok(()) => Ok(form.finish().await?),
        Err(failure) => {
            let failed = *state.failure.lock().unwrap_or_else(PoisonError::into_inner);
            Err(failed.map_or(failure, ReadFailure::Body))
        }
    }
}

struct FormReader<'r> {
    reader: &'r BodyReader<'r>,
    state: Arc<SourceState>,
    fields: Vec<(String, String)>,
    field_bytes: usize,
    files: Vec<FileValue>,
    /// The bytes of the files that are in memory.
    inline_bytes: usize,
    read: ReadBody,
}

impl FormReader<'_> {
    async fn read_parts(&mut self, mut parser: Multipart<'_>, digest: &mut Sha256) -> Result<(), ReadFailure> {
        let mut count = 0;
        loop {
            self.state.allowance.store(HEAD_BYTES, Ordering::Relaxed);
            let Some(field) = parser.next_field().await.map_err(invalid)? else {
                return Ok(());
            };
            self.state.allowance.store(u64::MAX, Ordering::Relaxed);
            count += 1;
            if count > MOST_FIELDS {
                return Err(too_many_fields().into());
            }
            let name = field.name().unwrap_or_default().to_owned();
            let disposition = field.headers().get(header::CONTENT_DISPOSITION);
            let filename = disposition.and_then(|value| filename_of(value.as_bytes()));
            let filename = filename.or_else(|| field.file_name().map(str::to_owned));
            // As in .NET, a file without a name is a field: browsers send that where no file was chosen.
            let filename = filename.filter(|filename| !filename.is_empty());
            for text in [Some(&name), filename.as_ref()].into_iter().flatten() {
                if text.contains('\0') {
                    return Err(nul_error("The form").into());
                }
            }
            for text in [name.as_str(), filename.as_deref().unwrap_or_default()] {
                digest.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
                digest.update(text);
            }
            match filename {
                Some(filename) => {
                    if !self.read_file(field, name, &filename, digest).await? {
                        self.read.problem = Some(RequestProblem::FileTooLarge);
                        return Ok(());
                    }
                }
                None => self.read_field(field, name, digest).await?,
            }
        }
    }

    async fn read_field(&mut self, mut field: Field<'_>, name: String, digest: &mut Sha256) -> Result<(), ReadFailure> {
        let mut bytes = Vec::new();
        self.field_bytes += name.len();
        while let Some(part) = field.chunk().await.map_err(invalid)? {
            self.field_bytes += part.len();
            if self.field_bytes > INLINE_BYTES {
                return Err(form_too_large().into());
            }
            bytes.extend_from_slice(&part);
        }
        digest.update(Sha256::digest(&bytes));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.contains('\0') {
            return Err(nul_error("The form").into());
        }
        self.fields.push((name, text));
        Ok(())
    }

    /// Reads a file; false if it is larger than the endpoint accepts.
    async fn read_file(
        &mut self,
        mut field: Field<'_>,
        name: String,
        filename: &str,
        digest: &mut Sha256,
    ) -> Result<bool, ReadFailure> {
        let content_type = field.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map_or(OCTETS, |value| value.to_str().unwrap_or(OCTETS));
        let content_type = content_type.to_owned();
        digest.update(&content_type);
        let (mut content, mut length, mut hash) = (Content::default(), 0_u64, Sha256::new());
        let most = INLINE_BYTES.saturating_sub(self.inline_bytes);
        while let Some(part) = field.chunk().await.map_err(invalid)? {
            length = length.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            if self.reader.options.file_size_limit.is_some_and(|limit| length > limit) {
                return Ok(false);
            }
            hash.update(&part);
            content.write(&part, most, self.reader.spool).await?;
        }
        digest.update(hash.finalize());
        self.inline_bytes += content.in_memory();
        let content = match content.finish().await? {
            ReadContent::Bytes(bytes) => FileContent::Inline(bytes),
            ReadContent::Spooled(file) => {
                let id = file.id().to_owned();
                self.read.files.push(file);
                FileContent::Spooled(id)
            }
        };
        self.files.push(FileValue {
            name: Some(name),
            filename: last_segment(filename),
            content_type,
            length,
            e_tag: None,
            content,
        });
        Ok(true)
    }

    /// The form. Fields and files that are too many bytes together leave no file in memory.
    async fn finish(mut self) -> Result<ReadBody, ReadFailure> {
        if self.field_bytes + self.inline_bytes > INLINE_BYTES {
            for file in &mut self.files {
                let FileContent::Inline(bytes) = &mut file.content else {
                    continue;
                };
                let mut writer = self.reader.spool.create().await?;
                writer.write(bytes).await?;
                let spooled = writer.finish().await?;
                file.content = FileContent::Spooled(spooled.id().to_owned());
                self.read.files.push(spooled);
            }
        }
        self.read.body = ReceivedBody::Form {
            fields: self.fields,
            files: self.files,
        };
        Ok(self.read)
    }
}

fn invalid(error: multer::Error) -> ApiError {
    ApiError::bad_request("invalid-form", format!("The form cannot be read: {error}."))
}

/// The name of a file in `Content-Disposition`. The form of RFC 5987, `filename*=utf-8''…`, goes before the plain one.
pub(super) fn filename_of(disposition: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(disposition);
    let mut plain = None;
    for parameter in parameters(&text) {
        let Some((name, value)) = parameter.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("filename*") {
            let encoded = value.rsplit('\'').next().unwrap_or_default();
            if value.to_ascii_lowercase().starts_with("utf-8'") {
                return Some(percent_decoded(encoded));
            }
        } else if name.eq_ignore_ascii_case("filename") {
            plain = Some(unquoted(value));
        }
    }
    plain
}

/// The parameters, which quoted texts with a semicolon do not split.
fn parameters(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                found.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(text.get(start..));
    found
}

/// A quoted text without its quotes. A backslash is only an escape before a quote: browsers on Windows once sent paths.
fn unquoted(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value).replace("\\\"", "\"")
}

fn percent_decoded(text: &str) -> String {
    // A plus is no space here.
    crate::activity::http::decode_pairs(&text.replace('+', "%2B").replace(['&', '='], "_"))
        .pop()
        .map_or_else(String::new, |(name, _)| name)
}

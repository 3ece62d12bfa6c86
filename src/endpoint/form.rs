//! Forms with files: `multipart/form-data`, part by part as they come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::stream::{self, Stream};
use multer::{Field, Multipart};

use super::body_stream::{BodyFailure, BodyStream};
use super::content::{BodyReader, INLINE_BYTES, MOST_FIELDS, ReadBody, ReadFailure, form_too_large, too_many_fields};
use super::digest::BodyDigest;
use crate::activity::http::{FileContent, FileValue, ReceivedBody, RequestProblem, filename_of};
use crate::http::{ApiError, last_segment, nul_error};
use crate::spool::{RequestFiles, SpoolContent, SpoolFile, SpoolPlace};

/// The longest head of a part, in bytes. While it is looked for, this much and one chunk are held in memory.
const HEAD_BYTES: u64 = 8 * 1024;

/// What may come before the first part and its head, in bytes: there the parser asks for a chunk more than it needs.
const FIRST_HEAD_BYTES: u64 = 128 * 1024;

/// What a header field takes beside its name and its value: colon, space and line end.
const FIELD_MARKS: usize = 4;

/// What a file is of which its sender does not say it.
const OCTETS: &str = "application/octet-stream";

/// What the source of a form shares with its reader.
#[derive(Default)]
struct SourceState {
    /// What may come before the reader has made progress, but for the rest of a chunk.
    allowance: AtomicU64,
    /// What the parser has is not enough for it. It asks for all that is ready at each call, however much it has.
    needs_more: AtomicBool,
    /// Why the source has ended.
    failure: Mutex<Option<BodyFailure>>,
}

impl SourceState {
    /// Begins a call of the parser, for which so many bytes may come.
    fn allow(&self, bytes: u64) {
        self.allowance.store(bytes, Ordering::Relaxed);
        self.needs_more.store(false, Ordering::Relaxed);
    }

    /// Returns once the parser has tried with what it has.
    async fn needed(&self) {
        std::future::poll_fn(|context| {
            if self.needs_more.swap(true, Ordering::Relaxed) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.needs_more.store(false, Ordering::Relaxed);
    }
}

/// The bytes of the body for the parser, one chunk at a time.
fn source<'s>(
    body: &'s mut BodyStream,
    state: Arc<SourceState>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 's {
    stream::unfold((body, state), |(body, state)| async move {
        state.needed().await;
        let part = match body.next().await {
            Ok(None) => return None,
            Ok(Some(part)) => {
                let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
                let taken = state
                    .allowance
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        (left > 0).then(|| left.saturating_sub(length))
                    });
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
    digest: &mut BodyDigest,
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
        text_bytes: 0,
        files: Vec::new(),
        spooled: Vec::new(),
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
    /// The bytes of the fields, and of the names and content types of all parts.
    text_bytes: usize,
    files: Vec<FileValue>,
    /// Those that are in the spool.
    spooled: Vec<SpoolFile>,
    /// The bytes of the files that are in memory.
    inline_bytes: usize,
    read: ReadBody,
}

impl FormReader<'_> {
    async fn read_parts(&mut self, mut parser: Multipart<'_>, digest: &mut BodyDigest) -> Result<(), ReadFailure> {
        let mut count = 0;
        loop {
            self.state.allow(if count == 0 { FIRST_HEAD_BYTES } else { HEAD_BYTES });
            let Some(field) = parser.next_field().await.map_err(invalid)? else {
                return Ok(());
            };
            count += 1;
            if count > MOST_FIELDS {
                return Err(too_many_fields().into());
            }
            if head_bytes(field.headers()) > HEAD_BYTES {
                let message = format!("The head of a part of a form has at most {HEAD_BYTES} bytes.");
                return Err(ApiError::bad_request("invalid-form", message).into());
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
                self.count(text.len())?;
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

    /// The next bytes of a part, whatever its length is.
    async fn chunk_of(&self, field: &mut Field<'_>) -> Result<Option<Bytes>, ApiError> {
        self.state.allow(u64::MAX);
        field.chunk().await.map_err(invalid)
    }

    /// Counts bytes that become part of the accepted row whatever the form has.
    fn count(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        if self.text_bytes > INLINE_BYTES {
            return Err(form_too_large());
        }
        Ok(())
    }

    async fn read_field(
        &mut self,
        mut field: Field<'_>,
        name: String,
        digest: &mut BodyDigest,
    ) -> Result<(), ReadFailure> {
        let mut bytes = Vec::new();
        while let Some(part) = self.chunk_of(&mut field).await? {
            self.count(part.len())?;
            bytes.extend_from_slice(&part);
        }
        self.reader.limits.reserve(&bytes, &mut self.read.memory)?;
        let mut hash = digest.of_part();
        hash.update(&bytes);
        digest.add(hash);
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
        digest: &mut BodyDigest,
    ) -> Result<bool, ReadFailure> {
        let content_type = field.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map_or(OCTETS, |value| value.to_str().unwrap_or(OCTETS));
        let content_type = content_type.to_owned();
        self.count(content_type.len())?;
        digest.update(&content_type);
        let (mut content, mut length, mut hash) = (SpoolContent::default(), 0_u64, digest.of_part());
        let most = INLINE_BYTES.saturating_sub(self.inline_bytes);
        while let Some(part) = self.chunk_of(&mut field).await? {
            let before = length;
            length = length.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            if let Some(limit) = self.reader.options.file_size_limit.filter(|limit| length > *limit) {
                // What is within the limit stands for the file, in whatever parts it comes.
                let within = usize::try_from(limit - before).unwrap_or(usize::MAX);
                hash.update(part.get(..within).unwrap_or(&part));
                digest.add(hash);
                return Ok(false);
            }
            hash.update(&part);
            content.write(&part, most, self.reader.spool).await?;
        }
        digest.add(hash);
        self.inline_bytes += content.in_memory();
        let content = match content.finish().await? {
            SpoolPlace::Memory(bytes) => {
                self.reader.limits.reserve(&bytes, &mut self.read.memory)?;
                FileContent::Inline(bytes)
            }
            SpoolPlace::File(file) => {
                let id = file.id().to_owned();
                self.spooled.push(file);
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
        if self.text_bytes + self.inline_bytes > INLINE_BYTES {
            for file in &mut self.files {
                let FileContent::Inline(bytes) = &mut file.content else {
                    continue;
                };
                let mut writer = self.reader.spool.create().await?;
                writer.write(bytes).await?;
                let spooled = writer.finish().await?;
                file.content = FileContent::Spooled(spooled.id().to_owned());
                self.spooled.push(spooled);
            }
        }
        self.read.body = ReceivedBody::Form {
            fields: self.fields,
            files: self.files,
        };
        self.read.files = RequestFiles::new(self.spooled);
        Ok(self.read)
    }
}

/// What the header fields of a part take, in bytes.
fn head_bytes(headers: &HeaderMap) -> u64 {
    let fields = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_MARKS);
    u64::try_from(fields.sum::<usize>()).unwrap_or(u64::MAX)
}

fn invalid(error: multer::Error) -> ApiError {
    ApiError::bad_request("invalid-form", format!("The form cannot be read: {error}."))
}

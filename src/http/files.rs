//! Files that a client sends as `multipart/form-data`, read whole within the limits of all bodies.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{StatusCode, header};
use futures_util::stream;
use multer::{Field, Multipart};
use tokio::sync::OwnedSemaphorePermit;

use super::body::{self, BodyLimits, MAX_BODY};
use super::error::ApiError;

/// The most parts of a form.
const MOST_PARTS: usize = 1_000;

/// The longest name of a file that is kept, in characters.
const LONGEST_NAME: usize = 200;

/// One file.
#[derive(Debug)]
pub(crate) struct UploadedFile {
    /// Its name without folders, for messages: it has no control characters.
    pub(crate) name: String,
    /// It is declared as JSON.
    pub(crate) is_json: bool,
    /// Its content.
    pub(crate) content: Bytes,
}

/// The files of a form, in their order. Its other fields are dropped.
#[derive(Debug)]
pub(crate) struct UploadedFiles {
    /// They are at least one.
    pub(crate) files: Vec<UploadedFile>,
    /// Held while the body is in use.
    _permit: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
impl UploadedFiles {
    /// One file, as if a client had sent it.
    pub(crate) fn of(name: &str, content: Vec<u8>) -> Self {
        let file = UploadedFile {
            name: name.to_owned(),
            is_json: false,
            content: content.into(),
        };
        Self {
            files: vec![file],
            _permit: None,
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for UploadedFiles
where
    Arc<BodyLimits>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let limits = Arc::<BodyLimits>::from_ref(state);
        let (bytes, permit) = body::read(body, &parts.headers, &limits, MAX_BODY).await?;
        body::check_encoding(&parts.headers)?;
        let kind = parts.headers.get(header::CONTENT_TYPE);
        let boundary = kind.and_then(|kind| multer::parse_boundary(kind.to_str().ok()?).ok());
        let files = read(bytes, boundary.ok_or_else(not_a_form)?).await?;
        if files.is_empty() {
            let message = "The form must have a file.";
            return Err(ApiError::bad_request("missing-field", message).field("files", message));
        }
        Ok(Self { files, _permit: permit })
    }
}

fn not_a_form() -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "form-required",
        "Send the files as a form, with the header `Content-Type: multipart/form-data; boundary=…`.",
    )
}

async fn read(bytes: Vec<u8>, boundary: String) -> Result<Vec<UploadedFile>, ApiError> {
    let whole = stream::iter([Ok::<_, Infallible>(Bytes::from(bytes))]);
    let mut form = Multipart::new(whole, boundary);
    let (mut files, mut parts) = (Vec::new(), 0);
    while let Some(field) = form.next_field().await.map_err(invalid)? {
        parts += 1;
        if parts > MOST_PARTS {
            return Err(ApiError::bad_request(
                "invalid-form",
                format!("A form has at most {MOST_PARTS} parts."),
            ));
        }
        let Some(name) = field.file_name().map(last_segment) else {
            continue;
        };
        files.push(UploadedFile {
            name,
            is_json: is_json(&field),
            content: field.bytes().await.map_err(invalid)?,
        });
    }
    Ok(files)
}

fn is_json(field: &Field<'_>) -> bool {
    field
        .content_type()
        .is_some_and(|kind| kind.essence_str().eq_ignore_ascii_case("application/json"))
}

fn invalid(error: multer::Error) -> ApiError {
    ApiError::bad_request("invalid-form", format!("The form cannot be read: {error}."))
}

/// The name of a file without its folders, as a message shows it.
pub(crate) fn last_segment(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = name.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn files(text: &str) -> Result<Vec<UploadedFile>, ApiError> {
        read(text.replace('\n', "\r\n").into_bytes(), "b".to_owned()).await
    }

    #[tokio::test]
    async fn files_are_read_and_other_fields_are_dropped() {
        let form = "--b\nContent-Disposition: form-data; name=\"x\"\n\ntext\n\
            --b\nContent-Disposition: form-data; name=\"any\"; filename=\"..\\..\\a/b.json\"\nContent-Type: application/json\n\n{}\n\
            --b--\n";
        let read = files(form).await.unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].name.as_str(), read[0].is_json, &read[0].content[..]),
            ("b.json", true, &b"{}"[..])
        );
    }

    #[tokio::test]
    async fn what_is_no_form_is_an_error() {
        let part = "--b\nContent-Disposition: form-data; name=\"x\"\n\n\n";
        let many = format!("{}--b--\n", part.repeat(MOST_PARTS + 1));
        for bad in [
            "",
            "{}",
            "--b\n",
            "--b\nContent-Disposition: form-data; name=\"x\"; filename=\"a\"\n\ncut",
            &many,
        ] {
            let code = files(bad).await.map_err(|error| error.status_and_code()).unwrap_err();
            assert_eq!(code, (400, "invalid-form"), "{bad:.20}");
        }
    }

    #[test]
    fn a_name_has_no_folders_and_no_control_characters() {
        assert_eq!(last_segment("../../a\u{1b}[2J.json"), "a?[2J.json");
        assert_eq!(last_segment(&"n".repeat(999)).len(), LONGEST_NAME);
    }
}

//! Bodies: their kinds, limits and forms, and what a slow or endless one comes to.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use futures_util::stream;
use tokio::time::Instant;

use super::body_stream::{BodyFailure, BodyStream};
use super::content::{BodyReader, INLINE_BYTES, MOST_FIELDS, ReadBody};
use super::form::filename_of;
use crate::activity::http::{FileContent, ReceivedBody, RequestProblem, RouteOptions};
use crate::http::{ApiError, BodyLimits};
use crate::spool::Spool;

const TIMEOUT: Duration = Duration::from_secs(30);

struct Request {
    headers: HeaderMap,
    body: Body,
    options: RouteOptions,
    spool: Spool,
}

impl Request {
    fn new(content_type: &str, body: impl Into<Body>) -> Self {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        Self {
            headers,
            body: body.into(),
            options: RouteOptions::default(),
            spool: Spool::default(),
        }
    }

    /// A form; `|` stands for a line end. It comes in chunks that are no larger than those of the server.
    fn form(text: &str) -> Self {
        let bytes = text.replace('|', "\r\n").into_bytes();
        let chunks: Vec<_> = bytes
            .chunks(16 << 10)
            .map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk)))
            .collect();
        Self::new(
            "multipart/form-data; boundary=b",
            Body::from_stream(stream::iter(chunks)),
        )
    }

    fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    fn options(mut self, set: impl FnOnce(&mut RouteOptions)) -> Self {
        set(&mut self.options);
        self
    }

    async fn read(self) -> Result<ReadBody, ApiError> {
        let mut stream = BodyStream::new(self.body, &self.headers, TIMEOUT, Instant::now() + TIMEOUT * 100);
        let limits = BodyLimits::new(TIMEOUT, 64);
        let reader = BodyReader {
            headers: &self.headers,
            options: &self.options,
            spool: &self.spool,
            limits: &limits,
            timeout: TIMEOUT,
        };
        reader.read(&mut stream).await
    }

    async fn refused(self) -> (u16, &'static str) {
        self.read().await.unwrap_err().status_and_code()
    }
}

#[tokio::test]
async fn a_small_body_is_read_by_its_content_type() {
    let text = |body: ReadBody| match body.body {
        ReceivedBody::Text(text) => text,
        other => panic!("{other:?}"),
    };
    let read = Request::new("application/json", "{\"a\": 1}").read().await.unwrap();
    assert_eq!((read.length, read.files.len()), (8, 0));
    assert_eq!(text(read), "{\"a\": 1}");
    assert_eq!(text(Request::new("text/xml", "<a/>").read().await.unwrap()), "<a/>");
    let none = Request::new("application/json", "").read().await.unwrap();
    assert_eq!(none.body, ReceivedBody::None);
    let file = Request::new("image/png", vec![0, 255, 1]).header(
        header::CONTENT_DISPOSITION,
        "attachment; filename=\"../../etc/a;b.png\"",
    );
    let ReceivedBody::File(file) = file.read().await.unwrap().body else {
        panic!()
    };
    assert_eq!((file.filename.as_str(), file.length), ("a;b.png", 3));
    assert_eq!(file.content, FileContent::Inline(vec![0, 255, 1]));
    let form = Request::new("application/x-www-form-urlencoded", "a=1&b=x+y&a=%C3%A9");
    let ReceivedBody::Form { fields, .. } = form.read().await.unwrap().body else {
        panic!()
    };
    let pairs: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(pairs, [("a", "1"), ("b", "x y"), ("a", "é")]);
}

#[tokio::test]
async fn a_body_that_is_not_what_it_says_is_refused() {
    assert_eq!(
        Request::new("application/json", "{").refused().await,
        (400, "malformed-body")
    );
    let large = format!("[{}", "1,".repeat(INLINE_BYTES));
    assert_eq!(
        Request::new("application/json", large).refused().await,
        (400, "malformed-body")
    );
    assert_eq!(
        Request::new("text/plain", "a\0b").refused().await,
        (400, "malformed-body")
    );
    let form = "application/x-www-form-urlencoded";
    assert_eq!(Request::new(form, "a=%00").refused().await, (400, "invalid-text"));
    assert_eq!(
        Request::new(form, "a&".repeat(MOST_FIELDS + 1)).refused().await,
        (400, "invalid-form")
    );
    assert_eq!(
        Request::new(form, "a".repeat(INLINE_BYTES + 1)).refused().await,
        (413, "form-too-large")
    );
    let bomb = Request::new("application/json", vec![0x1f, 0x8b]).header(header::CONTENT_ENCODING, "gzip");
    assert_eq!(bomb.refused().await, (415, "unsupported-encoding"));
    assert_eq!(
        Request::new("multipart/form-data", "x").refused().await,
        (400, "invalid-form")
    );
}

#[tokio::test]
async fn a_large_body_goes_to_the_spool() {
    let bytes = vec![7; INLINE_BYTES + 1];
    let request = Request::new("", bytes.clone());
    let spool = request.spool.clone();
    let read = request.read().await.unwrap();
    let ReceivedBody::File(file) = &read.body else { panic!() };
    assert_eq!(file.length, bytes.len() as u64);
    assert_eq!(file.content, FileContent::Spooled(read.files[0].id().to_owned()));
    assert!(spool.find(read.files[0].id()).is_some());
    assert_eq!(std::fs::read(read.files[0].path()).unwrap(), bytes);
    let mut full = Request::new("", bytes);
    full.spool = Spool::lazy(None, 100_000);
    assert_eq!(full.refused().await, (503, "spool-full"));
}

#[tokio::test]
async fn a_limit_counts_declared_and_read_bytes() {
    let limited =
        |length: usize| Request::new("", vec![1; length]).options(|options| options.request_size_limit = Some(10));
    let problem = async |request: Request| {
        let options = request.options.clone();
        request.read().await.unwrap().problem_for(&options)
    };
    assert_eq!(problem(limited(10)).await, None);
    assert_eq!(problem(limited(11)).await, Some(RequestProblem::RequestTooLarge));
    let declared = limited(1).header(header::CONTENT_LENGTH, "11");
    assert_eq!(problem(declared).await, Some(RequestProblem::RequestTooLarge));
    // One that is declared too large is not read, whatever it is.
    let bomb = limited(1)
        .header(header::CONTENT_LENGTH, "99")
        .header(header::CONTENT_ENCODING, "gzip");
    assert_eq!(problem(bomb).await, Some(RequestProblem::RequestTooLarge));
    // Read under other options, for a route that has moved.
    let read = Request::new("", vec![1; 20]).read().await.unwrap();
    let mut options = RouteOptions::default();
    assert_eq!(read.problem_for(&options), None);
    options.request_size_limit = Some(19);
    assert_eq!(read.problem_for(&options), Some(RequestProblem::RequestTooLarge));
}

const PARTS: &str = "--b|Content-Disposition: form-data; name=\"a\"||1|\
    --b|Content-Disposition: form-data; name=\"f\"; filename=\"C:\\dir\\..\\x.txt\"|Content-Type: text/plain||hello|\
    --b|Content-Disposition: form-data; name=\"none\"; filename=\"\"|Content-Type: application/octet-stream|||\
    --b--|";

#[tokio::test]
async fn a_form_has_fields_and_files() {
    let read = Request::form(PARTS).read().await.unwrap();
    let ReceivedBody::Form { fields, files } = &read.body else {
        panic!()
    };
    let expected = [("a", "1"), ("none", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(fields[..], expected);
    let [file] = &files[..] else { panic!("{files:?}") };
    assert_eq!(
        (file.name.as_deref(), &*file.filename, &*file.content_type),
        (Some("f"), "x.txt", "text/plain")
    );
    assert_eq!(file.content, FileContent::Inline(b"hello".to_vec()));
    assert!(read.files.is_empty());
    // Another boundary is the same request.
    let other = PARTS.replace("--b", "--other").replace('|', "\r\n");
    let other = Request::new("multipart/form-data; boundary=other", other)
        .read()
        .await
        .unwrap();
    assert_eq!(read.digest, other.digest);
    let changed = Request::form(&PARTS.replace("hello", "hullo")).read().await.unwrap();
    assert_ne!(read.digest, changed.digest);
}

#[tokio::test]
async fn large_files_of_a_form_are_in_the_spool() {
    let part = |name: &str, content: &str| {
        format!("--b|Content-Disposition: form-data; name=\"{name}\"; filename=\"{name}.bin\"||{content}|")
    };
    let large = "x".repeat(INLINE_BYTES);
    let form = format!(
        "{}{}{}--b--|",
        part("small", "s"),
        part("large", &large),
        part("last", "l")
    );
    let read = Request::form(&form).read().await.unwrap();
    let ReceivedBody::Form { files, .. } = &read.body else {
        panic!()
    };
    let lengths: Vec<u64> = files.iter().map(|file| file.length).collect();
    assert_eq!(lengths, [1, large.len() as u64, 1]);
    assert!(matches!(files[0].content, FileContent::Inline(_)));
    assert!(matches!(files[1].content, FileContent::Spooled(_)));
    assert_eq!(read.files.len(), 1);
    // Fields and files together are too much for the row.
    let field = format!(
        "--b|Content-Disposition: form-data; name=\"t\"||{}|",
        "t".repeat(INLINE_BYTES - 10)
    );
    let form = format!("{field}{}--b--|", part("f", &"f".repeat(100)));
    let read = Request::form(&form).read().await.unwrap();
    assert_eq!(read.files.len(), 1);
    let form = format!("{field}{}--b--|", field);
    assert_eq!(Request::form(&form).refused().await, (413, "form-too-large"));
}

#[tokio::test]
async fn a_file_that_an_endpoint_does_not_accept_is_a_problem() {
    let problem = async |set: fn(&mut RouteOptions)| {
        let request = Request::form(PARTS).options(set);
        let options = request.options.clone();
        request.read().await.unwrap().problem_for(&options)
    };
    assert_eq!(problem(|options| options.file_size_limit = Some(5)).await, None);
    assert_eq!(
        problem(|options| options.file_size_limit = Some(4)).await,
        Some(RequestProblem::FileTooLarge)
    );
    let extension = Some(RequestProblem::InvalidFileExtension);
    assert_eq!(
        problem(|options| options.allowed_file_extensions = vec![".TXT".to_owned()]).await,
        None
    );
    assert_eq!(
        problem(|options| options.allowed_file_extensions = vec![".pdf".to_owned()]).await,
        extension
    );
    assert_eq!(
        problem(|options| options.blocked_file_extensions = vec![".txt".to_owned()]).await,
        extension
    );
    let kind = problem(|options| options.allowed_mime_types = vec!["image/png".to_owned()]).await;
    assert_eq!(kind, Some(RequestProblem::InvalidFileMimeType));
}

#[tokio::test]
async fn what_is_no_form_is_refused() {
    let part = "--b|Content-Disposition: form-data; name=\"x\"|||";
    let head = format!("--b|X: {}", "x".repeat(600_000));
    for bad in [
        "",
        "{}",
        "--b|",
        &part.repeat(MOST_FIELDS + 1),
        &head,
        "--b|Content-Disposition: form-data; name=\"f\"; filename=\"f\"||cut",
    ] {
        assert_eq!(Request::form(bad).refused().await, (400, "invalid-form"), "{bad:.30}");
    }
}

#[test]
fn the_name_of_a_file_is_found_in_any_form() {
    for (disposition, name) in [
        ("form-data; name=\"f\"; filename=\"a;b \\\"c\\\".txt\"", "a;b \"c\".txt"),
        ("attachment; filename=plain.txt", "plain.txt"),
        (
            "attachment; filename=\"x\"; filename*=UTF-8''%E2%82%AC+1%26.txt",
            "€+1&.txt",
        ),
        ("form-data; filename=\"C:\\a\\b\"", "C:\\a\\b"),
    ] {
        assert_eq!(
            filename_of(disposition.as_bytes()).as_deref(),
            Some(name),
            "{disposition}"
        );
    }
    assert_eq!(filename_of(b"form-data; name=\"filename=x\""), None);
    assert_eq!(filename_of(b"attachment; filename*=iso-8859-1''x"), None);
}

/// A body whose parts come at intervals.
fn trickle(part: &'static [u8], pause: Duration) -> Body {
    Body::from_stream(stream::unfold((), move |()| async move {
        tokio::time::sleep(pause).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(part)), ()))
    }))
}

async fn failure(body: Body, limit: u64, timeout: Duration, time: Duration) -> (BodyFailure, u64) {
    let mut stream = BodyStream::new(body, &HeaderMap::new(), timeout, Instant::now() + time);
    stream.limit(limit);
    loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it has ended"),
            Err(failure) => return (failure, stream.length()),
        }
    }
}

#[tokio::test]
async fn a_body_ends_by_its_limit_its_time_or_its_slowness() {
    let (pause, short, long) = (Duration::from_millis(2), Duration::from_millis(100), TIMEOUT);
    let (why, length) = failure(trickle(b"x", pause), u64::MAX, short, long).await;
    assert_eq!(why, BodyFailure::Slow);
    assert!((1..100).contains(&length), "{length}");
    let (why, _) = failure(trickle(b"x", pause), u64::MAX, long, short).await;
    assert_eq!(why, BodyFailure::Deadline);
    let (why, length) = failure(trickle(b"x", pause), 5, long, long).await;
    assert_eq!((why, length), (BodyFailure::TooLarge, 6));
    // It is never slow, and never ends: each part is enough for a window.
    static MUCH: [u8; 64 * 1024] = [1; 64 * 1024];
    let (why, length) = failure(trickle(&MUCH, pause), u64::MAX, short, short * 4).await;
    assert_eq!(why, BodyFailure::Deadline);
    assert!(length > 1 << 20, "{length}");
    let (why, _) = failure(trickle(&MUCH, pause), 1 << 20, short, long).await;
    assert_eq!(why, BodyFailure::TooLarge);
}

#[tokio::test]
async fn what_is_left_of_a_refused_body_is_read_for_a_moment() {
    let discard = async |body: Body, headers: HeaderMap| {
        let mut stream = BodyStream::new(body, &headers, TIMEOUT, Instant::now() + TIMEOUT);
        stream.discard().await
    };
    assert!(discard(Body::from(vec![0; 1 << 20]), HeaderMap::new()).await);
    static MUCH: [u8; 1 << 20] = [1; 1 << 20];
    assert!(!discard(trickle(&MUCH, Duration::ZERO), HeaderMap::new()).await);
    let waits = HeaderMap::from_iter([(header::EXPECT, HeaderValue::from_static("100-continue"))]);
    assert!(
        !discard(Body::from("x"), waits).await,
        "a client that waits has sent nothing"
    );
}

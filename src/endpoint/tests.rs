//! Bodies: their kinds, limits and forms, and what a slow or endless one comes to.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use futures_util::stream;
use tokio::time::Instant;

use super::body_stream::{BodyFailure, BodyStream};
use super::content::{BodyReader, INLINE_BYTES, MOST_FIELDS, ReadBody};
use crate::activity::http::{FileContent, ReceivedBody, RequestProblem, RouteOptions};
use crate::http::{ApiError, BodyLimits};
use crate::spool::Spool;

const TIMEOUT: Duration = Duration::from_secs(30);

const LARGEST_TEXT: u64 = 1 << 20;

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
        headers.insert("idempotency-key", HeaderValue::from_static("key"));
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
            largest_text: LARGEST_TEXT,
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
    assert_eq!((read.length, read.files.all().len()), (8, 0));
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
    let large = format!("[{}", " ".repeat(INLINE_BYTES));
    assert_eq!(
        Request::new("application/json", large).refused().await,
        (400, "malformed-body")
    );
    assert_eq!(
        Request::new("text/plain", "a\0b").refused().await,
        (400, "malformed-body")
    );
    // A large one is checked as a small one is.
    let padded = |text: &str| format!("{}{text}", " ".repeat(INLINE_BYTES));
    let deep = padded(&format!("{}{}", "[".repeat(101), "]".repeat(101)));
    for (content_type, bytes) in [
        ("application/json", deep.into_bytes()),
        ("application/json", padded("\"\\u0000\"").into_bytes()),
        (
            "application/json",
            [padded("\"").into_bytes(), b"\xff\"".to_vec()].concat(),
        ),
        ("text/plain", padded("a\0b").into_bytes()),
    ] {
        let refused = Request::new(content_type, bytes).refused().await;
        assert_eq!(refused, (400, "malformed-body"), "{content_type}");
    }
    let utf16: Vec<u8> = padded("1").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (content_type, bytes) in [
        ("application/json", ["\u{feff}", &padded("1")].concat().into_bytes()),
        ("application/json; charset=utf-16", utf16),
        (
            "application/json; charset=latin1",
            [padded("\"").into_bytes(), b"\xff\"".to_vec()].concat(),
        ),
    ] {
        let read = Request::new(content_type, bytes).read().await.unwrap();
        assert!(matches!(read.body, ReceivedBody::File(_)), "{content_type}");
    }
    for content_type in ["application/json", "text/xml"] {
        let text = "1".repeat(usize::try_from(LARGEST_TEXT).unwrap() + 1);
        let stream = Body::from_stream(stream::iter([Ok::<_, Infallible>(Bytes::from(text.clone()))]));
        for body in [text.into(), stream] {
            let refused = Request::new(content_type, body).refused().await;
            assert_eq!(refused, (413, "value-too-large"), "{content_type}");
        }
    }
    let grows = vec![0xe9; usize::try_from(LARGEST_TEXT).unwrap()];
    let refused = Request::new("text/plain; charset=latin1", grows).refused().await;
    assert_eq!(refused, (413, "value-too-large"));
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
    assert_eq!(file.content, FileContent::Spooled(read.files.all()[0].id().to_owned()));
    assert!(spool.find(read.files.all()[0].id()).is_some());
    assert_eq!(std::fs::read(read.files.all()[0].path()).unwrap(), bytes);
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
    // What was read stands for the body, in whatever parts it came.
    let digest = async |parts: &[&'static str]| {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| Ok::<_, Infallible>(Bytes::from(*part)))
            .collect();
        let request = Request::new("", Body::from_stream(stream::iter(parts)));
        let request = request.options(|options| options.request_size_limit = Some(10));
        request.read().await.unwrap().digest
    };
    let whole = digest(&["0123456789", "abc"]).await;
    assert_eq!(whole, digest(&["01234", "56789abcdef"]).await);
    assert_ne!(whole, digest(&["x1234", "56789abcdef"]).await);
    assert_ne!(whole, digest(&["0123456789"]).await);
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
    assert_eq!(read.files.all().len(), 1);
    // Fields and files together are too much for the row.
    let field = format!(
        "--b|Content-Disposition: form-data; name=\"t\"||{}|",
        "t".repeat(INLINE_BYTES - 100)
    );
    let form = format!("{field}{}--b--|", part("f", &"f".repeat(100)));
    let read = Request::form(&form).read().await.unwrap();
    assert_eq!(read.files.all().len(), 1);
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
        // Within one chunk, and over several.
        &format!(
            "--b|X: {}|Content-Disposition: form-data; name=\"f\"||1|--b--|",
            "x".repeat(9_000)
        ),
        &format!("--b|X: {}", "x".repeat(60_000)),
    ] {
        assert_eq!(Request::form(bad).refused().await, (400, "invalid-form"), "{bad:.30}");
    }
}

#[tokio::test]
async fn the_heads_of_many_parts_are_part_of_the_limit_of_a_form() {
    let long = "n".repeat(1_000);
    for head in [
        format!("name=\"{long}\""),
        format!("name=\"f\"; filename=\"{long}\""),
        format!("name=\"f\"; filename=\"f\"|Content-Type: text/{long}"),
    ] {
        let form = |count: usize| format!("--b|Content-Disposition: form-data; {head}||1|").repeat(count) + "--b--|";
        assert!(Request::form(&form(100)).read().await.is_ok(), "{head:.40}");
        let refused = Request::form(&form(300)).refused().await;
        assert_eq!(refused, (413, "form-too-large"), "{head:.40}");
    }
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
    // Without a time of the request, it ends after some times of a window.
    let (why, length) = failure(trickle(&MUCH, pause), u64::MAX, short / 10, long).await;
    assert_eq!(why, BodyFailure::Slow);
    assert!(length > 64 * 1024, "{length}");
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

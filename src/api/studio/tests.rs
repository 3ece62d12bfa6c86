//! The page and its files behind admission, without an engine and without the package.

use axum::body::Body;
use tower::ServiceExt;

use super::*;
use crate::api::{ApiKey, ApiOptions, protect};

const KEY: &str = "a-key-of-this-server";

/// A folder with a few files, some of them compressed.
struct Package(PathBuf);

impl Package {
    fn create() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-studio-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(folder.join("_framework")).unwrap();
        for (name, text) in [
            ("_framework/blazor.webassembly.js", "start()"),
            ("_framework/blazor.webassembly.js.br", "br"),
            ("_framework/blazor.webassembly.js.gz", "gzip"),
            ("_framework/A.mbze71icf3.wasm", "wasm"),
            ("_framework/A.mbze71icf3.wasm.gz", "gz"),
            ("index.html", "not ours"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }

    fn server(&self, key: Option<&str>) -> Router {
        let options = ApiOptions {
            api_key: key.map(ApiKey::new),
            cors_origins: vec!["https://studio.example".to_owned()],
            studio: Some(Studio::in_folder(&self.0)),
            ..ApiOptions::default()
        };
        let routes = router(options.studio.clone().unwrap());
        protect(routes.route("/elsa/api/x", get(async || "x")), options)
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn send(server: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

async fn read(server: &Router, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(server, Method::GET, path, headers).await
}

#[tokio::test]
async fn files_are_compressed_cached_and_revalidated() {
    let package = Package::create();
    let server = package.server(None);
    let entry = "/studio/_framework/blazor.webassembly.js";
    let brotli = read(&server, entry, &[("accept-encoding", "gzip, br")]).await;
    assert_eq!((brotli.status, brotli.text.as_str()), (200, "br"));
    assert_eq!(brotli.header("content-encoding"), "br");
    assert_eq!(brotli.header("content-length"), "2");
    assert_eq!(brotli.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(brotli.header("cache-control"), "no-cache");
    assert_eq!(brotli.header("vary"), "accept-encoding");
    assert_eq!(brotli.header("x-content-type-options"), "nosniff");
    let plain = read(&server, entry, &[]).await;
    assert_eq!((plain.text.as_str(), plain.header("content-encoding")), ("start()", ""));
    assert_ne!(plain.header("etag"), brotli.header("etag"));
    let tag = brotli.header("etag").to_owned();
    let again = [("accept-encoding", "br"), ("if-none-match", tag.as_str())];
    let again = read(&server, entry, &again).await;
    assert_eq!(
        (again.status, again.text.as_str(), again.header("etag")),
        (304, "", tag.as_str())
    );
    let named = read(
        &server,
        "/studio/_framework/A.mbze71icf3.wasm",
        &[("accept-encoding", "br, gzip")],
    )
    .await;
    assert_eq!((named.text.as_str(), named.header("content-encoding")), ("gz", "gzip"));
    assert_eq!(named.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(named.header("content-type"), "application/wasm");
    let head = send(&server, Method::HEAD, entry, &[]).await;
    assert_eq!(
        (head.status, head.text.as_str(), head.header("content-length")),
        (200, "", "7")
    );
}

#[tokio::test]
async fn the_page_is_at_each_path_that_studio_navigates_to() {
    let package = Package::create();
    let server = package.server(Some(KEY));
    for (path, base) in [
        ("/studio/", "./"),
        ("/studio/cluster", "./"),
        ("/studio/signed-in?code=c&state=s", "./"),
        ("/studio/sign-in/company", "../"),
        ("/studio/workflows/instances/7/messages", "../../../"),
        ("/studio/workflows/definitions?page=2", "../"),
        ("/studio/workflows/definitions/a%2Fb.c/edit", "../../../"),
        ("/studio/workflows/instances/1/view/", "../../../../"),
    ] {
        let page = read(&server, path, &[]).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(
            page.text.contains(&format!("<base href=\"{base}\">")),
            "{path}: {}",
            page.text
        );
        assert!(!page.text.contains(KEY) && !page.text.contains("googleapis"));
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("'unsafe-eval'") && !policy.contains("script-src 'self' 'unsafe-inline'"));
    }
    for asset in [
        "host.js",
        "session.js",
        "sign-in.js",
        "external.js",
        "host.css",
        "tables.js",
        "cluster.js",
        "messages.js",
        "icon.svg",
    ] {
        let first = read(&server, &format!("/studio/mainspring/{asset}"), &[]).await;
        let tag = first.header("etag").to_owned();
        let again = read(
            &server,
            &format!("/studio/mainspring/{asset}"),
            &[("if-none-match", &tag)],
        )
        .await;
        assert_eq!((first.status, again.status), (200, 304), "{asset}");
    }
    for (path, status) in [
        ("/", 302),
        ("/studio", 302),
        ("/studio/index.html", 404),
        ("/studio/../etc/passwd", 404),
        ("/studio/%2e%2e/secret", 404),
        ("/studio/workflows/x", 404),
    ] {
        let answer = read(&server, path, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        if status == 302 {
            assert_eq!(answer.header("location"), "studio/");
        }
    }
}

#[tokio::test]
async fn files_need_no_key_and_the_rest_does() {
    let package = Package::create();
    let server = package.server(Some(KEY));
    let foreign = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    for path in ["/", "/studio", "/studio/", "/studio/mainspring/host.js"] {
        assert!(
            [200, 302].contains(&read(&server, path, &foreign).await.status),
            "{path}"
        );
        let other_host = [("host", "evil.example")];
        let request = Request::builder().uri(path).header(other_host[0].0, other_host[0].1);
        let response = server
            .clone()
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 403, "{path}");
        let posted = send(&server, Method::POST, path, &[]).await;
        assert_eq!(posted.status, 401, "{path}");
    }
    assert_eq!(read(&server, "/elsa/api/x", &[]).await.status, 401);
    assert_eq!(read(&server, "/studios", &[]).await.status, 401);
}

#[tokio::test]
async fn a_listed_origin_may_call_the_api() {
    let package = Package::create();
    let server = package.server(Some(KEY));
    let origin = ("origin", "https://studio.example");
    let asked = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let preflight = send(&server, Method::OPTIONS, "/elsa/api/x", &asked).await;
    assert_eq!((preflight.status, preflight.text.as_str()), (204, ""));
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        "https://studio.example"
    );
    assert!(
        preflight
            .header("access-control-allow-headers")
            .contains("authorization")
    );
    assert!(preflight.header("access-control-allow-methods").contains("DELETE"));
    assert_eq!(preflight.header("access-control-allow-credentials"), "");
    let authorization = format!("ApiKey {KEY}");
    let called = [
        origin,
        ("sec-fetch-site", "cross-site"),
        ("authorization", authorization.as_str()),
    ];
    let called = read(&server, "/elsa/api/x", &called).await;
    assert_eq!((called.status, called.text.as_str()), (200, "x"));
    assert_eq!(called.header("access-control-allow-origin"), "https://studio.example");
    assert!(
        called
            .header("access-control-expose-headers")
            .contains("x-elsa-workflow-instance-id")
    );
    assert_eq!(called.header("vary"), "origin");
    // The page must be able to read why it was refused.
    let refused = read(&server, "/elsa/api/x", &[origin]).await;
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (401, "https://studio.example")
    );
    let foreign = [("origin", "https://evil.example"), asked[1], asked[2]];
    let foreign = send(&server, Method::OPTIONS, "/elsa/api/x", &foreign).await;
    assert_eq!(
        (foreign.status, foreign.header("access-control-allow-origin")),
        (403, "")
    );
}

#[tokio::test]
async fn without_studio_the_page_says_how_to_install_it() {
    let folder = std::env::temp_dir().join(format!("mainspring-none-{}", uuid::Uuid::new_v4()));
    let server = protect(router(Studio::in_folder(&folder)), ApiOptions::default());
    let page = read(&server, "/", &[]).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("mainspring studio install"), "{}", page.text);
    // A caller without a key does not learn where files of this machine are.
    assert!(!page.text.contains(folder.to_str().unwrap()), "{}", page.text);
    assert_eq!(read(&server, "/studio/", &[]).await.status, 404);
    // An install afterwards is noticed.
    let package = Package::create();
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(&package.0, folder.join(Studio::VERSION)).unwrap();
    assert_eq!(read(&server, "/", &[]).await.status, 302);
    assert_eq!(read(&server, "/studio/", &[]).await.status, 200);
    std::fs::rename(folder.join(Studio::VERSION), &package.0).unwrap();
    std::fs::remove_dir(&folder).unwrap();
}

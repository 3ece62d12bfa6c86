//! The files of Studio's package. Only files that were in the folder when it was read are served, so no path of a request
//! reaches another file; links are left out. A file is read piece by piece and closed between two pieces, so slow clients
//! hold neither memory nor open files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// The most files that a folder may have.
const MAX_FILES: usize = 20_000;
/// The deepest folder.
const MAX_DEPTH: usize = 16;
/// A file is read in pieces of this size.
const PIECE_BYTES: u64 = 64 * 1024;
/// The length of a fingerprint in the name of a file of Blazor's.
const FINGERPRINT: usize = 10;
/// The length of a fingerprint in the name of a file of the code editor's.
const EDITOR_FINGERPRINT: usize = 8;

/// Files that the page of this server replaces.
const REPLACED: [&str; 2] = ["index.html", "package.json"];

/// The forms of a file, the best first: the ending of its name, and the content encoding.
const ENCODINGS: [(&str, &str); 2] = [(".br", "br"), (".gz", "gzip")];

/// The files of a folder by their path.
#[derive(Debug)]
pub(super) struct StudioFolder {
    files: HashMap<String, Arc<StudioFile>>,
}

#[derive(Debug)]
struct StudioFile {
    path: PathBuf,
    bytes: u64,
    /// The sizes of the compressed forms that exist, in the order of `ENCODINGS`.
    compressed: [Option<u64>; ENCODINGS.len()],
    kind: &'static str,
    has_fingerprint: bool,
    /// A hash of the contents, so that all nodes have the same.
    tag: OnceLock<String>,
}

impl StudioFolder {
    /// Reads the names of all files.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut sizes = HashMap::new();
        list(folder, "", 0, &mut sizes)?;
        let mut files = HashMap::new();
        for (name, &bytes) in &sizes {
            let is_form = ENCODINGS
                .iter()
                .any(|(ending, _)| name.strip_suffix(ending).is_some_and(|base| sizes.contains_key(base)));
            if is_form || REPLACED.contains(&name.as_str()) {
                continue;
            }
            let file = StudioFile {
                path: folder.join(name),
                bytes,
                compressed: ENCODINGS.map(|(ending, _)| sizes.get(&format!("{name}{ending}")).copied()),
                kind: kind_of(name),
                has_fingerprint: has_fingerprint(name),
                tag: OnceLock::new(),
            };
            files.insert(name.clone(), Arc::new(file));
        }
        Ok(Self { files })
    }

    /// The response with a file; `None` if there is no such file.
    pub(super) async fn respond(&self, name: &str, headers: &HeaderMap) -> Option<Response> {
        let file = Arc::clone(self.files.get(name)?);
        Some(file.respond(headers).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "a file of Elsa Studio cannot be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }))
    }
}

impl StudioFile {
    async fn respond(self: Arc<Self>, headers: &HeaderMap) -> io::Result<Response> {
        let form = ENCODINGS.iter().zip(self.compressed).find_map(|(form, size)| {
            let size = size.filter(|_| accepts(headers, form.1))?;
            Some((form, size))
        });
        let (path, bytes, encoding) = match form {
            Some(((ending, encoding), bytes)) => {
                let mut path = self.path.clone().into_os_string();
                path.push(ending);
                (PathBuf::from(path), bytes, Some(*encoding))
            }
            None => (self.path.clone(), self.bytes, None),
        };
        let tag = if self.has_fingerprint {
            None
        } else {
            let file = Arc::clone(&self);
            let tag = tokio::task::spawn_blocking(move || file.tag()).await;
            Some(format!(
                "\"{}-{}\"",
                tag.map_err(io::Error::other)??,
                encoding.unwrap_or("plain")
            ))
        };
        let mut response = match &tag {
            Some(tag) if matches(headers, tag) => StatusCode::NOT_MODIFIED.into_response(),
            _ => {
                let mut response = body(path, bytes).into_response();
                let fields = response.headers_mut();
                fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
                fields.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
                if let Some(encoding) = encoding {
                    fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
                }
                response
            }
        };
        let fields = response.headers_mut();
        let caching = if self.has_fingerprint {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
            fields.insert(header::ETAG, tag);
        }
        Ok(response)
    }

    fn tag(&self) -> io::Result<String> {
        if let Some(tag) = self.tag.get() {
            return Ok(tag.clone());
        }
        let mut hash = Sha256::new();
        let mut file = File::open(&self.path)?;
        let mut piece = vec![0; 64 * 1024];
        loop {
            let length = file.read(&mut piece)?;
            let Some(read) = piece.get(..length).filter(|read| !read.is_empty()) else {
                break;
            };
            hash.update(read);
        }
        Ok(self.tag.get_or_init(|| short_hash(&hash.finalize())).clone())
    }
}

/// The first half of a hash in digits.
pub(super) fn short_hash(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn body(path: PathBuf, bytes: u64) -> Body {
    let pieces = futures_util::stream::try_unfold(0, move |offset| {
        let path = path.clone();
        async move {
            if offset >= bytes {
                return Ok(None);
            }
            let length = PIECE_BYTES.min(bytes - offset);
            let piece = tokio::task::spawn_blocking(move || read_piece(&path, offset, length)).await;
            let piece = piece.map_err(io::Error::other)??;
            Ok::<_, io::Error>(Some((piece, offset + length)))
        }
    });
    Body::from_stream(pieces)
}

fn read_piece(path: &Path, offset: u64, length: u64) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact(&mut piece)?;
    Ok(piece.into())
}

fn list(folder: &Path, prefix: &str, depth: usize, sizes: &mut HashMap<String, u64>) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let metadata = entry.path().symlink_metadata()?;
        let name = format!("{prefix}{name}");
        if metadata.is_dir() && depth < MAX_DEPTH {
            list(&entry.path(), &format!("{name}/"), depth + 1, sizes)?;
        } else if metadata.is_file() {
            if sizes.len() == MAX_FILES {
                return Err(io::Error::other(format!("the folder has more than {MAX_FILES} files")));
            }
            sizes.insert(name, metadata.len());
        }
    }
    Ok(())
}

/// Whether a client accepts an encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|part| {
            let mut words = part.split(';').map(str::trim);
            let named = words.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
            let refused = |word: &str| {
                let quality = word
                    .strip_prefix("q=")
                    .and_then(|quality| quality.trim().parse::<f32>().ok());
                quality.is_some_and(|quality| quality <= 0.0)
            };
            named && !words.any(refused)
        })
    })
}

/// Whether the client already has the file with this tag.
pub(super) fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.filter_map(|value| value.to_str().ok()).any(|value| {
        value
            .split(',')
            .map(str::trim)
            .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
    })
}

/// Whether the name changes with the contents: `Name.3ifuhex2gd.wasm` of Blazor's, `name-C4E4vgbE.js` of the code editor's.
fn has_fingerprint(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let is_word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let by_blazor = |part: &str| part.len() == FINGERPRINT && is_word(part) && has_digit(part);
    let by_editor = || {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let mark = stem.len().checked_sub(EDITOR_FINGERPRINT).and_then(|at| stem.get(at..));
        let before = stem
            .len()
            .checked_sub(EDITOR_FINGERPRINT + 1)
            .and_then(|at| stem.get(at..=at));
        before == Some("-") && mark.is_some_and(|mark| mark.bytes().any(|byte| !byte.is_ascii_lowercase()))
    };
    name.split('.').skip(1).any(by_blazor) || path.contains("/monaco-editor/") && by_editor()
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "css" => "text/css; charset=utf-8",
        "gif" => "image/gif",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_distinguished_from_a_plain_name() {
        for name in [
            "_framework/Elsa.Api.Client.mbze71icf3.wasm",
            "_framework/netstandard.s70x8cemb9.wasm",
            "_content/A/A.3ifuhex2gd.bundle.scp.css",
            "_content/lib/monaco-editor/min/vs/assets/ts.worker-C4E4vgbE.js",
            "_content/lib/monaco-editor/min/vs/abap-D-t0cyap.js",
        ] {
            assert!(has_fingerprint(name), "{name}");
        }
        for name in [
            "_framework/blazor.webassembly.js",
            "_framework/dotnet.js",
            "appsettings.json",
            "_content/MudBlazor/MudBlazor.min.js",
            "_content/lib/monaco-editor/min/vs/nls.messages-loader.js",
            "_content/lib/monaco-editor/min/vs/loader.js",
            "_content/A/designer-V2345678.js",
        ] {
            assert!(!has_fingerprint(name), "{name}");
        }
    }

    #[test]
    fn an_encoding_is_used_only_where_the_client_accepts_it() {
        let accepted = |value: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]);
            (accepts(&headers, "br"), accepts(&headers, "gzip"))
        };
        assert_eq!(accepted("gzip, deflate, br"), (true, true));
        assert_eq!(accepted("gzip;q=0.5, BR"), (true, true));
        assert_eq!(accepted("gzip, br;q=0"), (false, true));
        assert_eq!(accepted("identity"), (false, false));
        assert!(!accepts(&HeaderMap::new(), "br"));
    }

    #[test]
    fn links_are_left_out() {
        let folder = std::env::temp_dir().join(format!("mainspring-studio-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::fs::write(folder.join("a/b.js"), "1").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("a/link.txt")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.join("etc")).unwrap();
        let read = StudioFolder::read(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.files.keys().collect::<Vec<_>>(), ["a/b.js"]);
    }
}

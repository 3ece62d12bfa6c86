//! Media types of files.

use super::body_kind::media_type;

/// The media type of each extension that downloads usually have.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("eml", "message/rfc822"),
    ("epub", "application/epub+zip"),
    ("gif", "image/gif"),
    ("gz", "application/x-gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "text/xml"),
    ("zip", "application/x-zip-compressed"),
];

/// Whether a browser may run what has this content type, or apply it to a page. A file is not sent under such a type because it says
/// so itself: what says so is often data of a client, and the page would have the origin of this server.
pub(crate) fn is_active(content_type: &str) -> bool {
    // Browsers read a list, and take its last type that they know.
    if content_type.contains(',') {
        return true;
    }
    let media_type = media_type(content_type);
    match media_type.split_once('/').unwrap_or_default() {
        ("text", subtype) => !["plain", "csv", "json", "markdown", "calendar", "richtext"].contains(&subtype),
        ("multipart", _) => true,
        (_, subtype) => {
            let is_named = |part| subtype.contains(part);
            subtype == "xml" || subtype.ends_with("+xml") || ["script", "html", "wasm"].into_iter().any(is_named)
        }
    }
}

/// The media type of a file by the end of its name; octets if that says nothing.
pub(crate) fn media_type_of(filename: &str) -> &'static str {
    let extension = filename.rsplit_once('.').map_or("", |(_, extension)| extension);
    let mut known = BY_EXTENSION.iter();
    known
        .find(|(it, _)| it.eq_ignore_ascii_case(extension))
        .map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_runs_is_active() {
        for active in [
            "text/html",
            "TEXT/HTML; charset=utf-8",
            "application/xhtml+xml",
            "image/svg+xml",
            "text/xml",
            "application/xml",
            "text/javascript",
            "application/x-javascript",
            "text/css",
            "application/wasm",
            "multipart/x-mixed-replace",
            "text/anything",
        ] {
            assert!(is_active(active), "{active}");
        }
        for (_, harmless) in BY_EXTENSION
            .iter()
            .filter(|(extension, _)| !["css", "htm", "html", "js", "svg", "wasm", "xml"].contains(extension))
        {
            assert!(!is_active(harmless), "{harmless}");
        }
    }
}

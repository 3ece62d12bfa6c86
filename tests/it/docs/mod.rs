//! The documents agree with the code: docs/reference/rest.md lists every error code and no other one, and names of files,
//! tests and code in the documents exist (`names`), docs/elsa-client.md names what is served (`elsa_client`), and the
//! documents keep their bounds (`bounds`).

mod bounds;
mod elsa_client;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a code follows as the first literal: a constructor of `Error` or of the API's error.
const CONSTRUCTORS: [&str; 14] = [
    "Error::forbidden(",
    "Error::invalid(",
    "Error::too_large(",
    "Error::over_budget(",
    "Error::not_found(",
    "Error::gone(",
    "Error::conflict(",
    "Error::unprocessable(",
    "Error::unavailable(",
    "Self::new(Kind::",
    "ApiError::bad_request(",
    "ApiError::unavailable(",
    "ApiError::new(",
    "Self::new(StatusCode::",
];

#[test]
fn every_code_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = BTreeMap::new();
    collect(&root.join("src"), &mut made);
    assert!(made.len() > 30, "the codes were not found: {made:?}");
    let docs = std::fs::read_to_string(root.join("docs/reference/rest.md")).unwrap();
    let section = docs.split_once("\n## Codes\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let documented: Vec<&str> = section
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0))
        .collect();
    let missing: Vec<_> = made
        .iter()
        .filter(|(code, _)| !documented.contains(&code.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/reference/rest.md lacks {missing:?}");
    let stale: Vec<_> = documented.iter().filter(|code| !made.contains_key(**code)).collect();
    assert!(
        stale.is_empty(),
        "docs/reference/rest.md has codes that nothing makes: {stale:?}"
    );
    let sorted: BTreeSet<_> = documented.iter().collect();
    assert_eq!(
        sorted.into_iter().collect::<Vec<_>>(),
        documented.iter().collect::<Vec<_>>(),
        "sorted, each once"
    );
}

/// A merge may duplicate a row, or put it beside its table.
#[test]
fn every_row_occurs_once_and_in_a_table() {
    for name in ["rest.md", "expressions.md", "operating.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
        let docs = std::fs::read_to_string(path).unwrap();
        let mut seen = BTreeSet::new();
        let lines: Vec<&str> = docs.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[1].starts_with("| `")) {
            assert!(pair[0].starts_with('|'), "{name}: in no table: {}", pair[1]);
            let first = pair[1].split('|').nth(1).unwrap();
            assert!(seen.insert(first), "{name}: twice: {}", pair[1]);
        }
        let items = lines.iter().filter(|line| line.starts_with("- **"));
        let mut heads: Vec<&str> = items.map(|line| line.split("**").nth(1).unwrap()).collect();
        let all = heads.len();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), all, "{name}: a point occurs twice");
    }
}

fn collect(folder: &Path, made: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                collect(&path, made);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for code in codes(production) {
                made.entry(code).or_insert_with(|| path.display().to_string());
            }
        }
    }
}

/// The literals that follow a constructor, with at most white space, a status or a kind in between.
fn codes(text: &str) -> Vec<String> {
    let after = |maker: &'static str| text.match_indices(maker).map(move |(at, _)| &text[at + maker.len()..]);
    let rests = CONSTRUCTORS.into_iter().flat_map(after);
    rests
        .filter_map(|rest| {
            let rest = rest.trim_start();
            let rest = rest.strip_prefix("StatusCode::").unwrap_or(rest);
            let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            let rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            let code = rest.strip_prefix('"')?.split_once('"')?.0;
            (code.contains(|c: char| c.is_ascii_lowercase())
                && code
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
            .then(|| code.to_owned())
        })
        .collect()
}

#[test]
fn codes_are_found_in_every_form() {
    let text =
        "Error::invalid(\"a-b\", x) Error::conflict(\n    \"c\",\n) ApiError::new(\n StatusCode::BAD_REQUEST,\n \"d-e\", m)
        Self::new(Kind::Unknown, \"f\", m) Error::invalid(code, \"not this\") (StatusCode::OK, \"not this\")";
    let mut found = codes(text);
    found.sort();
    assert_eq!(found, ["a-b", "c", "d-e", "f"]);
}

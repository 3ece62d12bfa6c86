//! Names in the documents exist: files and tests in all of them, names of code in the glossary.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The documents whose names are checked.
const DOCUMENTS: [&str; 33] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/decisions.md",
    "docs/architecture.md",
    "docs/glossary.md",
    "docs/reference/rest.md",
    "docs/reference/http-activities.md",
    "docs/reference/mail.md",
    "docs/reference/expressions.md",
    "docs/reference/operating.md",
    "docs/reference/differences-from-elsa.md",
    "docs/elsa-client.md",
    "docs/schedules.md",
    "benches/README.md",
    "benches/experiments/README.md",
    "docs/guide/README.md",
    "docs/guide/first-workflow.md",
    "docs/guide/from-elsa.md",
    "docs/guide/events-timers-correlation.md",
    "docs/guide/behind-a-url.md",
    "docs/guide/approval-by-mail.md",
    "docs/guide/retries-and-idempotency.md",
    "docs/guide/life-of-an-instance.md",
    "docs/guide/running-a-cluster.md",
    "docs/guide/users-keys-sso.md",
    "docs/guide/validate.md",
    "docs/guide/troubleshooting.md",
    "docs/guide/planted-faults.md",
    "docs/reference/doctor.md",
    "docs/reference/views.md",
    "docs/guide/embedding.md",
];

/// The folders and files of the repository that a document may name.
const TOPS: [&str; 9] = [
    "src/",
    "sql/",
    "tests/",
    "docs/",
    "scripts/",
    "benches/",
    "examples/",
    "samples/",
    "advisories.txt",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts between backticks in one line, outside of blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence && !line.starts_with("    ")
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn every_file_that_a_document_names_exists() {
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = read(document);
        for name in quoted(&text).filter(|name| TOPS.iter().any(|top| name.starts_with(top))) {
            let path = name.split([' ', '*', '<', '…']).next().unwrap_or_default();
            if !root().join(path).exists() {
                missing.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "no such file: {missing:#?}");
}

#[test]
fn every_test_that_the_architecture_names_exists() {
    let text = read("docs/architecture.md");
    let is_path =
        |name: &&str| name.contains("::") && name.chars().all(|c| c.is_ascii_lowercase() || "_:*".contains(c));
    let names: Vec<&str> = quoted(&text).filter(is_path).collect();
    assert!(names.len() > 30, "the names were not found: {names:?}");
    let missing: Vec<&str> = names.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no such module or function: {missing:#?}");
}

/// Whether a path of modules leads to a file, or to a module or function in the last file.
fn exists(name: &str) -> bool {
    let mut segments = name.split("::").peekable();
    let mut folder = root().join("src");
    if segments.next_if_eq(&"it").is_some() {
        folder = root().join("tests/it");
    }
    let mut file: Option<PathBuf> = None;
    for segment in segments.filter(|segment| *segment != "*") {
        let (inner, own) = (folder.join(segment), folder.join(format!("{segment}.rs")));
        if inner.is_dir() {
            file = [own, inner.join("mod.rs")].into_iter().find(|path| path.exists());
            folder = inner;
        } else if own.exists() {
            file = Some(own);
            folder = inner;
        } else {
            let text = file.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
            let defines = |text: &String| {
                let words = [
                    format!("fn {segment}("),
                    format!("mod {segment} {{"),
                    format!("fn {segment}<"),
                ];
                words.iter().any(|word| text.contains(word))
            };
            return text.is_some_and(|text| defines(&text));
        }
    }
    file.is_some()
}

#[test]
fn every_name_of_code_in_the_glossary_exists() {
    let (mut words, mut defined) = (HashSet::new(), HashSet::new());
    for top in ["src", "sql"] {
        each_word(&root().join(top), &mut words, &mut defined);
    }
    let text = read("docs/glossary.md");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells: Vec<&str> = rows.filter_map(|row| row.split(" | ").nth(2)).collect();
    assert!(cells.len() > 50, "the table was not found");
    let mut missing = Vec::new();
    for name in cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        let parts = name.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        let exists = |part: &str| {
            // Other words are those of commands, routes and headers.
            let is_type = part.starts_with(char::is_uppercase) && part.contains(char::is_lowercase);
            let is_item = (is_type || part.contains('_')) && !part.contains('-');
            words.contains(part) && (!is_item || defined.contains(part))
        };
        if parts.filter(|part| !part.is_empty()).any(|part| !exists(part)) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "no such name in src or sql: {missing:?}");
}

/// What stands before the name of an item, in Rust and SQL.
const DEFINES: [&str; 14] = [
    "struct", "enum", "trait", "type", "fn", "mod", "const", "static", "TABLE", "TYPE", "VIEW", "SEQUENCE", "FUNCTION",
    "INDEX",
];

/// The names that a text defines: items, and fields, variants and columns, which begin a line.
fn definitions(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(move |line| {
            let words: Vec<&str> = line.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
            let items = words
                .windows(2)
                .filter(|pair| DEFINES.contains(&pair[0]))
                .map(|pair| pair[1]);
            let modifiers = ["pub", "crate", "super", "in", "async"];
            let first = words.iter().copied().find(|word| !modifiers.contains(word));
            items.chain(first).collect::<Vec<_>>()
        })
}

fn each_word(folder: &Path, words: &mut HashSet<String>, defined: &mut HashSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_word(&path, words, defined);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        defined.extend(definitions(&text).map(str::to_owned));
        for separators in ["_", "_-"] {
            let found = text.split(|c: char| !c.is_alphanumeric() && !separators.contains(c));
            words.extend(found.map(str::to_owned));
        }
    }
}

#[test]
fn a_name_that_does_not_exist_is_seen() {
    assert!(exists("it::docs::names::every_file_that_a_document_names_exists"));
    assert!(exists("it::docs::*") && exists("store"));
    assert!(
        !exists("it::docs::names::no_such_test") && !exists("it::no_such_folder::*") && !exists("no_such_room::tests")
    );
    let code =
        "pub(crate) struct A { b: C }\n    D(E),\n    pub(super) f: G,\n// struct H\nCREATE TABLE i (\n  j text,";
    assert_eq!(
        definitions(code).collect::<HashSet<_>>(),
        HashSet::from(["A", "struct", "D", "f", "i", "CREATE", "j"])
    );
    let text = "a `b` c\n```\n`in_a_block`\n```\n    `in_code`\n`d` and `e`\n";
    assert_eq!(quoted(text).collect::<Vec<_>>(), ["b", "d", "e"]);
}

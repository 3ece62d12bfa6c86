//! The table of all differences, and the page that is made of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::{api, containers, events, expressions, http, instances, mail, nodes, publish};

/// A difference that a user could notice. The texts are cells of a table in Markdown.
#[derive(Debug)]
pub(super) struct Difference {
    /// What it is about.
    pub(super) what: &'static str,
    pub(super) elsa: &'static str,
    pub(super) here: &'static str,
    pub(super) why: &'static str,
    /// What to write to have what Elsa does.
    pub(super) other: &'static str,
    /// The path of the test that shows what happens here.
    pub(super) test: &'static str,
}

/// The rows of each area, below its heading.
const AREAS: [(&str, &[Difference]); 9] = [
    ("Control flow", containers::DIFFERENCES),
    ("Events, triggers and schedules", events::DIFFERENCES),
    ("Workflows behind URLs", http::DIFFERENCES),
    ("Mails", mail::DIFFERENCES),
    ("State, limits and journal", instances::DIFFERENCES),
    ("Publishing", publish::DIFFERENCES),
    ("Expressions and values", expressions::DIFFERENCES),
    ("The REST API", api::DIFFERENCES),
    ("Nodes", nodes::DIFFERENCES),
];

const PAGE: &str = "docs/reference/differences-from-elsa.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rows() -> impl Iterator<Item = &'static Difference> {
    AREAS.into_iter().flat_map(|(_, rows)| rows)
}

#[test]
fn the_reference_has_the_table() {
    let path = root().join(PAGE);
    if std::env::var_os("MAINSPRING_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "write {PAGE} with MAINSPRING_WRITE_REFERENCE=1");
}

fn page() -> String {
    let mut page = String::from(
        "# Differences from Elsa\n\n\
         What does something else here than in Elsa Workflows 3, on purpose: the reason of each difference, and what to write to\n\
         have the other. What is not listed is meant to be as in Elsa 3.8. Values of scripts and templates have a page of their\n\
         own ([languages](languages.md)), as have [conversions](conversions.md) and the [calls of Elsa's client](../elsa-client.md),\n\
         which names what is not served. [Moving from Elsa](../guide/from-elsa.md) begins with a report of what runs.\n\n\
         This page is made from the table in `tests/it/differences`, where each row names the test that shows it.\n",
    );
    for (area, rows) in AREAS {
        let head = "| what | in Elsa | here | why | to have the other |\n|---|---|---|---|---|\n";
        let _ = write!(page, "\n## {area}\n\n{head}");
        for row in rows {
            let cells = [row.what, row.elsa, row.here, row.why, row.other];
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }
    page
}

#[test]
fn every_row_is_complete_and_occurs_once() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        for cell in [row.what, row.elsa, row.here, row.why, row.other] {
            let is_plain = !cell.is_empty() && cell.trim() == cell && !cell.contains(['|', '\n']);
            assert!(is_plain, "no cell of a table: {cell:?} in {row:?}");
        }
        assert!(seen.insert(row.what), "twice: {}", row.what);
    }
    assert!(seen.len() > 40, "the rows were not found: {seen:?}");
}

#[test]
fn every_row_names_a_test() {
    let wrong: Vec<_> = rows().filter(|row| !is_test(row.test)).collect();
    assert!(wrong.is_empty(), "no such test: {wrong:#?}");
}

#[test]
fn every_test_of_this_folder_has_a_row() {
    let named: BTreeSet<&str> = rows().map(|row| row.test).collect();
    let mut without = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/it/differences")).unwrap() {
        let path = entry.unwrap().path();
        let area = path.file_stem().unwrap().to_str().unwrap();
        if area == "table" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("#[tokio::test") {
            let name = text[at..].split_once("fn ").unwrap().1.split('(').next().unwrap();
            let test = format!("it::differences::{area}::{name}");
            if !named.contains(test.as_str()) {
                without.push(test);
            }
        }
    }
    assert!(without.is_empty(), "no row names {without:#?}");
}

/// Whether the path of a module of `src` or of these tests leads to a file that has a test of this name.
fn is_test(path: &str) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else {
        return false;
    };
    let (top, module) = match module.strip_prefix("it::") {
        Some(module) => ("tests/it", module),
        None => ("src", module),
    };
    let file = root().join(top).join(module.replace("::", "/"));
    let files: [PathBuf; 2] = [file.with_extension("rs"), file.join("mod.rs")];
    let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
    let Some(text) = text else { return false };
    let Some((before, _)) = text.split_once(&format!("fn {name}(")) else {
        return false;
    };
    // The attributes stand between the item before and the name.
    let item = before.rsplit("\n\n").next().unwrap_or_default();
    item.contains("#[test]") || item.contains("#[tokio::test")
}

#[test]
fn a_test_that_does_not_exist_is_seen() {
    assert!(is_test("it::differences::table::a_test_that_does_not_exist_is_seen"));
    assert!(is_test("it::support::poll_until_gives_the_first_answer"));
    assert!(is_test("execution::tests::bounds::an_endless_loop_is_stopped"));
    for none in [
        "it::differences::table::is_test",
        "it::differences::table::no_such_test",
        "it::no_such_folder::a",
        "nothing",
    ] {
        assert!(!is_test(none), "{none}");
    }
}

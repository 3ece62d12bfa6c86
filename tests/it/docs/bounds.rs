//! The documents are short enough to be read.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_architecture_has_less_than_300_lines() {
    let count = read("docs/architecture.md").lines().count();
    assert!(count < 300, "docs/architecture.md has {count} lines");
}

#[test]
fn every_decision_has_less_than_15_lines() {
    let text = read("docs/decisions.md");
    let long: Vec<String> = long_entries(&text);
    let count = text.matches("\n## ").count();
    assert!((25..=35).contains(&count), "docs/decisions.md has {count} entries");
    assert!(long.is_empty(), "15 lines or more: {long:#?}");
}

/// The heads of the entries with 15 or more lines that are not blank, the head not counted.
fn long_entries(text: &str) -> Vec<String> {
    let entries = text.split("\n## ").skip(1);
    entries
        .filter_map(|entry| {
            let (head, body) = entry.split_once('\n')?;
            let count = body.lines().filter(|line| !line.trim().is_empty()).count();
            (count >= 15).then(|| format!("{count} lines: {head}"))
        })
        .collect()
}

#[test]
fn a_long_decision_is_seen() {
    let entry = |count: usize| format!("\n## head\n\n{}", "line\n\n".repeat(count));
    assert_eq!(long_entries(&entry(14)), Vec::<String>::new());
    assert_eq!(long_entries(&(entry(3) + &entry(15))), ["15 lines: head"]);
}

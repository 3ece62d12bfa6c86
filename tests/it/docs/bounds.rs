//! The documents are short enough to be read, and the list of metrics is complete.

use std::collections::BTreeSet;
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

/// docs/reference/operating.md lists each metric that the code counts, and no other one.
#[test]
fn every_metric_is_documented() {
    let docs = read("docs/reference/operating.md");
    let section = docs
        .split_once("\n## Metrics\n")
        .unwrap()
        .1
        .split_once("\n## ")
        .unwrap()
        .0;
    let mut documented = BTreeSet::new();
    for name in section.split('`').filter(|text| text.starts_with("mainspring_")) {
        match name.split_once('{') {
            Some((head, rest)) if !rest.ends_with('}') => {
                let (names, tail) = rest.split_once('}').unwrap();
                documented.extend(names.split(',').map(|name| format!("{head}{name}{tail}")));
            }
            Some((name, _)) => drop(documented.insert(name.to_owned())),
            None => drop(documented.insert(name.to_owned())),
        }
    }
    let mut counted = BTreeSet::new();
    each_metric(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut counted);
    assert!(counted.len() > 30, "the metrics were not found: {counted:?}");
    assert_eq!(documented, counted);
}

fn each_metric(folder: &Path, counted: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_metric(&path, counted);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let literals = text
            .split("\"mainspring_")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'));
        let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let names = literals.map(|(name, _)| name).filter(is_name);
        counted.extend(names.map(|name| format!("mainspring_{name}")));
    }
}

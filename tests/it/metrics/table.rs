//! The table of docs/reference/metrics.md, as a reader has it.

use std::collections::BTreeMap;

/// A metric of the page.
#[derive(Debug)]
pub(super) struct Documented {
    pub(super) kind: String,
    /// The name of its label; empty without one.
    pub(super) label: String,
    /// The values of its label; empty where the settings name them.
    pub(super) values: Vec<String>,
}

/// The metrics of the page, by name.
pub(super) fn documented() -> BTreeMap<String, Documented> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("| `mainspring_"));
    let found: BTreeMap<_, _> = lines.map(of_line).collect();
    assert!(found.len() > 100, "the table was not found: {found:?}");
    found
}

fn of_line(line: &str) -> (String, Documented) {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let name = cells[1].trim_matches('`');
    let (name, label) = match name.split_once('{') {
        Some((name, label)) => (name, label.trim_end_matches('}')),
        None => (name, ""),
    };
    assert!(!cells[4].is_empty() && !cells[5].is_empty(), "{line}");
    let values = cells[4]
        .split_once(&format!("; `{label}`: "))
        .map_or("", |(_, values)| values);
    let values = values.split('`').skip(1).step_by(2).map(str::to_owned);
    let documented = Documented {
        kind: cells[2].to_owned(),
        label: label.to_owned(),
        values: values.collect(),
    };
    (name.to_owned(), documented)
}

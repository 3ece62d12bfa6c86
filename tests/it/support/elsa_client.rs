//! The calls of Elsa's API client, as docs/elsa-client.md lists them.

use std::path::Path;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct ClientCall {
    pub(crate) method: String,
    /// Below `/elsa/api`.
    pub(crate) path: String,
    pub(crate) state: String,
    pub(crate) note: String,
}

/// All rows.
pub(crate) fn client_calls() -> Vec<ClientCall> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/elsa-client.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let calls: Vec<ClientCall> = rows
        .map(|row| {
            let (call, rest) = row.split_once("` | ").unwrap();
            let (method, path) = call.split_once(' ').unwrap();
            let (state, note) = rest.split_once(" | ").unwrap();
            ClientCall {
                method: method.to_owned(),
                path: path.to_owned(),
                state: state.trim().to_owned(),
                note: note.trim_end_matches('|').trim().to_owned(),
            }
        })
        .collect();
    assert!(calls.len() > 90, "the table was not found");
    calls
}

//! Imports between the rooms of `src/runtime` run downward only.

use std::collections::BTreeMap;
use std::path::Path;

use super::modules::imports;

/// The rooms of `src/runtime`, from the top: a room may use those below it and itself, not those in its line.
const FLOORS: [&[&str]; 3] = [&["engine"], &["worker", "scheduler", "sender"], &["context"]];

#[test]
fn imports_of_the_runtime_run_downward() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    super::each_file(root, &root.join("src"), &mut |path, text| {
        files.insert(path.to_owned(), text.to_owned());
    });
    let complaints = complaints(&files);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The imports that do not run downward, by the file that defines the item. `files` are those of `src`, by path.
fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    let rooms = files.keys().filter_map(|path| Some((path, room_of(path)?)));
    let unknown = rooms.filter(|(_, room)| floor_of(room).is_none());
    let mut complaints: Vec<String> = unknown
        .map(|(path, room)| format!("{path}: room `{room}` has no floor; give it one in tests/it/structure/runtime.rs"))
        .collect();
    for import in imports(files) {
        let (Some(from), Some(to)) = (room_of(&import.from), room_of(&import.to)) else {
            continue;
        };
        let runs_downward = from == to || floor_of(from) < floor_of(to);
        if !runs_downward {
            complaints.push(format!(
                "{}:{}: `{from}` uses `{to}`: {}",
                import.from, import.line, import.path
            ));
        }
    }
    complaints
}

/// The room of `src/runtime/room.rs` or `src/runtime/room/…`; `mod.rs` is in none.
fn room_of(path: &str) -> Option<&str> {
    let room = path.strip_prefix("src/runtime/")?.split('/').next()?;
    let room = room.strip_suffix(".rs").unwrap_or(room);
    (room != "mod").then_some(room)
}

/// 0 is the top.
fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

#[test]
fn an_import_upward_or_beside_is_seen() {
    let found = |changed: &str, text: &str| {
        let mut files = BTreeMap::from(
            [
                ("src/lib.rs", "mod runtime; pub use runtime::Engine;"),
                (
                    "src/runtime/mod.rs",
                    "mod engine; mod worker; mod scheduler; mod context; pub use engine::Engine;",
                ),
                ("src/runtime/engine/mod.rs", "pub struct Engine;"),
                ("src/runtime/worker/mod.rs", "pub mod poll;"),
                ("src/runtime/worker/poll.rs", "pub struct Poll;"),
                ("src/runtime/scheduler/mod.rs", "pub struct Firing;"),
                ("src/runtime/context/mod.rs", "pub struct Node;"),
            ]
            .map(|(path, text)| (path.to_owned(), text.to_owned())),
        );
        files.insert(changed.to_owned(), text.to_owned());
        complaints(&files).len()
    };
    for (path, text) in [
        ("src/runtime/context/mod.rs", "use crate::runtime::worker::poll::Poll;"),
        ("src/runtime/context/mod.rs", "use super::scheduler::Firing;"),
        ("src/runtime/context/mod.rs", "use crate::Engine;"),
        ("src/runtime/worker/poll.rs", "use crate::runtime::Engine;"),
        ("src/runtime/worker/poll.rs", "use crate::runtime::scheduler::Firing;"),
        (
            "src/runtime/scheduler/mod.rs",
            "fn f(_: super::worker::poll::Poll) {} pub struct Firing;",
        ),
    ] {
        assert_eq!(found(path, text), 1, "{path}: {text}");
    }
    assert_eq!(found("src/runtime/attic.rs", ""), 1, "a room without a floor");
    for (path, text) in [
        (
            "src/runtime/engine/mod.rs",
            "use super::{worker::poll::Poll, scheduler::Firing, context::Node};",
        ),
        ("src/runtime/worker/poll.rs", "use crate::runtime::context::Node;"),
        (
            "src/runtime/context/mod.rs",
            "#[cfg(test)]\nmod tests { use crate::Engine; }",
        ),
    ] {
        assert_eq!(found(path, text), 0, "{path}: {text}");
    }
}

//! Imports run downward only.

use super::source::{Source, Token};

/// The rooms, from the roof to the ground: a room may use those below it and itself. Rooms in one line stand beside
/// each other.
const FLOORS: [&[&str]; 10] = [
    &["main", "cli", "bench", "internals"],
    &["harness"],
    &["api", "endpoint", "http", "auth"],
    &["runtime"],
    &["cluster"],
    &["lock", "signal", "wake"],
    &["execution"],
    &["activity", "expression", "schedule"],
    &["definition"],
    &[
        "store",
        "db",
        "outgoing",
        "openid",
        "mail",
        "otlp",
        "redis_server",
        "rabbitmq_server",
        "webhook",
    ],
];

/// The ground, which everybody stands on.
const GROUND: [&str; 17] = [
    "compute",
    "elsa_json",
    "error",
    "id",
    "identity",
    "log",
    "failpoint",
    "metric",
    "network",
    "open_files",
    "spool",
    "trace",
    "private_file",
    "shortened",
    "watchdog",
    "refusals",
    "weight",
];

/// Pluggable services: none of them knows another one.
const STRANGERS: [&str; 3] = ["lock", "signal", "wake"];

/// Rooms that run without any database, though it is below them.
const WITHOUT_DATABASE: [&str; 5] = ["execution", "activity", "expression", "schedule", "definition"];
const DATABASE: [&str; 2] = ["store", "db"];

/// What runs workflows, of which the cluster knows nothing, though it is below it.
const INTERPRETER: [&str; 5] = ["execution", "activity", "expression", "schedule", "definition"];

/// The rule over one file of `src`.
pub(super) fn check(path: &str, source: &Source) -> Vec<String> {
    let Some(room) = room_of(path) else { return Vec::new() };
    let Some(floor) = floor_of(room) else {
        return vec![format!(
            "{path}: room `{room}` stands on no floor; give it one in tests/it/structure/imports.rs"
        )];
    };
    let mut complaints = Vec::new();
    for (line, other) in used_rooms(path, source) {
        if other == room {
            continue;
        }
        // What is no room is an item of the root.
        let Some(theirs) = floor_of(&other) else { continue };
        let why = if theirs < floor {
            "imports run downward only"
        } else if STRANGERS.contains(&room) && STRANGERS.contains(&other.as_str()) {
            "these services do not know each other"
        } else if WITHOUT_DATABASE.contains(&room) && DATABASE.contains(&other.as_str()) {
            "this room runs without any database"
        } else if room == "cluster" && INTERPRETER.contains(&other.as_str()) {
            "the cluster knows no activities"
        } else {
            continue;
        };
        complaints.push(format!("{path}:{line}: `{room}` uses `{other}`: {why}"));
    }
    complaints
}

/// The room of `src/room.rs` or `src/room/…`; `lib.rs` is the crate itself.
pub(super) fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let room = inside.split('/').next()?;
    let room = room.strip_suffix(".rs").unwrap_or(room);
    (room != "lib").then_some(room)
}

/// 0 is the roof.
fn floor_of(room: &str) -> Option<usize> {
    if GROUND.contains(&room) {
        return Some(FLOORS.len());
    }
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// How many `super` lead from a file to the root of the crate.
fn depth(path: &str) -> usize {
    let parts = path.strip_prefix("src/").unwrap_or(path).split('/').count();
    if path.ends_with("/mod.rs") || path == "src/main.rs" {
        parts - 1
    } else {
        parts
    }
}

/// Every first segment after `crate::`, or after as many `super::` as lead to the root, with its line.
fn used_rooms(path: &str, source: &Source) -> Vec<(usize, String)> {
    let tokens: Vec<Token<'_>> = source.production_tokens().collect();
    let depth = depth(path);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let root = match token.text {
            "crate" => true,
            "super" => supers_before(&tokens[..=at]) == depth,
            _ => false,
        };
        if root && tokens.get(at + 1).is_some_and(|next| next.text == "::") {
            let segments = first_segments(&tokens[at + 2..]);
            found.extend(segments.into_iter().map(|segment| (token.line, segment.to_owned())));
        }
    }
    found
}

/// The number of `super` in a path that ends with one.
fn supers_before(tokens: &[Token<'_>]) -> usize {
    let path = tokens.iter().rev().map(|token| token.text);
    let pattern = ["super", "::"].into_iter().cycle();
    path.zip(pattern)
        .take_while(|(text, expected)| text == expected)
        .count()
        .div_ceil(2)
}

/// `room::…` or `{room::…, other, …}`.
fn first_segments<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut segments = Vec::new();
    let mut depth = 0;
    for token in tokens {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            text if depth == 0 || depth == 1 && (token.after("{") || token.after(",")) => segments.push(text),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, code: &str) -> usize {
        check(path, &Source::read(code)).len()
    }

    #[test]
    fn an_upward_import_is_seen_in_every_form() {
        for code in [
            "use crate::runtime::Engine;",
            "pub(crate) use crate::runtime;",
            "use crate::{Error, runtime::Engine};",
            "use crate::{\n    db::{Pool, Row},\n    runtime::{Engine, start},\n};",
            "fn f() { crate::runtime::go(); }",
            "use super::super::runtime::Engine;",
            "fn f(a: crate :: runtime :: Engine) {}",
        ] {
            assert_eq!(complaints("src/store/commit.rs", code), 1, "{code}");
        }
        assert_eq!(complaints("src/store/mod.rs", "use super::runtime::Engine;"), 1);
        assert_eq!(complaints("src/store.rs", "use super::runtime::Engine;"), 1);
        assert_eq!(complaints("src/execution/mod.rs", "use crate::cluster;"), 1);
        assert_eq!(complaints("src/error.rs", "use crate::definition;"), 1);
    }

    #[test]
    fn a_downward_import_is_fine() {
        for code in [
            "use crate::store::Commit; use crate::{Error, Result, db, id::InstanceId};",
            "use super::api::x;",
            "// crate::api\nlet a = \"crate::api\";",
            "#[cfg(test)]\nmod tests { use crate::api::ApiKey; }",
            "use crate::runtime::request;",
        ] {
            assert_eq!(complaints("src/runtime/start.rs", code), 0, "{code}");
        }
        assert_eq!(complaints("src/lib.rs", "pub use crate::api::ApiKey;"), 0);
        assert_eq!(complaints("src/api/mod.rs", "use crate::{auth, runtime};"), 0);
    }

    #[test]
    fn independent_services_and_rooms_without_database_are_seen() {
        assert_eq!(
            complaints("src/lock/mod.rs", "use crate::signal::CacheNotification;"),
            1
        );
        assert_eq!(complaints("src/wake/mod.rs", "use crate::{lock, signal};"), 2);
        assert_eq!(
            complaints("src/lock/provider/postgres/mod.rs", "use crate::db::Session;"),
            0
        );
        assert_eq!(complaints("src/execution/state.rs", "use crate::store::Row;"), 1);
        assert_eq!(complaints("src/store/mod.rs", "use crate::definition::Trigger;"), 1);
        assert_eq!(complaints("src/definition/mod.rs", "use crate::db;"), 1);
        assert_eq!(complaints("src/cluster/mod.rs", "use crate::activity::Catalogue;"), 1);
    }

    #[test]
    fn a_room_without_a_floor_is_seen() {
        assert_eq!(complaints("src/attic/mod.rs", ""), 1);
        assert_eq!(complaints("src/attic.rs", "use crate::Error;"), 1);
    }
}

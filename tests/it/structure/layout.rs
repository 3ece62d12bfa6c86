//! Rules over the whole tree: one style of modules, one meaning per type name, fixtures in one place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::imports::room_of;
use super::source::{Source, Token};

/// Type names that rooms share because their layers share the concept. The list only ever shrinks.
const SHARED_NAMES: &[&str] = &[
    // One filter: with the words of the API in `runtime`, with the numbers of the schema in `store`.
    "DeadLetterFilter",
];

#[test]
fn the_tree_has_one_style() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    for top in ["src", "crates", "tests", "benches", "examples"] {
        super::each_file(root, &root.join(top), &mut |path, text| {
            if path.ends_with(".rs") {
                files.insert(path.to_owned(), Source::read(text));
            }
        });
    }
    let mut complaints = pairs(files.keys().map(String::as_str));
    complaints.extend(names(&files, SHARED_NAMES));
    for (path, source) in &files {
        complaints.extend(fixtures(path, source));
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// A module with children is `x/mod.rs`, never `x.rs` beside `x/`.
fn pairs<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let paths: Vec<&str> = paths.collect();
    let folder = |path: &&&str| {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        paths.iter().any(|other| other.starts_with(&folder))
    };
    let pairs = paths.iter().filter(folder);
    pairs
        .map(|path| format!("{path}: make it {}/mod.rs", path.trim_end_matches(".rs")))
        .collect()
}

/// No two rooms define a type of the same name that others can see, beside those that are listed; a listed one is shared. The
/// rooms of `runtime` count one by one.
fn names(files: &BTreeMap<String, Source>, listed: &[&str]) -> Vec<String> {
    let mut places: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    for (path, source) in files {
        let Some(room) = room_of(path).filter(|_| !super::is_test(path)) else {
            continue;
        };
        let of_runtime = path.strip_prefix("src/runtime/").and_then(|rest| rest.split_once('/'));
        let room = of_runtime.map_or(room, |(room, _)| room);
        for (line, name) in types(source) {
            let place = format!("{path}:{line}");
            places.entry(name).or_default().entry(room).or_insert(place);
        }
    }
    places.retain(|_, rooms| rooms.len() > 1);
    let unlisted = places.iter().filter(|(name, _)| !listed.contains(&name.as_str()));
    let mut complaints: Vec<String> = unlisted
        .map(|(name, rooms)| {
            let rooms: Vec<&str> = rooms.values().map(String::as_str).collect();
            format!("type `{name}` is defined in {}", rooms.join(" and "))
        })
        .collect();
    let stale = listed.iter().filter(|name| !places.contains_key(**name));
    complaints.extend(stale.map(|name| format!("type `{name}` is not shared any more: take it off the list")));
    complaints
}

/// The types that a file defines outside of functions for other files, with their lines.
fn types(source: &Source) -> Vec<(usize, String)> {
    let tokens: Vec<_> = source.production_tokens().collect();
    let mut found = Vec::new();
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            "struct" | "enum" | "trait" | "union" | "type" if depth == 0 && is_visible(&tokens[..at]) => {
                let name = tokens
                    .get(at + 1)
                    .filter(|name| name.text.starts_with(char::is_uppercase));
                found.extend(name.map(|name| (name.line, name.text.to_owned())));
            }
            _ => {}
        }
    }
    found
}

/// Whether what ends here is `pub`, `pub(crate)` or `pub(super)`.
fn is_visible(before: &[Token<'_>]) -> bool {
    let words: Vec<&str> = before.iter().rev().take(4).map(|token| token.text).collect();
    matches!(words[..], ["pub", ..] | [")", "crate" | "super", "(", "pub"])
}

/// The section `# Layout` at the head of a module names each of its modules, as `x`.
pub(super) fn complaints(path: &str, text: &str, source: &Source) -> Vec<String> {
    let lines = text.lines().skip_while(|line| line.starts_with("#![doc"));
    let head = lines.take_while(|line| line.starts_with("//!"));
    let section: Vec<&str> = head.skip_while(|line| *line != "//! # Layout").collect();
    if section.is_empty() {
        return Vec::new();
    }
    let section = section.join("\n");
    let modules = source.production_tokens().filter(|word| word.after("mod"));
    let is_named = |name: &str| ['`', '/'].iter().any(|end| section.contains(&format!("`{name}{end}")));
    let unnamed = modules.filter(|word| !is_named(word.text));
    unnamed
        .map(|word| format!("{path}:{}: `{}` is missing in the section Layout", word.line, word.text))
        .collect()
}

/// What several rooms or folders of tests share is in `src/testing` and `tests/it/support`: no test imports from the tests
/// of another room, and no file is taken in by a path of its own but there.
fn fixtures(path: &str, source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let tokens: Vec<_> = source.tokens().collect();
    let folder = |path: &str| {
        path.strip_prefix("tests/it/")
            .map(|rest| rest.split(['/', '.']).next().unwrap_or(rest).to_owned())
    };
    let own = folder(path)
        .or_else(|| room_of(path).map(str::to_owned))
        .unwrap_or_default();
    for (at, token) in tokens.iter().enumerate() {
        let line = token.line;
        let next = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
        if token.text == "#" && next(2) == "path" && path.starts_with("src/") && !path.starts_with("src/testing/") {
            complaints.push(format!("{path}:{line}: only src/testing takes a file in by its path"));
        }
        if token.text != "crate" || next(1) != "::" {
            continue;
        }
        let segments: BTreeSet<&str> = (0..)
            .map(|n| (next(2 * n + 1), next(2 * n + 2)))
            .take_while(|(colons, _)| *colons == "::")
            .map(|(_, segment)| segment)
            .collect();
        let room = next(2);
        let foreign = if path.starts_with("tests/it/") {
            room != "support" && room != own
        } else {
            segments.contains("tests") && room != own
        };
        if foreign {
            complaints.push(format!(
                "{path}:{line}: a fixture of `{room}`; what is shared belongs to src/testing or tests/it/support"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_its_folder_is_seen() {
        let paths = [
            "src/lock.rs",
            "src/lock/key.rs",
            "src/locks/mod.rs",
            "src/locks/key.rs",
            "src/lockstep.rs",
        ];
        assert_eq!(pairs(paths.into_iter()), ["src/lock.rs: make it src/lock/mod.rs"]);
    }

    #[test]
    fn a_type_of_two_rooms_is_seen() {
        let files = |files: &[(&str, &str)]| {
            let files = files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), Source::read(text)));
            files.collect::<BTreeMap<_, _>>()
        };
        let two = files(&[
            ("src/lock/mod.rs", "pub struct Key;"),
            ("src/store/key.rs", "pub(crate) type Key = u64;"),
        ]);
        assert_eq!(
            names(&two, &[]),
            ["type `Key` is defined in src/lock/mod.rs:1 and src/store/key.rs:1"]
        );
        assert_eq!(names(&two, &["Key"]), [""; 0]);
        let of_runtime = files(&[
            ("src/runtime/engine/mod.rs", "pub(super) struct Key;"),
            ("src/runtime/worker/key.rs", "pub(crate) struct Key; struct Own;"),
            ("src/runtime/worker/mod.rs", "pub(super) struct Key; struct Own;"),
        ]);
        assert_eq!(names(&of_runtime, &[]).len(), 1);
        let one = files(&[
            (
                "src/lock/mod.rs",
                "pub struct Key; pub struct Guard; fn f() { pub struct Row; } trait T { type Item; }",
            ),
            (
                "src/lock/key.rs",
                "pub enum Key {} pub struct Row; impl T for Key { type Item = u8; }",
            ),
            ("src/store/tests/a.rs", "pub struct Key;"),
            (
                "src/store/mod.rs",
                "#[cfg(test)]\npub struct Key;\nstruct Guard; pub(super) struct Lock; fn f() { struct Row; } impl T for () { type Item = u8; }",
            ),
        ]);
        assert_eq!(names(&one, &[]), [""; 0]);
        assert_eq!(
            names(&one, &["Key"]).len(),
            1,
            "what is not shared any more goes off the list"
        );
    }

    #[test]
    fn a_module_without_its_place_in_the_layout_is_seen() {
        let seen = |text: &str| complaints("src/a/mod.rs", text, &Source::read(text)).len();
        let text = "//! A.\n//!\n//! # Layout\n//!\n//! - `b`: this.\n\nmod b;\npub mod c;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(seen(text), 1);
        assert_eq!(seen(&text.replace("`b`: this.", "`b`, `c`: this.")), 0);
        assert_eq!(seen(&text.replace("# Layout", "# Order")), 0);
    }

    #[test]
    fn a_fixture_of_another_room_is_seen() {
        let seen = |path: &str, code: &str| fixtures(path, &Source::read(code)).len();
        for (path, code) in [
            (
                "src/lock/tests/session.rs",
                "use crate::store::tests::fixture::Fixture;",
            ),
            (
                "src/lock/mod.rs",
                "#[cfg(test)]\nmod tests { fn f() { crate::store::commit::tests::f(); } }",
            ),
            (
                "src/lib.rs",
                "#[cfg(test)]\n#[path = \"../tests/it/support/database.rs\"]\nmod database;",
            ),
            ("src/testing/mod.rs", "use crate::lock::tests::world::World;"),
            ("tests/it/timers/kill.rs", "use crate::durability::kill::Load;"),
        ] {
            assert_eq!(seen(path, code), 1, "{path}");
        }
        for (path, code) in [
            (
                "src/lock/tests/session.rs",
                "use crate::testing::store::Fixture; use crate::lock::tests::world::World;",
            ),
            (
                "src/testing/mod.rs",
                "#[path = \"../../tests/it/support/database.rs\"]\nmod database;",
            ),
            (
                "tests/it/timers/kill.rs",
                "use crate::support::Http; use crate::timers::count; use super::count;",
            ),
            ("tests/it/docs.rs", "// crate::api::f\nlet a = \"crate::api::f\";"),
        ] {
            assert_eq!(seen(path, code), 0, "{path}");
        }
    }
}

//! The rules of the structure, read from the source tree: who may know whom, where SQL lives, how big a file gets.
//!
//! Each rule is a function over one file, so that its own test can show it a bad one. What a rule says is meant to be
//! enough to mend it; a rule that turns out wrong is changed here, in the open.

mod circles;
mod dependencies;
mod imports;
mod layout;
mod modules;
mod runtime;
mod source;

use std::fs;
use std::path::Path;

use source::Source;

/// A file longer than this wants to be two.
const LONGEST: usize = 600;

/// Names that say nothing about what is inside, and so attract everything.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

/// The rooms that may know the HTTP server.
const HTTP_ROOMS: [&str; 6] = [
    "src/api",
    "src/endpoint",
    "src/http",
    "src/auth",
    "src/cli",
    "src/harness",
];

/// The rooms in which SQL may stand in Rust.
const SQL_ROOMS: [&str; 2] = ["src/store", "src/db"];

/// The rooms that may take a query in from `sql/`.
const QUERY_ROOMS: [&str; 4] = ["src/store", "src/db", "src/bench", "src/lock/provider/postgres"];

/// The files with `unsafe` code: what QuickJS has no function for.
const UNSAFE_FILES: [&str; 1] = ["src/expression/javascript/heap_allocator.rs"];

/// What each named query says about itself, in lines of comment before its text.
const QUERY_HEADER: [&str; 4] = ["-- purpose:", "-- caller:", "-- index:", "-- locks:"];

#[test]
fn the_structure_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut complaints = Vec::new();
    let mut files = 0;
    for top in ["src", "crates", "sql", "tests", "benches", "examples"] {
        each_file(root, &root.join(top), &mut |path, text| {
            files += 1;
            complaints.extend(check(path, text));
        });
    }
    assert!(files > 10, "the source tree was not found");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// All rules over one file; `path` is relative to the root of the repository, with `/`.
fn check(path: &str, text: &str) -> Vec<String> {
    let mut complaints = size(path, text);
    complaints.extend(name(path));
    if path.starts_with("sql/queries/") && path.ends_with(".sql") {
        complaints.extend(query_header(path, text));
    }
    if path.ends_with(".rs") {
        let source = Source::read(text);
        complaints.extend(unsafe_code(path, &source));
        complaints.extend(module_names(path, &source));
        complaints.extend(layout::complaints(path, text, &source));
        if path.starts_with("crates/") && !is_test(path) {
            complaints.extend(axum(path, &source));
            complaints.extend(sql(path, &source));
        }
        if path.starts_with("src/") && !is_test(path) {
            complaints.extend(imports::check(path, &source));
            complaints.extend(axum(path, &source));
            complaints.extend(sql(path, &source));
        }
    }
    complaints
}

/// A file of unit tests, declared as `#[cfg(test)] mod tests;`.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.starts_with("src/testing/")
}

fn within(path: &str, rooms: &[&str]) -> bool {
    let in_room = |room: &&str| {
        path.strip_prefix(*room)
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    };
    rooms.iter().any(in_room)
}

fn size(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    // A migration is applied as one file, and is never changed afterwards.
    let counts = path.ends_with(".rs") || (path.ends_with(".sql") && !path.starts_with("sql/migrations/"));
    if counts && lines > LONGEST {
        return vec![format!("{path}: {lines} lines; past {LONGEST} a file wants to be two")];
    }
    Vec::new()
}

fn name(path: &str) -> Vec<String> {
    let parts = path
        .split('/')
        .map(|part| part.split_once('.').map_or(part, |(stem, _)| stem));
    let empty = parts.filter(|part| EMPTY_NAMES.contains(part));
    empty
        .map(|part| format!("{path}: `{part}` says nothing; name it after what it holds"))
        .collect()
}

fn module_names(path: &str, source: &Source) -> Vec<String> {
    let names = source
        .tokens()
        .filter(|word| word.after("mod") && EMPTY_NAMES.contains(&word.text));
    names
        .map(|word| format!("{path}:{}: module `{}` says nothing", word.line, word.text))
        .collect()
}

fn unsafe_code(path: &str, source: &Source) -> Vec<String> {
    if UNSAFE_FILES.contains(&path) {
        return Vec::new();
    }
    let found = source.tokens().filter(|word| word.text == "unsafe");
    found.map(|word| format!("{path}:{}: unsafe code", word.line)).collect()
}

fn axum(path: &str, source: &Source) -> Vec<String> {
    if within(path, &HTTP_ROOMS) {
        return Vec::new();
    }
    let found = source.production_tokens().filter(|word| word.text == "axum");
    found
        .map(|word| format!("{path}:{}: axum outside {}", word.line, HTTP_ROOMS.join(", ")))
        .collect()
}

fn sql(path: &str, source: &Source) -> Vec<String> {
    if within(path, &SQL_ROOMS) {
        return Vec::new();
    }
    // A lock session has its own settings and channel.
    let of_session = |text: &str| !within(path, &QUERY_ROOMS) && is_session_sql(text);
    let found = source
        .strings
        .iter()
        .filter(|string| !string.in_test && (is_sql(&string.text) || of_session(&string.text)));
    let place = "SQL lives in sql/, src/store and src/db (a query in a file of its own comes in by include_str!)";
    let mut complaints: Vec<String> = found.map(|string| format!("{path}:{}: {place}", string.line)).collect();
    complaints.extend(queries(path, source));
    complaints
}

/// A query that comes in from a file.
fn queries(path: &str, source: &Source) -> Vec<String> {
    if within(path, &QUERY_ROOMS) {
        return Vec::new();
    }
    let files = source.strings.iter();
    let found = files.filter(|string| !string.in_test && string.text.ends_with(".sql"));
    let rooms = QUERY_ROOMS.join(", ");
    found
        .map(|string| format!("{path}:{}: {} outside {rooms}", string.line, string.text))
        .collect()
}

/// Whether a string literal is a statement. Capital verbs count anywhere, because that is how SQL is written;
/// small ones only where the whole text begins like a statement, because `select` is also a word.
fn is_sql(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let shouted = words.windows(2).enumerate().any(|(at, pair)| {
        let after = |word: &str| words[at..].iter().skip(1).any(|next| next == &word);
        match pair {
            ["SELECT", _] => at == 0 || after("FROM"),
            ["INSERT", "INTO"] | ["DELETE", "FROM"] | ["TRUNCATE", "TABLE"] => true,
            ["UPDATE", _] => after("SET"),
            ["CREATE" | "ALTER" | "DROP", what] => [
                "TABLE", "INDEX", "UNIQUE", "SCHEMA", "DATABASE", "SEQUENCE", "FUNCTION", "UNLOGGED", "TYPE",
            ]
            .contains(what),
            _ => false,
        }
    });
    let small: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let has = |word: &str| small.iter().any(|other| other == word);
    let begins = match small.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["select", next, ..] => {
            has("from") && (has("where") || has("limit") || next.contains(['*', ',', '(']))
                || next.contains(['(', '$'])
                || next.parse::<i64>().is_ok()
        }
        ["with", _, "as", ..] => has("select"),
        ["insert", "into", ..] => has("values") || has("select"),
        ["delete", "from", _, rest @ ..] => rest.is_empty() || has("where") || has("using"),
        ["update", _, "set", ..] => true,
        ["create" | "alter" | "drop", "table" | "index" | "schema", ..] => true,
        _ => false,
    };
    shouted || begins
}

/// Whether a string literal is a statement that sets a session up, or VACUUM.
fn is_session_sql(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let small: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let sets = match small.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["set", "local" | "session", _, then, ..] | ["set", _, then, ..] => ["=", "to"].contains(then),
        ["listen" | "unlisten" | "vacuum", _] => true,
        _ => false,
    };
    sets && !small
        .get(1)
        .is_some_and(|word| ["the", "an", "it"].contains(&word.as_str()))
        || matches!(words[..], ["LISTEN" | "UNLISTEN" | "VACUUM", _, ..])
}

fn query_header(path: &str, text: &str) -> Vec<String> {
    let header: Vec<&str> = text
        .lines()
        .take_while(|line| line.starts_with("--") || line.trim().is_empty())
        .collect();
    let says = |key: &str| {
        let mut lines = header.iter();
        lines.any(|line| line.strip_prefix(key).is_some_and(|rest| !rest.trim().is_empty()))
    };
    let missing = QUERY_HEADER.iter().filter(|key| !says(key));
    missing
        .map(|key| format!("{path}: its header lacks a line `{key} …`"))
        .collect()
}

fn each_file(root: &Path, folder: &Path, visit: &mut impl FnMut(&str, &str)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            // What the peers of benches/ are built and installed into is not ours.
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                each_file(root, &path, visit);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "sql")
        {
            let relative = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            visit(&relative, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn a_long_file_is_seen() {
    assert_eq!(size("src/a.rs", &"\n".repeat(600)), [""; 0]);
    assert_eq!(size("src/a.rs", &"\n".repeat(601)).len(), 1);
    assert_eq!(size("sql/queries/a.sql", &"\n".repeat(601)).len(), 1);
}

#[test]
fn an_empty_name_is_seen() {
    assert_eq!(name("src/store/utils.rs").len(), 1);
    assert_eq!(name("tests/common/mod.rs").len(), 1);
    assert!(name("src/store/commit.rs").is_empty());
    assert_eq!(module_names("src/a.rs", &Source::read("mod helpers { }")).len(), 1);
    assert!(module_names("src/a.rs", &Source::read("// mod helpers\nlet helpers = 1;")).is_empty());
}

#[test]
fn unsafe_code_is_seen_but_not_the_lint_against_it() {
    assert_eq!(
        unsafe_code("src/a.rs", &Source::read("fn f() {\n unsafe { g() } }")),
        ["src/a.rs:2: unsafe code"]
    );
    assert!(unsafe_code("src/a.rs", &Source::read("#![deny(unsafe_code)] // unsafe")).is_empty());
    assert!(unsafe_code(UNSAFE_FILES[0], &Source::read("unsafe { g() }")).is_empty());
}

#[test]
fn axum_outside_its_rooms_is_seen() {
    let source = Source::read("use axum::Router;");
    assert_eq!(axum("src/runtime/start.rs", &source).len(), 1);
    assert_eq!(axum("src/apiary/mod.rs", &source).len(), 1);
    for path in ["src/api/mod.rs", "src/http.rs", "src/auth/key.rs", "src/cli/serve.rs"] {
        assert!(axum(path, &source).is_empty());
    }
    assert!(
        axum(
            "src/runtime/start.rs",
            &Source::read("// as axum does\nlet a = \"axum\";")
        )
        .is_empty()
    );
}

#[test]
fn sql_outside_its_rooms_is_seen() {
    let statements = [
        "SELECT 1",
        "select id from work where id = $1",
        "select pg_notify($1, $2)",
        "\n    SELECT a\n      FROM b",
        "WITH x AS (SELECT 1 FROM y) UPDATE z SET a = 1",
        "with x as (select 1) select 2",
        "INSERT INTO work VALUES (1)",
        "insert into work values (1)",
        "UPDATE work SET a = 1",
        "update work set a = 1",
        "DELETE FROM work",
        "delete from work where id = 1",
        "CREATE TABLE a (b int)",
        "create table a (b int)",
        "DROP SCHEMA a",
        "SET statement_timeout = 1",
        "LISTEN a",
        "VACUUM work",
        "set local work_mem = '1MB'",
        "listen a",
    ];
    for statement in statements {
        let source = Source::read(&format!("let q = r#\"{statement}\"#;"));
        assert_eq!(sql("src/runtime/start.rs", &source).len(), 1, "{statement}");
        assert!(sql("src/store/start.rs", &source).is_empty(), "{statement}");
        assert!(sql("src/db/pool.rs", &source).is_empty(), "{statement}");
    }
    let words = [
        "select a version from the list",
        "cannot delete from here: no such thing",
        "update the definition",
        "UPDATE",
        "an instance could not be created",
        "with care as always",
        "set the time to another one",
        "listen on this address",
    ];
    for text in words {
        let source = Source::read(&format!("let q = \"{text}\"; // SELECT 1"));
        assert!(sql("src/runtime/start.rs", &source).is_empty(), "{text}");
    }
    let test = Source::read("#[cfg(test)]\nmod tests {\n fn f() { q(\"SELECT 1\"); } }\nfn g() { q(\"SELECT 2\"); }");
    assert_eq!(
        sql("src/lock/provider/postgres/mod.rs", &test).len(),
        1,
        "unit tests may, what follows them may not"
    );
}

#[test]
fn a_query_outside_its_rooms_is_seen() {
    let source = Source::read("const A: &str = include_str!(\"../../sql/queries/node/a.sql\");");
    for path in [
        "src/cluster/mod.rs",
        "src/lock/local.rs",
        "src/runtime/mod.rs",
        "src/cli/serve.rs",
    ] {
        assert_eq!(sql(path, &source).len(), 1, "{path}");
    }
    for path in [
        "src/store/node.rs",
        "src/lock/provider/postgres/session.rs",
        "src/bench/queries.rs",
    ] {
        assert_eq!(sql(path, &source), [""; 0], "{path}");
    }
}

#[test]
fn a_query_without_its_header_is_seen() {
    let good = "-- purpose: takes work\n-- caller: store::claim\n-- index: work_ready\n-- locks: the rows\nSELECT 1;\n";
    assert!(check("sql/queries/claim.sql", good).is_empty());
    assert_eq!(check("sql/queries/claim.sql", "SELECT 1;").len(), 4);
    assert_eq!(check("sql/queries/claim.sql", &good.replace("work_ready", "")).len(), 1);
    assert_eq!(
        check("sql/queries/claim.sql", &format!("SELECT 0;\n{good}")).len(),
        4,
        "the header comes first"
    );
    assert!(check("sql/migrations/V1__schema.sql", "CREATE TABLE a ();").is_empty());
}

//! Rules for all SQL: the queries, the schema, and the statements that the store composes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::code;
use crate::testing::store::Fixture;

/// The columns that hold a code, each with its enums.
const COLUMNS: [(&str, &[&str]); 10] = [
    ("kind", &["WorkKind", "DeadLetterKind"]),
    ("status", &["StatusCode"]),
    ("sub_status", &["SubStatusCode"]),
    ("activation_strategy", &["ActivationStrategy"]),
    ("strategy", &["ActivationHolder", "ActivationStrategy"]),
    ("seeding", &["Seeding"]),
    ("overlap", &["Overlap"]),
    ("mode", &["PauseMode"]),
    ("outcome", &["AnswerOutcome", "AuditOutcome"]),
    ("action", &["AuditAction"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// All files under `folder` that end in `ending`, with their text; paths are relative to the repository.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The text of a query from one mark to another, without its layout.
fn part(query: &str, from: &str, to: &str) -> String {
    let text = fs::read_to_string(root().join("sql/queries").join(query)).unwrap();
    let start = text.find(from).unwrap_or_else(|| panic!("{query}: {from}"));
    let length = text[start..].find(to).unwrap_or_else(|| panic!("{query}: {to}"));
    let words: Vec<&str> = text[start..start + length + to.len()].split_whitespace().collect();
    words.join(" ")
}

#[test]
fn statements_on_dead_letters_select_the_same() {
    let filter = |query| part(query, "WHERE d.tenant_id = $1", "d.created_at < $9)");
    assert_eq!(filter("dead_letter/list.sql"), filter("dead_letter/pick.sql"));
    let is_plain = |query| part(query, "d.kind <> 6 /* inbox */ AND (", "IS NULL))");
    assert_eq!(
        is_plain("dead_letter/pick.sql"),
        is_plain("dead_letter/replay_many.sql")
    );
    let row = |query| part(query, "SELECT l.tenant_id, nextval('work_id_seq')", "LIMIT 1))");
    assert_eq!(row("dead_letter/replay.sql"), row("dead_letter/replay_many.sql"));
}

#[test]
fn statements_that_give_rows_up_treat_their_instances_the_same() {
    for (from, to) in [
        ("), freed AS (", "), dead_letters AS ("),
        ("INSERT INTO dead_letter (", "accepted_at, replays)"),
    ] {
        let of = |query| part(query, from, to);
        assert_eq!(of("node/remove_release.sql"), of("work/release.sql"));
    }
}

fn known(enums: &[&str], number: i16, word: &str) -> bool {
    let all = code::ALL.iter().filter(|(name, _)| enums.contains(name));
    all.flat_map(|(_, codes)| *codes).any(|code| *code == (number, word))
}

/// The number that a text begins with, and what follows it; a cast belongs to the number.
fn number(text: &str) -> Option<(i16, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let rest = rest.strip_prefix("::smallint").unwrap_or(rest);
    let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
    number.parse().ok().filter(|_| ends).map(|number| (number, rest))
}

/// The name that follows a literal.
fn word(rest: &str) -> Option<&str> {
    rest.strip_prefix(" /* ")?.split_once(" */").map(|(word, _)| word)
}

/// The literals that a column is compared with, given, or matched against, as texts that begin with them.
fn literals<'a>(line: &'a str, column: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(column) {
        let before = line[..at].chars().next_back();
        let mut rest = &line[at + column.len()..];
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '\'') {
            continue;
        }
        let operator = [" = ", " <> ", " >= ", " <= ", " > ", " < "]
            .iter()
            .find_map(|o| rest.strip_prefix(o));
        if let Some(value) = operator {
            found.push(value);
        } else if let Some(list) = rest.strip_prefix(" IN (") {
            let end = list.find(')').unwrap_or(list.len());
            found.extend(list[..end].split(", "));
        } else if line[..at].contains("CASE ") && rest.starts_with(" WHEN ") {
            while let Some(at) = rest.find(" WHEN ") {
                rest = &rest[at + 6..];
                found.push(rest);
            }
        }
    }
    found
}

/// Without comments of whole lines and at their ends.
fn statements(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(no, line)| {
        let line = line.split_once("-- ").map_or(line, |(code, _)| code);
        (no + 1, line)
    })
}

#[test]
fn each_number_of_a_kind_or_state_carries_its_name() {
    let mut complaints = Vec::new();
    let mut named = 0;
    for (path, text) in files("sql", ".sql") {
        for (no, line) in statements(&text) {
            for (column, enums) in COLUMNS {
                for literal in literals(line, column) {
                    let Some((value, rest)) = number(literal) else { continue };
                    match word(rest) {
                        Some(word) if known(enums, value, word) => named += 1,
                        Some(word) => complaints.push(format!("{path}:{no}: {column} has no {value} /* {word} */")),
                        None => complaints.push(format!("{path}:{no}: {column} is compared with a bare {value}")),
                    }
                }
            }
            // Also where no column is near: in a list of values, in a cast.
            for (at, _) in line.match_indices(" /* ") {
                let digits = line[..at].trim_end_matches("::smallint");
                let start = digits.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let (Ok(value), Some(word)) = (digits[start..].parse(), word(&line[at..])) else {
                    continue;
                };
                let all: Vec<&str> = code::ALL.iter().map(|(name, _)| *name).collect();
                if !known(&all, value, word) {
                    complaints.push(format!("{path}:{no}: no enum has {value} /* {word} */"));
                }
            }
        }
        for bare in inserted_kinds(&text) {
            complaints.push(format!("{path}: a bare {bare} is inserted as kind"));
        }
    }
    assert!(named > 100, "only {named} literals were found");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Bare numbers that `INSERT INTO work` and `INSERT INTO dead_letter` give for `kind`.
fn inserted_kinds(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["INSERT INTO work (", "INSERT INTO dead_letter ("] {
        for (at, _) in text.match_indices(table) {
            let Some((columns, rest)) = text[at + table.len()..].split_once(')') else {
                continue;
            };
            let Some(place) = columns.split(',').position(|column| column.trim() == "kind") else {
                continue;
            };
            let begin = ["SELECT ", "VALUES ("]
                .iter()
                .filter_map(|word| Some(rest.find(word)? + word.len()))
                .min();
            let values = split_top(&rest[begin.unwrap_or(rest.len())..]);
            found.extend(
                values
                    .into_iter()
                    .nth(place)
                    .filter(|value| value.parse::<i16>().is_ok()),
            );
        }
    }
    found
}

/// The parts between commas that are in no parentheses.
fn split_top(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0_i32, vec![String::new()]);
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match c {
            _ if depth < 0 => break,
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// A literal without a name, or with a wrong one, is found wherever it is written.
#[test]
fn a_bare_number_is_found() {
    for (line, column, value) in [
        ("w.kind = 0 AND w.x", "kind", "0 AND w.x"),
        ("d.kind IN (1, 3)", "kind", "1"),
        ("CASE l.kind WHEN 5 THEN 1 END", "kind", "5 THEN 1 END"),
        ("UPDATE work SET kind = 4", "kind", "4"),
        ("i.sub_status >= 3)", "sub_status", "3)"),
    ] {
        assert_eq!(literals(line, column)[0], value, "{line}");
        let (_, rest) = number(literals(line, column)[0]).unwrap();
        assert_eq!(word(rest), None, "{line}");
    }
    assert!(literals("i.sub_status = 3", "status").is_empty(), "another column");
    assert!(!known(&["WorkKind"], 1, "start"));
    let insert = "INSERT INTO work (tenant_id, kind) SELECT f(a, b), 2, c";
    assert_eq!(inserted_kinds(insert), ["2"]);
    assert!(inserted_kinds(&insert.replace("2,", "2 /* stimulus */,")).is_empty());
}

/// The oldest server that is supported takes each statement. Those of several forms are run by the tests of their modules.
#[tokio::test]
async fn the_server_prepares_each_statement() {
    let fixture = Fixture::new().await;
    let session = fixture.session().await;
    let version = "SELECT current_setting('server_version_num')::bigint";
    // The benchmarks read this view where it exists.
    let has_flushes = fixture.count(version).await >= 180_000;
    let (mut prepared, mut complaints) = (0, Vec::new());
    for (path, text) in files("sql/queries", ".sql") {
        if text.contains("--[") || text.contains("DO $$") || (text.contains("pg_stat_io") && !has_flushes) {
            continue;
        }
        match session.client.prepare(&text).await {
            Ok(_) => prepared += 1,
            Err(error) => complaints.push(format!("{path}: {error:?}")),
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    assert!(prepared > 150, "{prepared}");
}

/// `-- caller:` names a module of the program, or a query that is part of it.
#[test]
fn each_query_names_a_caller_that_includes_it() {
    let sources = files("src", ".rs");
    let mut complaints = Vec::new();
    for (path, text) in files("sql/queries", ".sql") {
        let caller = text
            .lines()
            .find_map(|line| line.strip_prefix("-- caller:"))
            .unwrap_or_default();
        let name = path.trim_start_matches("sql/queries/");
        for module in caller
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .filter(|word| word.contains("::"))
        {
            let file = format!("src/{}", module.replace("::", "/"));
            let candidates = [format!("{file}.rs"), format!("{file}/mod.rs")];
            let source = sources.iter().find(|(path, _)| candidates.contains(path));
            match source {
                None => complaints.push(format!("{path}: there is no module {module}")),
                Some((_, text)) if !text.contains(&format!("queries/{name}\"")) => {
                    complaints.push(format!("{path}: {module} does not include it"));
                }
                Some(_) => {}
            }
        }
        if !caller.contains("::") {
            complaints.push(format!("{path}: names no module as its caller"));
        }
        let used = sources
            .iter()
            .any(|(path, text)| !path.contains("/tests") && text.contains(&format!("queries/{name}\"")));
        if !used {
            complaints.push(format!("{path}: no module includes it"));
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Names are looked up once for each result: `db::columns`.
#[test]
fn no_row_is_read_by_position() {
    let mut complaints = Vec::new();
    for (path, text) in files("src", ".rs") {
        let rooms = [
            "src/store/",
            "src/db/",
            "src/lock/",
            "src/cluster/",
            "src/signal/",
            "src/wake/",
            "src/bench/",
        ];
        if path.contains("/tests") || !rooms.iter().any(|room| path.starts_with(room)) {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (no, line) in text.lines().enumerate() {
            let reads = line.match_indices("get").any(|(at, _)| {
                let rest = &line[at + 3..];
                let rest = if rest.starts_with("::<") {
                    rest.split_once(">(").map(|(_, rest)| rest)
                } else {
                    rest.strip_prefix('(')
                };
                rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) || rest.starts_with("from + "))
            });
            if reads && (line.contains("row") || line.contains(".await") || line.trim().starts_with(".get")) {
                complaints.push(format!("{path}:{}: {}", no + 1, line.trim()));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// In every database ids have one order, by which rows are locked, also those that come as arguments.
#[tokio::test]
async fn ids_and_keys_have_the_collation_c() {
    let fixture = Fixture::new().await;
    let other = "SELECT c.relname || '.' || a.attname AS name
                 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                 WHERE c.relnamespace = 'mainspring'::regnamespace AND c.relkind IN ('r', 'p', 'c') AND a.attnum > 0
                   AND a.atttypid = 'text'::regtype AND a.attcollation <> '\"C\"'::regcollation
                   AND (a.attname ~ '(^|_)id$' OR a.attname IN ('key', 'route')) AND a.attname <> 'correlation_id'";
    let rows = fixture.admin.client.query(other, &[]).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get("name")).collect();
    assert!(names.is_empty(), "{names:?}");
    let ids = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
               WHERE c.relnamespace = 'mainspring'::regnamespace AND a.attcollation = '\"C\"'::regcollation";
    assert!(fixture.count(ids).await > 100);
}

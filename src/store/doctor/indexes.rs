//! The indexes of the schema, as its migrations make them: a missing one makes each claim or commit read a whole table.

use tokio_postgres::Client;

use super::{DoctorFinding, FindingLevel, unexamined};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, columns, migrate, within};

const INDEXES: &str = include_str!("../../../sql/queries/doctor/indexes.sql");

const CHECK: &str = "indexes";

/// The indexes that are missing or invalid.
pub(super) async fn missing(client: &Client) -> Vec<DoctorFinding> {
    find(client)
        .await
        .unwrap_or_else(|error| vec![unexamined(CHECK, &error)])
}

async fn find(client: &Client) -> Result<Vec<DoctorFinding>> {
    let text = migrate::text();
    let (names, statements): (Vec<&str>, Vec<String>) = made(&text).into_iter().unzip();
    let rows = within(ANSWER_TIMEOUT, client.query(INDEXES, &[&names, &statements])).await?;
    let at = columns!(rows; what, remedy)?;
    let finding = |row: &tokio_postgres::Row| DoctorFinding {
        check: CHECK,
        level: FindingLevel::Problem,
        what: row.get(at.what),
        means: "Statements that find their rows by it read the whole table, and what it keeps unique may come twice.",
        since: None,
        remedy: row
            .get::<_, Option<String>>(at.remedy)
            .unwrap_or_else(|| "compare the table with that of a new schema, and restore the key".to_owned()),
        fix: None,
    };
    Ok(rows.iter().map(finding).collect())
}

/// The names of the indexes that a text of SQL makes, with statements that make them while nodes work.
fn made(text: &str) -> Vec<(&str, String)> {
    let code = |line: &&str| !line.trim_start().starts_with("--");
    let mut found = Vec::new();
    let mut lines = text.lines().filter(code);
    while let Some(line) = lines.next() {
        let Some((head, rest)) = line.split_once("INDEX ").filter(|(head, _)| head.starts_with("CREATE")) else {
            continue;
        };
        let Some(name) = rest.split(' ').next() else { continue };
        let mut statement = format!("{head}INDEX CONCURRENTLY {}", rest.trim_end());
        while !statement.ends_with(';') {
            let Some(next) = lines.next() else { break };
            statement.push(' ');
            statement.push_str(next.trim());
        }
        found.push((name, without_notes(statement.trim_end_matches(';'))));
    }
    found
}

/// Without comments between `/*` and `*/`.
fn without_notes(statement: &str) -> String {
    let mut parts = statement.split(" /*");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.filter_map(|part| part.split_once("*/"));
    rest.fold(first, |text, (_, after)| text + after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_of_a_migration_is_found_with_its_statement() {
        let text = "-- CREATE INDEX no ON no;\nCREATE INDEX a ON t (x);\nCREATE UNIQUE INDEX b ON t (y)\n    \
                    WHERE kind = 0 /* start */ AND z;\n";
        assert_eq!(
            made(text),
            [
                ("a", "CREATE INDEX CONCURRENTLY a ON t (x)".to_owned()),
                (
                    "b",
                    "CREATE UNIQUE INDEX CONCURRENTLY b ON t (y) WHERE kind = 0 AND z".to_owned()
                )
            ]
        );
        assert!(made(&migrate::text()).len() > 50);
    }
}

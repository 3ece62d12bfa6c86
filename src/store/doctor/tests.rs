//! What no test can plant on a server that others use: the probes find it by another number in their text.

use std::time::Duration;

use super::{DoctorFinding, FindingLevel, Given, Probe, ProbeFix, cluster, server, tables, work};
use crate::db::SchemaName;
use crate::testing::store::Fixture;

async fn with_text(fixture: &Fixture, name: &str, from: &str, to: &str) -> Vec<DoctorFinding> {
    let probes = [server::PROBES, tables::PROBES, cluster::PROBES, work::PROBES];
    let probe = probes.into_iter().flatten().find(|probe| probe.name == name).unwrap();
    assert!(probe.sql.contains(from), "{name} has no {from}");
    let sql = probe.sql.replace(from, to);
    let changed = Probe {
        sql: Box::leak(sql.into_boxed_str()),
        ..*probe
    };
    let schema = SchemaName::parse("mainspring").unwrap();
    let found = changed.run(&fixture.admin.client, &schema, Duration::ZERO).await;
    found.unwrap()
}

#[tokio::test]
async fn a_server_out_of_support_is_found_from_the_day_after_its_last() {
    let fixture = Fixture::new().await;
    let version = "current_setting('server_version_num')::integer / 10000";
    for (major, at, is_found) in [
        (14, "2026-11-12", false),
        (14, "2026-11-13", true),
        (17, "2029-01-01", false),
        (18, "2030-11-15", true),
        (19, "2040-01-01", false),
    ] {
        let text = format!("{major} AND timestamptz '{at}' = timestamptz '{at}'");
        let with_version = with_text(
            &fixture,
            "server-version",
            &format!("{version} AND v.ends < now()"),
            &format!("{text} AND v.ends < timestamptz '{at}'"),
        )
        .await;
        assert_eq!(!with_version.is_empty(), is_found, "{major} at {at}: {with_version:?}");
    }
}

#[tokio::test]
async fn transaction_ids_that_run_out_are_found() {
    let fixture = Fixture::new().await;
    assert_eq!(with_text(&fixture, "wraparound", "1000000000", "2100000000").await, []);
    let found = with_text(&fixture, "wraparound", "> 1000000000", "> -1").await;
    assert!(found[0].what.contains("has not frozen"), "{found:?}");
    assert_eq!(found[0].level, FindingLevel::Problem);
}

#[tokio::test]
async fn a_full_queue_of_notifications_is_found() {
    let fixture = Fixture::new().await;
    let found = with_text(&fixture, "notify-queue", "> 0.25", ">= 0").await;
    assert!(found[0].what.contains("percent full"), "{found:?}");
}

#[tokio::test]
async fn keep_alives_that_the_machine_does_not_take_are_found() {
    let fixture = Fixture::new().await;
    assert_eq!(with_text(&fixture, "keep-alives", "NULL::text", "NULL::text").await, []);
    let found = with_text(&fixture, "keep-alives", "NOT IN", "IN").await;
    assert!(found[0].what.contains("not after 3 s"), "{found:?}");
}

/// As the rows of these tables are counted in millions.
#[tokio::test]
async fn probes_find_unfinished_rows_by_an_index() {
    let fixture = Fixture::new().await;
    fixture.execute(super::OF_PROBES).await;
    let mut bad = Vec::new();
    for probe in work::PROBES {
        let arguments = if probe.given.is_empty() { "" } else { "(60000000)" };
        fixture.execute(&format!("PREPARE of_probe AS {}", probe.sql)).await;
        let explain = format!("EXPLAIN EXECUTE of_probe{arguments}");
        let plan = fixture.admin.client.simple_query(&explain).await.unwrap();
        fixture.execute("DEALLOCATE of_probe").await;
        let lines = plan.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get("QUERY PLAN"),
            _ => None,
        });
        let plan = lines.collect::<Vec<_>>().join("\n");
        for table in ["instance", "bookmark", "timer", "work", "dead_letter"] {
            if plan.contains(&format!("Seq Scan on {table} ")) {
                bad.push(format!("{} scans {table}:\n{plan}", probe.name));
            }
        }
        // A time that changes within the statement would be compared with each row.
        let due = ["late-timers", "late-work"].contains(&probe.name);
        if due && !plan.contains("Index Cond: (available_at < ") {
            bad.push(format!("{} walks over its index:\n{plan}", probe.name));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// A probe that fails is a finding, and leaves the others.
#[tokio::test]
async fn a_probe_that_fails_is_a_finding() {
    let fixture = Fixture::new().await;
    fixture.execute("DROP TABLE webhook_sink CASCADE").await;
    let schema = SchemaName::parse("mainspring").unwrap();
    let found = super::examine(&fixture.admin.client, &schema, Duration::ZERO).await;
    let of = |check: &str| found.iter().filter(|finding| finding.check == check).count();
    assert_eq!(of("webhook-sinks"), 1, "{found:?}");
    assert_eq!(of("missing-roles"), 2, "{found:?}");
}

/// Made from the probes.
#[test]
fn the_reference_has_each_check() {
    let mut page = PAGE.to_owned();
    page.push_str("| check | level | what it means | remedy |\n|---|---|---|---|\n");
    let probes = [server::PROBES, tables::PROBES, cluster::PROBES, work::PROBES];
    for probe in probes.into_iter().flatten() {
        let level = match probe.level {
            FindingLevel::Problem => "problem",
            FindingLevel::Warning => "warning",
        };
        let remedy = match probe.remedy {
            "ALTER SYSTEM" | "ALTER TABLE" | "GRANT" => "the statement that the finding has",
            remedy => remedy,
        };
        page.push_str(&format!(
            "| `{}` | {level} | {} | {remedy} |\n",
            probe.name, probe.means
        ));
    }
    page.push_str("\nThe others are made of several statements:\n\n| check | what it finds |\n|---|---|\n");
    for (name, what) in super::OTHERS {
        page.push_str(&format!("| `{name}` | {what} |\n"));
    }
    crate::testing::reference_has("doctor.md", &page);
}

const PAGE: &str = "\
# mainspring doctor

`mainspring doctor` examines a cluster through its database, over a connection of its own: the server, the tables, the nodes, and what
waits. It reads unfinished rows only, by an index and at most some tens of thousands of each kind, so that it takes a second on a database
of any size; of bookmarks and timers it reads a sample of 300 pages, and of instances the newest 20,000. `mainspring check` reads
everything. Without `--fix` it changes nothing, but for a temporary table by which it sees whether the server writes.

    problem: orphaned-claims: 2 rows are claimed by incarnation 4711, which no node has: … (since 2026-11-30T12:00:03Z)
      means: No node runs these rows until they are released.
      remedy: mainspring doctor --fix

- **Exit code**: 0 nothing was found, or all of it is fixed; 1 something was found; 2 wrong usage; 3 no database.
- **`--json`** prints `{ok, findings: [{check, level, what, means, since, remedy, fixable}], fixed, checks, elapsedMs}`.
- **`--fix`** releases orphaned claims, as nodes do it themselves, makes the partitions of the next week, and vacuums the tables of
  `dead-rows`; then all is examined again. It ends no session and deletes nothing.
- **`--older-than`** (one minute): a wait, a lock or a transaction that is younger is work in progress, and no finding.
- A check that cannot be made is a finding, too (`it could not be examined`): the role may not read a table, or it is locked.
- The role is that of the nodes or the owner of the schema. Without `pg_read_all_stats` transactions of other roles are not seen.

A *problem* is one now: work waits or may be lost. A *warning* becomes one.

";

/// Names are those of the guide and of the output; each says what it means and what to do.
#[test]
fn each_probe_has_a_name_of_its_own() {
    let probes = [server::PROBES, tables::PROBES, cluster::PROBES, work::PROBES];
    let all: Vec<&Probe> = probes.into_iter().flatten().collect();
    let mut names: Vec<&str> = all.iter().map(|probe| probe.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    for probe in all {
        assert!(probe.means.ends_with('.') && !probe.remedy.is_empty(), "{}", probe.name);
        // A statement that ignores an argument cannot be run.
        let most = probe.sql.matches("$2").count().min(1) + probe.sql.matches("$1").count().min(1);
        assert_eq!(most, probe.given.len(), "{}", probe.name);
        assert!(matches!(
            probe.given,
            [] | [_] | [Given::SessionPrefix, Given::OlderThan]
        ));
        assert!(!matches!(probe.fix, ProbeFix::Vacuum) || probe.sql.contains("AS object"));
    }
}

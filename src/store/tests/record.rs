//! A page of a journal begins and ends anywhere in the records of bursts. A read or a delete of records touches the partitions
//! of their days only, and finds them also after a step of the clock.

use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::store::commit::CommitOutcome;
use crate::store::instance::delete;
use crate::store::record::execution::{self, Detail, ExecutionQuery, Selection};
use crate::store::record::journal::{self, EntryFilter};
use crate::store::record::merge;
use crate::testing::store::{Fixture, burst, journal_of};

#[tokio::test]
async fn a_page_of_a_journal_begins_and_ends_within_records() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for version in 0..4 {
        let request = burst("i", (version > 0).then_some(version));
        let entries: Vec<i64> = (version * 3..version * 3 + 3).collect();
        let outcome = writer.write(journal_of(request, &entries)).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
    let pool = Pool::new(&fixture.base, 2).unwrap();
    let (tenant, id) = (TenantId::default(), InstanceId::new("i"));
    for (limit, offset) in [(100, 0), (1, 0), (1, 2), (2, 2), (5, 4), (3, 3), (12, 11), (3, 9)] {
        let (total, page) = journal::list(&pool, &tenant, &id, limit, offset).await.unwrap();
        let numbers: Vec<i64> = page.iter().map(|entry| entry.sequence).collect();
        let expected: Vec<i64> = (offset..(offset + limit).min(12)).collect();
        assert_eq!((total, numbers), (12, expected), "{limit} from {offset}");
        for entry in page {
            assert_eq!(
                entry.activity_execution_id.as_str(),
                format!("i:{}", entry.sequence + 1)
            );
            assert_eq!(entry.activity_state, Some(serde_json::json!({"Text": "x"})));
        }
    }
    let (_, beyond) = journal::list(&pool, &tenant, &id, 10, 12).await.unwrap();
    assert!(beyond.is_empty());
}

#[tokio::test]
async fn a_short_read_of_executions_takes_no_long_history() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for version in 0..2 {
        let request = burst("i", (version > 0).then_some(version));
        let outcome = writer.write(journal_of(request, &[version])).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
    let pool = Pool::new(&fixture.base, 2).unwrap();
    let (tenant, id) = (TenantId::default(), InstanceId::new("i"));
    let is_read = async || {
        let query = ExecutionQuery {
            selection: Selection::All,
            newest: 1,
            detail: Detail::Links,
        };
        let read = execution::read_short(&pool, &tenant, &id, query).await;
        read.unwrap().is_some()
    };
    assert!(is_read().await);
    fixture
        .execute("UPDATE burst_record SET body = body || repeat(' ', 300000)")
        .await;
    assert!(!is_read().await);
}

/// Every way to read the records of `i`: the entries found by each.
async fn reads(pool: &Pool) -> [usize; 4] {
    let (tenant, id) = (TenantId::default(), InstanceId::new("i"));
    let all = EntryFilter::default();
    let listed = journal::list(pool, &tenant, &id, 100, 0).await.unwrap().1.len();
    let filtered = journal::filter(pool, &tenant, &id, all.clone(), 0, 100).await.unwrap();
    let last = journal::last(pool, &tenant, &id, &all).await.unwrap();
    let merged = serde_json::to_value(merge::read(pool, &tenant, &id, 9).await.unwrap()).unwrap();
    let last = last.map_or(0, |entry| usize::try_from(entry.sequence).unwrap() + 1);
    [
        listed,
        filtered.entries.len(),
        last,
        merged["body"]["journal"].as_array().map_or(0, Vec::len),
    ]
}

/// A prepared statement, or one without the times of the instance, would wait for the other partitions.
#[tokio::test]
async fn reads_and_deletes_of_records_lock_the_partitions_of_their_days_only() {
    let fixture = Fixture::new().await;
    let year = "SELECT count(create_partition((current_date - d)::date)) FROM generate_series(2, 366) d";
    fixture.execute(year).await;
    let writer = fixture.writer().await;
    let outcome = writer.write(journal_of(burst("i", None), &[0, 1])).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    let others = fixture
        .begin(
            "DO $$ DECLARE part regclass; BEGIN
                 FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'burst_record'::regclass
                     AND inhrelid NOT IN (SELECT DISTINCT tableoid FROM burst_record)
                 LOOP EXECUTE 'LOCK TABLE ' || part || ' IN ACCESS EXCLUSIVE MODE'; END LOOP;
             END $$",
        )
        .await;
    let pool = Pool::new(&fixture.base, 2).unwrap();
    assert_eq!(reads(&pool).await, [2; 4]);
    let deleted = delete::delete(&pool, &TenantId::default(), &InstanceId::new("i"))
        .await
        .unwrap();
    assert!(deleted.is_some());
    drop(others);
    assert_eq!(fixture.count("SELECT count(*) FROM burst_record").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn records_are_between_the_times_of_their_instance_after_the_clock_was_stepped_back() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.write(journal_of(burst("i", None), &[0, 1])).await;
    fixture
        .execute(
            "UPDATE instance SET created_at = created_at + interval '30 hours', updated_at = updated_at + interval '30 hours';
             UPDATE burst_record SET at = at + interval '30 hours'",
        )
        .await;
    let outcome = writer.write(journal_of(burst("i", Some(1)), &[2])).await;
    let CommitOutcome::Committed(commit) = outcome else {
        panic!("{outcome:?}")
    };
    let same = fixture
        .admin
        .client
        .query_one("SELECT updated_at = $1 FROM instance", &[&commit.committed_at])
        .await
        .unwrap();
    assert!(same.get::<_, bool>(0), "{commit:?}");
    let pool = Pool::new(&fixture.base, 2).unwrap();
    assert_eq!(reads(&pool).await, [3; 4]);
    fixture.is_sound().await;
    delete::delete(&pool, &TenantId::default(), &InstanceId::new("i"))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM burst_record").await, 0);
    fixture.is_sound().await;
}

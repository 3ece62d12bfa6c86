//! A page of a journal begins and ends anywhere in the records of bursts.

use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::store::commit::CommitOutcome;
use crate::store::record::journal;
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

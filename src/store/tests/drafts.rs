//! Starts of drafts: what an instance runs on never changes.

use super::definitions::{definition, start};
use crate::id::{DefinitionId, TenantId};
use crate::store::definition::{self, StartSources, VersionSelector, draft};
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::testing::store::Fixture;

#[tokio::test]
async fn a_draft_that_was_started_is_replaced_by_the_next_save() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    let writer = fixture.writer().await;
    let pool = &writer.pool;
    let (acceptor, _task) = Acceptor::start(&writer.connector, pool, writer.incarnation, false);
    let save = async |name: &str| {
        definition::save(pool, class, &definition(name), None)
            .await
            .unwrap()
            .row
    };
    let latest = VersionSelector {
        latest: true,
        ..VersionSelector::default()
    };
    let first = save("one").await;
    assert_eq!(save("two").await.version_id, first.version_id, "changed in place");
    let found = draft::startable(pool, &tenant, &id, &latest).await.unwrap().unwrap();
    assert!(found.may_change && !found.is_published);
    draft::mark_started(pool, class, &tenant, &id, &found.version_id)
        .await
        .unwrap();
    let of_version = |instance: &str| NewStart {
        version_id: Some(first.version_id.clone()),
        ..start(instance, None)
    };
    let AcceptedStart::New { definition: used, .. } = acceptor.accept(of_version("i")).await.unwrap() else {
        panic!("not accepted")
    };
    assert_eq!((used.version_id.clone(), used.version), (first.version_id.clone(), 1));

    let second = save("three").await;
    assert_ne!(second.version_id, first.version_id);
    assert_eq!(second.version, 1, "the same draft, for those who list versions");
    let parts = definition::composition::used_versions(pool, &tenant, &[first.version_id.as_str()])
        .await
        .unwrap();
    assert_eq!(parts[0].body["name"], "two");
    assert!(acceptor.accept(of_version("j")).await.unwrap_err().is_not_found());
    // The published version starts beside drafts, and its strategy is that of all.
    let sources = StartSources::by(&[]);
    let published = definition::save(pool, class, &definition("three"), Some(sources))
        .await
        .unwrap();
    assert_eq!(published.row.version_id, second.version_id);
    for instance in ["k", "l"] {
        acceptor.accept(start(instance, None)).await.unwrap();
    }
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 0").await, 3);
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM definition WHERE deleted_at IS NULL")
            .await,
        1
    );
    fixture.is_sound().await;
}

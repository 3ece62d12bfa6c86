//! Deletes of definitions: what was accepted keeps its version, and nothing else is accepted.

use super::definitions::{definition, start, trigger};
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::store::definition::delete::{DeleteGuard, definition_of, delete, purge, purge_all};
use crate::store::definition::{self, NewDefinition, StartSources, VersionSelector};
use crate::store::start::{AcceptedStart, Acceptor};
use crate::testing::store::Fixture;

/// Stops each transaction at its end that inserts work while `gate` is locked.
const GATE: &str = "CREATE TABLE gate (no integer);
    INSERT INTO gate VALUES (1);
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass()";

#[tokio::test]
async fn a_start_beside_a_delete_keeps_its_version() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    let writer = fixture.writer().await;
    let pool = writer.pool.clone();
    let (acceptor, _task) = Acceptor::start(&writer.connector, &pool, writer.incarnation, true);
    definition::save(&pool, class, &definition("n"), Some(StartSources::by(&[trigger(1)])))
        .await
        .unwrap();
    fixture.execute(GATE).await;
    // The start has its snapshot, in which the version is published, and has not committed.
    let blocker = fixture.begin("SELECT 1 FROM gate FOR UPDATE").await;
    let starts = tokio::spawn({
        let acceptor = acceptor.clone();
        async move { acceptor.accept(start("i", None)).await.unwrap() }
    });
    fixture.a_session_waits().await;
    let versions = delete(&pool, class, &tenant, &id, None, DeleteGuard::None)
        .await
        .unwrap();
    assert_eq!(versions.len(), 1);
    let purges = tokio::spawn({
        let (pool, tenant, versions) = (pool.clone(), tenant.clone(), versions.clone());
        async move { purge(&pool, &tenant, &versions).await }
    });
    // The purge waits for the transaction of the start: it must not find the version unused before.
    tokio::task::yield_now().await;
    assert_eq!(fixture.count("SELECT count(*) FROM definition").await, 1);
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    let AcceptedStart::New { definition: used, .. } = starts.await.unwrap() else {
        panic!("not accepted")
    };
    assert_eq!(purges.await.unwrap().unwrap(), 0, "a start has it");
    assert_eq!(used.version_id.as_str(), versions[0]);
    assert!(
        !definition::composition::used_versions(&pool, &tenant, &[used.version_id.as_str()])
            .await
            .unwrap()
            .is_empty()
    );
    // It is found by its own id only, and is not started again.
    let by_id = VersionSelector {
        version_id: Some(used.version_id.clone()),
        ..VersionSelector::default()
    };
    assert!(definition::find(&pool, &tenant, &by_id).await.unwrap().is_some());
    let by_definition = VersionSelector {
        definition_id: Some(id.clone()),
        ..VersionSelector::default()
    };
    assert!(
        definition::find(&pool, &tenant, &by_definition)
            .await
            .unwrap()
            .is_none()
    );
    assert!(acceptor.accept(start("j", None)).await.unwrap_err().is_not_found());
    assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 0);
    assert!(
        delete(&pool, class, &tenant, &id, None, DeleteGuard::None)
            .await
            .unwrap()
            .is_empty()
    );
    // A definition of the same id is another one.
    let new = definition::save(&pool, class, &definition("new"), None).await.unwrap();
    assert_eq!(new.row.version, 1);
    fixture.is_sound().await;
    fixture.execute("DELETE FROM work").await;
    assert_eq!(purge_all(&pool).await.unwrap(), 1);
    assert_eq!(fixture.count("SELECT count(*) FROM definition").await, 1);
}

#[tokio::test]
async fn the_version_before_a_deleted_one_becomes_the_newest() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    for name in ["one", "two"] {
        let sources = [trigger(1)];
        let saved = definition::save(&pool, class, &definition(name), Some(StartSources::by(&sources))).await;
        saved.unwrap();
    }
    let draft = definition::save(&pool, class, &definition("three"), None)
        .await
        .unwrap()
        .row;
    assert_eq!(
        definition_of(&pool, &tenant, &draft.version_id).await.unwrap(),
        Some(id.clone())
    );
    fixture
        .execute("UPDATE definition SET version = 9 WHERE version = 1")
        .await;
    let broken = crate::store::check::check(&fixture.session().await.client)
        .await
        .unwrap();
    assert!(
        broken
            .iter()
            .any(|broken| broken.invariant == "latest-version-is-not-the-greatest"),
        "{broken:?}"
    );
    fixture
        .execute("UPDATE definition SET version = 1 WHERE version = 9")
        .await;
    for (left, published) in [(2, 1), (1, 0), (0, 0)] {
        let latest = VersionSelector {
            latest: true,
            ..VersionSelector::default()
        };
        let row = definition::find(&pool, &tenant, &latest).await.unwrap().unwrap();
        assert_eq!(row.version, left + 1);
        let deleted = delete(&pool, class, &tenant, &id, Some(&row.version_id), DeleteGuard::None)
            .await
            .unwrap();
        assert_eq!(purge(&pool, &tenant, &deleted).await.unwrap(), 1, "nothing has it");
        assert_eq!(fixture.count("SELECT count(*) FROM definition").await, i64::from(left));
        assert_eq!(
            fixture
                .count("SELECT count(*) FROM definition WHERE is_published")
                .await,
            published
        );
        assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, published);
        fixture.is_sound().await;
    }
    assert!(
        delete(
            &pool,
            class,
            &tenant,
            &id,
            Some(&VersionId::new("none")),
            DeleteGuard::None
        )
        .await
        .unwrap()
        .is_empty()
    );
}

#[tokio::test]
async fn the_id_of_a_purged_version_is_not_used_again() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    let of_file = VersionId::new("of a file");
    let import = |name| NewDefinition {
        version_id: Some(of_file.clone()),
        ..definition(name)
    };
    // No node compiles a draft.
    let draft = definition::save(&pool, class, &import("draft"), None).await.unwrap();
    assert_eq!(draft.row.version_id, of_file);
    let deleted = delete(&pool, class, &tenant, &id, None, DeleteGuard::None)
        .await
        .unwrap();
    assert_eq!(purge(&pool, &tenant, &deleted).await.unwrap(), 1);
    let first = definition::save(&pool, class, &import("first"), Some(StartSources::by(&[]))).await;
    assert_eq!(first.unwrap().row.version_id, of_file);
    let deleted = delete(&pool, class, &tenant, &id, None, DeleteGuard::None)
        .await
        .unwrap();
    assert_eq!(purge(&pool, &tenant, &deleted).await.unwrap(), 1);
    // Nodes may still have the program of the first one under this id.
    let second = definition::save(&pool, class, &import("second"), Some(StartSources::by(&[]))).await;
    assert_ne!(second.unwrap().row.version_id, of_file);
    fixture.is_sound().await;
}

#[tokio::test]
async fn two_imports_at_once_of_one_version_id_are_two_versions() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    let of_file = VersionId::new("of a file");
    let other = "INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, body)
        VALUES ('', 'of a file', 'other', 1, true, false, '{}')";
    let blocker = fixture.begin(other).await;
    let saves = tokio::spawn({
        let pool = pool.clone();
        let new = NewDefinition {
            version_id: Some(of_file.clone()),
            ..definition("n")
        };
        async move { definition::save(&pool, class, &new, None).await }
    });
    fixture.a_session_waits().await;
    blocker.client.batch_execute("COMMIT").await.unwrap();
    assert_ne!(saves.await.unwrap().unwrap().row.version_id, of_file);
    fixture.is_sound().await;
}

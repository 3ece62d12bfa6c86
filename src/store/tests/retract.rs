//! A retract against what would start an instance at the same moment, in both orders.

use super::definitions::{definition, trigger};
use crate::id::{DefinitionId, TenantId};
use crate::store::definition::retract::{RetractOutcome, retract};
use crate::store::definition::{self, StartSources};
use crate::store::event;
use crate::testing::store::{Fixture, event};

/// Stops each transaction at its end that writes work or deletes a trigger while `gate` is locked.
const GATE: &str = "CREATE TABLE gate (no integer);
    INSERT INTO gate VALUES (1);
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER DELETE ON trigger DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass()";

#[tokio::test]
async fn an_event_beside_a_retract_starts_an_instance_or_stays_in_the_inbox() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    fixture.execute(GATE).await;
    for (number, event_first) in [(1, true), (2, false)] {
        let triggers = [trigger(number)];
        let new = definition(&format!("n{number}"));
        let saved = definition::save(&pool, class, &new, Some(StartSources::by(&triggers))).await;
        saved.unwrap();
        let blocker = fixture.begin("SELECT 1 FROM gate FOR UPDATE").await;
        let happens = {
            let pool = pool.clone();
            async move {
                event::publish(&pool, class, &event(&format!("k{number}"), number))
                    .await
                    .unwrap()
            }
        };
        let retracts = {
            let (pool, tenant, id) = (pool.clone(), tenant.clone(), id.clone());
            async move { retract(&pool, class, &tenant, &id, false).await.unwrap() }
        };
        let (happened, retracted) = if event_first {
            let happens = tokio::spawn(happens);
            fixture.so_many_wait(1).await;
            let retracts = tokio::spawn(retracts);
            // The retract waits for the key, and not for the gate.
            fixture.so_many_wait(2).await;
            blocker.client.batch_execute("ROLLBACK").await.unwrap();
            (happens.await.unwrap(), retracts.await.unwrap())
        } else {
            let retracts = tokio::spawn(retracts);
            fixture.so_many_wait(1).await;
            let happens = tokio::spawn(happens);
            fixture.so_many_wait(2).await;
            blocker.client.batch_execute("ROLLBACK").await.unwrap();
            (happens.await.unwrap(), retracts.await.unwrap())
        };
        assert!(matches!(retracted, RetractOutcome::Retracted(row) if !row.is_published));
        assert_eq!(
            (happened.started, happened.kept),
            (u64::from(event_first), !event_first),
            "event first: {event_first}"
        );
        assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 0);
    }
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 0").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 1);
    // What is retracted can be published again, and then takes what the inbox kept.
    let draft = definition::save(&pool, class, &definition("n3"), Some(StartSources::by(&[trigger(2)]))).await;
    assert_eq!(draft.unwrap().row.version, 3);
    fixture.match_inbox(&pool).await;
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 0").await, 2);
    for (id, found) in [("d", true), ("none", false)] {
        retract(&pool, class, &tenant, &DefinitionId::new(id), false)
            .await
            .unwrap();
        let again = retract(&pool, class, &tenant, &DefinitionId::new(id), false)
            .await
            .unwrap();
        assert!(matches!(
            (again, found),
            (RetractOutcome::NotPublished, true) | (RetractOutcome::NotFound, false)
        ));
    }
    fixture.is_sound().await;
}

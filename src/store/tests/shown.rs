//! The read of an instance visits few of the rows that it waits for.

use crate::id::{InstanceId, TenantId};
use crate::testing::store::Fixture;

const FIND: &str = include_str!("../../../sql/queries/instance/find.sql");

/// An instance with many rows of work and timers, as a loop of forks makes them, and another one that a node runs.
const FILL: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
        SELECT '', 'i' || n, 'd', 'd1', 1, 0, 2, 1, '{}' FROM generate_series(1, 2000) n;
    INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
        SELECT '', 'i1', md5(n::text), now(), now() + interval '1 hour' FROM generate_series(1, 20000) n;
    INSERT INTO timer (tenant_id, instance_id, id, due, available_at, claimed_by) VALUES ('', 'i2', 'b', now(), now(), 7);
    INSERT INTO work (tenant_id, instance_id, kind, body)
        SELECT '', 'i1', 2, '{}' FROM generate_series(1, 20000) n;
    INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by) VALUES ('', 'i3', 2, '{}', 7);
    ANALYZE";

#[tokio::test]
async fn a_read_of_an_instance_visits_few_of_its_timers_and_work() {
    let fixture = Fixture::new().await;
    fixture.execute(FILL).await;
    let pool = crate::db::Pool::new(&fixture.base, 1).unwrap();
    for (id, is_executing) in [("i1", false), ("i2", true), ("i3", true), ("i4", false)] {
        let found = crate::store::instance::show(&pool, &TenantId::default(), &InstanceId::new(id)).await;
        assert_eq!(found.unwrap().unwrap().is_executing, is_executing, "{id}");
    }
    for mode in ["force_generic_plan", "force_custom_plan"] {
        let session = fixture.session().await;
        let explain = format!(
            "SET plan_cache_mode = {mode}; PREPARE find AS {FIND};
             EXPLAIN (ANALYZE, BUFFERS) EXECUTE find('', 'i1', true, true)"
        );
        let messages = session.client.simple_query(&explain).await.unwrap();
        let lines = messages.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan = lines.collect::<Vec<_>>().join("\n");
        assert!(
            plan.contains("timer_claimed") && !plan.contains("timer_pkey"),
            "{mode}: {plan}"
        );
        // The first of these lines is that of the whole.
        let hit = plan
            .lines()
            .find_map(|line| line.trim().strip_prefix("Buffers: shared "));
        let pages = hit
            .unwrap()
            .split([' ', '='])
            .filter_map(|word| word.parse::<u32>().ok());
        assert!(pages.sum::<u32>() < 100, "{mode}: {plan}");
    }
}

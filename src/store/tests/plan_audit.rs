//! The list of the audit, which is planned for its parameters, finds the rows of each filter by an index.

use super::plan_tables::FILL;
use super::plans::{Hot, explain};
use crate::testing::store::Fixture;

#[tokio::test]
async fn each_filter_of_the_audit_has_its_index() {
    let fixture = Fixture::new().await;
    fixture.execute(FILL).await;
    for (filter, index) in [
        ("null, null, null", "audit_pkey"),
        ("null, null, 7", "audit_pkey"),
        ("'i7', null, null", "audit_instance"),
        ("'i7', null, 7", "audit_instance"),
        ("null, gen_random_uuid(), null", "audit_link"),
    ] {
        let hot = Hot {
            name: "audit/list",
            sql: include_str!("../../../sql/queries/audit/list.sql"),
            arguments: Box::leak(format!("'', {filter}, 101").into_boxed_str()),
            scans_off: false,
        };
        let plan = explain(&fixture, &hot, "force_custom_plan").await;
        assert!(plan.contains(&format!("using {index} on audit")), "{filter}\n{plan}");
    }
}

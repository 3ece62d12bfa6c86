//! The list of the audit, as `plans` tries the hot statements: it is planned for its parameters.

use super::plan_tables::FILL;
use super::plans::{Hot, explain};
use crate::testing::store::Fixture;

#[tokio::test]
async fn each_filter_of_the_audit_has_its_index() {
    let fixture = Fixture::new().await;
    fixture.execute(FILL).await;
    for ([instance, link, before, caller], index) in [
        (["null", "null", "null", "null"], "audit_pkey"),
        (["null", "null", "7", "null"], "audit_pkey"),
        (["'i7'", "null", "null", "null"], "audit_instance"),
        (["'i7'", "null", "7", "null"], "audit_instance"),
        (["null", "gen_random_uuid()", "null", "null"], "audit_link"),
        (["null", "null", "null", "'u7'"], "audit_caller"),
    ] {
        let rest = "null, null, null, null, null, null, null";
        let arguments = format!("'', {instance}, {link}, {before}, 101, {caller}, {rest}");
        let hot = Hot {
            name: "audit/list",
            sql: include_str!("../../../sql/queries/audit/list.sql"),
            arguments: Box::leak(arguments.into_boxed_str()),
            scans_off: false,
        };
        let plan = explain(&fixture, &hot, "force_custom_plan").await;
        assert!(
            plan.contains(&format!("using {index} on audit")),
            "{index} {}\n{plan}",
            hot.arguments
        );
    }
}

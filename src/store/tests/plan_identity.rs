//! The statements of sign-ins, as `plans` tries the hot ones: each finds its rows by an index, whatever else is in the tables.

use super::plans::{Hot, explain};
use crate::testing::store::Fixture;

/// As many users as there may be, and what a day of sign-ins and of guesses leaves.
const FILL: &str = "
    INSERT INTO identity_user (id, tenant_id, name, roles, password_hash)
    SELECT 'u' || n, '', 'name' || n, ARRAY['reader'], 'hash' FROM generate_series(1, 10000) n;
    INSERT INTO identity_session (id, tenant_id, user_id, current, issued_at, signed_by, expires_at)
    SELECT gen_random_uuid(), '', 'u' || (n % 10000 + 1), gen_random_uuid(), now(), 1, now() + n * interval '1 second'
    FROM generate_series(1, 50000) n;
    INSERT INTO login_attempt (key, failures, until)
    SELECT sha256(n::text::bytea), 1, now() + n * interval '1 second' FROM generate_series(1, 50000) n;
    ANALYZE";

/// Each with its arguments and the index that it has to use.
const HOT: [(&str, &str, &str, &str); 7] = [
    (
        "identity/user_sign_in",
        include_str!("../../../sql/queries/identity/user_sign_in.sql"),
        "'name7'",
        "identity_user_name",
    ),
    (
        "identity/session_open",
        include_str!("../../../sql/queries/identity/session_open.sql"),
        "'u7', 'hash', gen_random_uuid(), gen_random_uuid(), 1, 1000000",
        "identity_user_pkey",
    ),
    (
        "identity/session_find",
        include_str!("../../../sql/queries/identity/session_find.sql"),
        "gen_random_uuid()",
        "identity_session_pkey",
    ),
    (
        "identity/session_rotate",
        include_str!("../../../sql/queries/identity/session_rotate.sql"),
        "gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1000000, 1000000",
        "identity_session_pkey",
    ),
    (
        "identity/attempt_count",
        include_str!("../../../sql/queries/identity/attempt_count.sql"),
        "sha256('7'), sha256('6'), sha256('5'), 1000000, sha256('8'), 10, 100",
        "login_attempt_pkey",
    ),
    (
        "identity/attempt_success",
        include_str!("../../../sql/queries/identity/attempt_success.sql"),
        "array[sha256('7')], sha256('8'), 1000000",
        "login_attempt_pkey",
    ),
    (
        "identity/purge",
        include_str!("../../../sql/queries/identity/purge.sql"),
        "1000",
        "identity_session_expiry",
    ),
];

#[tokio::test]
async fn each_statement_of_a_sign_in_has_its_index() {
    let fixture = Fixture::new().await;
    fixture.execute(FILL).await;
    for (name, sql, arguments, index) in HOT {
        let hot = Hot {
            name,
            sql,
            arguments,
            scans_off: false,
        };
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = explain(&fixture, &hot, mode).await;
            assert!(plan.contains(index), "{name} ({mode}) without {index}\n{plan}");
            for table in ["identity_user", "identity_session", "login_attempt"] {
                assert!(
                    !plan.contains(&format!("Seq Scan on {table} ")),
                    "{name} ({mode})\n{plan}"
                );
            }
        }
    }
}

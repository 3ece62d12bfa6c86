//! The statements of resume links, as `plans` tries them. No plan shows the indexes that an insert keeps, nor those in functions.

use super::plans::Hot;

/// Each with the indexes that its plan shows, of those that its header names, and its arguments.
const HOT: [(&str, &str, [&str; 2], &str); 7] = [
    (
        "commit/links",
        include_str!("../../../sql/queries/commit/links.sql"),
        ["resume_link_pkey, instance_pkey", "instance_pkey"],
        "array[gen_random_uuid()], array[''], array['i7'], array[gen_random_uuid()], array['b'], array[null]::text[], array[1],
         array[1000]::bigint[], array[null]::timestamptz[], array[1]",
    ),
    (
        "link/create",
        include_str!("../../../sql/queries/link/create.sql"),
        [
            "resume_link_pkey, resume_link_instance, instance_pkey, bookmark_pkey",
            "resume_link_instance, instance_pkey, bookmark_pkey",
        ],
        "gen_random_uuid(), '', 'i7', 7, 'b', 1000, 1, 1, 10000",
    ),
    (
        "link/find",
        include_str!("../../../sql/queries/link/find.sql"),
        ["definition_pkey", "definition_pkey"],
        "gen_random_uuid(), 1",
    ),
    (
        "link/list",
        include_str!("../../../sql/queries/link/list.sql"),
        [
            "resume_link_instance, resume_link_pkey, instance_pkey",
            "resume_link_instance, resume_link_pkey",
        ],
        "'', 'i7', 101, gen_random_uuid()",
    ),
    (
        "link/revoke",
        include_str!("../../../sql/queries/link/revoke.sql"),
        ["resume_link_instance", "resume_link_instance"],
        "gen_random_uuid(), '', 'i7'",
    ),
    (
        "link/spend",
        include_str!("../../../sql/queries/link/spend.sql"),
        ["resume_link_pkey, instance_pkey, bookmark_pkey", "resume_link_pkey, instance_pkey"],
        "gen_random_uuid(), '', 1, '192.0.2.7'",
    ),
    (
        "audit/note",
        include_str!("../../../sql/queries/audit/note.sql"),
        ["audit_pkey", ""],
        "'', 0, 1, null, '192.0.2.7', 'i7', gen_random_uuid(), null, null, null, null, null, null, null",
    ),
];

pub(super) fn hot() -> impl Iterator<Item = Hot> {
    HOT.into_iter().map(|(name, sql, [named, shown], arguments)| {
        assert!(sql.contains(named), "{name}");
        Hot {
            name,
            sql: Box::leak(sql.replacen(named, shown, 1).into_boxed_str()),
            arguments,
            scans_off: false,
        }
    })
}

//! The statements that find routes, as `plans` tries them.

use super::plans::Hot;
use crate::store::stimulus_key::StimulusScope;

const FIND: &str = include_str!("../../../sql/queries/route/find.sql");

/// Each with its arguments.
const OTHERS: [(&str, &str, &str); 6] = [
    (
        "route/find_own",
        include_str!("../../../sql/queries/route/find_own.sql"),
        "'', 'i7', 'c7', 501",
    ),
    (
        "route/read",
        include_str!("../../../sql/queries/route/read.sql"),
        "'', 1990",
    ),
    (
        "route/owner",
        include_str!("../../../sql/queries/route/owner.sql"),
        "'', 'd7', array[sha256('7')]",
    ),
    (
        "route/overlapping",
        include_str!("../../../sql/queries/route/overlapping.sql"),
        "'', 'd7', array[sha256('7'), sha256('8')], 32",
    ),
    (
        "route/orphaned",
        include_str!("../../../sql/queries/route/orphaned.sql"),
        "sha256('7'), 256",
    ),
    (
        "route/purge",
        include_str!("../../../sql/queries/route/purge.sql"),
        "array[sha256('7'), sha256('8')]",
    ),
];

/// A lookup in each of its forms has indexes of its own.
const FORMS: [(&str, &str, &str); 3] = [
    ("route/find, any", "null, null", "bookmark_hash"),
    ("route/find, correlated", "null, 'c7'", "bookmark_correlation"),
    ("route/find, targeted", "'i7', 'c7'", "bookmark_pkey, bookmark_crowded"),
];

pub(super) fn hot() -> impl Iterator<Item = Hot> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let forms = StimulusScope::texts(FIND).into_iter().zip(FORMS);
    let finds = forms.map(move |(text, (name, target, own))| Hot {
        name,
        sql: leak(text.replace(
            "bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded)",
            own,
        )),
        arguments: leak(format!("'', array[sha256('7')], array[sha256('7')], {target}, 17, 500")),
        scans_off: false,
    });
    let others = OTHERS.into_iter().map(|(name, sql, arguments)| Hot {
        name,
        sql,
        arguments,
        scans_off: false,
    });
    finds.chain(others)
}

//! The statements of webhooks, as `plans` tries them.

use super::plans::Hot;
use crate::store::parts::with_parts;

/// Each with its arguments.
const HOT: [(&str, &str, &str); 5] = [
    (
        "webhook_sink/claim",
        include_str!("../../../sql/queries/webhook_sink/claim.sql"),
        "4711, 64, array[7]",
    ),
    (
        "webhook_delivery/due",
        include_str!("../../../sql/queries/webhook_delivery/due.sql"),
        "4711, array[7,8], array[1,1]::bigint[], array[64,64], array[7], array[gen_random_uuid()], array[4194304,4194304]::bigint[],
         array[null,now()]::timestamptz[]",
    ),
    (
        "webhook_delivery/complete",
        include_str!("../../../sql/queries/webhook_delivery/complete.sql"),
        "4711, array[7], array[1]::bigint[], array[1]::smallint[], array[0]::bigint[], array[null]::text[], array[7],
         array['i7'], array[gen_random_uuid()], array[1]::smallint[], array[200]::smallint[], array[null]::text[], array[0]::bigint[], 1000000, 1000000",
    ),
    (
        "webhook_delivery/replay",
        include_str!("../../../sql/queries/webhook_delivery/replay.sql"),
        "'', 's7', null, 100",
    ),
    (
        "webhook_delivery/expire",
        include_str!("../../../sql/queries/webhook_delivery/expire.sql"),
        "1000000",
    ),
];

const LIST: &str = include_str!("../../../sql/queries/webhook_delivery/list.sql");

/// A list in each of its forms has an index of its own.
const FORMS: [(&str, &str, &str, &str); 3] = [
    (
        "webhook_delivery/list, of an instance",
        "instance",
        "'i7', null",
        "webhook_delivery_pkey",
    ),
    (
        "webhook_delivery/list, pending",
        "pending",
        "'s7', 0",
        "webhook_delivery_due",
    ),
    (
        "webhook_delivery/list, dead",
        "dead",
        "'s7', 2",
        "webhook_delivery_dead",
    ),
];

pub(super) fn hot() -> impl Iterator<Item = Hot> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let all = HOT.into_iter().map(move |(name, sql, arguments)| Hot {
        name,
        sql,
        arguments,
        scans_off: true,
    });
    let lists = FORMS.into_iter().map(move |(name, form, of, index)| Hot {
        name,
        sql: leak(with_parts(LIST, |part| part == form).replace(
            "webhook_delivery_pkey, webhook_delivery_due, webhook_delivery_dead",
            index,
        )),
        arguments: leak(format!("'', {of}, null, null, null, 101")),
        scans_off: false,
    });
    all.chain(lists)
}

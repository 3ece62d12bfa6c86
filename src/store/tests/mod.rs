//! The store against a real server; each race with two open sessions.

mod accept;
mod activation;
mod activation_publish;
mod blame;
mod claims;
mod definitions;
mod delete;
mod doubt;
mod fates;
mod jobs;
mod keys;
mod partitions;
mod plans;
mod record;
mod starts;
mod state;
mod vacuum;

/// The migrations in their order, for tests of what one makes of what was written before it.
const MIGRATIONS: [&str; 15] = [
    include_str!("../../../sql/migrations/V1__trunk.sql"),
    include_str!("../../../sql/migrations/V2__take_over.sql"),
    include_str!("../../../sql/migrations/V3__activation.sql"),
    include_str!("../../../sql/migrations/V4__cluster_api.sql"),
    include_str!("../../../sql/migrations/V5__schedule.sql"),
    include_str!("../../../sql/migrations/V6__roles.sql"),
    include_str!("../../../sql/migrations/V7__index_order.sql"),
    include_str!("../../../sql/migrations/V8__record.sql"),
    include_str!("../../../sql/migrations/V9__direct_start.sql"),
    include_str!("../../../sql/migrations/V10__plan_when_empty.sql"),
    include_str!("../../../sql/migrations/V11__activation_identity.sql"),
    include_str!("../../../sql/migrations/V12__start_index.sql"),
    include_str!("../../../sql/migrations/V13__state_in_instance.sql"),
    include_str!("../../../sql/migrations/V14__plain_commit.sql"),
    include_str!("../../../sql/migrations/V20__clock_and_channels.sql"),
];

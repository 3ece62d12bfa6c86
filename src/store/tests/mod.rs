//! The store against a real server; each race with two open sessions.

mod accept;
mod activation;
mod activation_publish;
mod claim_bytes;
mod claims;
mod crash_counts;
mod definition_delete;
mod definitions;
mod delete;
mod doubt;
mod drafts;
mod fan_out;
mod fan_out_faults;
mod inbox_match;
mod jobs;
mod keys;
mod partitions;
mod pause;
mod plans;
mod record;
mod retract;
mod sql;
mod starts;
mod stimulus_keys;
mod vacuum;
mod work_status;

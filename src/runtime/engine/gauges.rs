//! What a node knows without asking: how many of its connections and workers are in use, how old its last check-in and its sample
//! are, and what its process uses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::runtime::context::known_sample::KnownSample;
use crate::runtime::context::node_context::NodeContext;

const INTERVAL: Duration = Duration::from_secs(1);

/// Sets the gauges each second until the supervisor ends. Between two registrations those of the last one stay, and the ages
/// grow.
pub(super) async fn keep(current: watch::Receiver<Option<Arc<NodeContext>>>, sample: Option<Arc<KnownSample>>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut checked_in: Option<Instant> = None;
    while current.has_changed().is_ok() {
        ticks.tick().await;
        let node = current.borrow().clone();
        if let Some(node) = node {
            checked_in = Some(node.lifecycle.reports.borrow().received);
            report_node(&node);
        }
        if let Some(checked_in) = checked_in {
            metrics::gauge!("mainspring_check_in_age_seconds").set(checked_in.elapsed());
        }
        if let Some(sample) = &sample {
            sample.report_age();
        }
        report_process();
    }
}

fn report_node(node: &NodeContext) {
    let workers = &node.claims.workers;
    let busy = workers.count.saturating_sub(workers.room());
    metrics::gauge!("mainspring_workers").set(workers.count as f64);
    metrics::gauge!("mainspring_workers_busy").set(busy as f64);
    let database = &node.database;
    for pool in [&database.pool, database.reads.by_key(), database.reads.lists()] {
        pool.report();
    }
}

#[cfg(target_os = "linux")]
fn report_process() {
    let used = std::fs::read_to_string("/proc/self/stat").ok();
    if let Some(seconds) = used.and_then(|stat| cpu_seconds(&stat)) {
        metrics::counter!("mainspring_process_cpu_seconds_total").absolute(seconds);
    }
    let resident = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| resident_bytes(&status));
    if let Some(resident) = resident {
        metrics::gauge!("mainspring_process_resident_memory_bytes").set(resident as f64);
    }
}

#[cfg(not(target_os = "linux"))]
fn report_process() {}

/// Of `/proc/self/stat`: the time in the program and in the kernel, in hundredths on every Linux. The name of the program, in
/// brackets, may have spaces.
#[cfg(target_os = "linux")]
fn cpu_seconds(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system).map(|hundredths| hundredths / 100)
}

/// Of `/proc/self/status`, which counts in kilobytes.
#[cfg(target_os = "linux")]
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::testing::metrics::Recorded;

    #[test]
    fn the_resident_memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("VmHWM:\t  10 kB\nVmRSS:\t   2048 kB\n"), Some(2 << 20));
        for status in ["", "VmRSS:\t", "VmRSS: x kB", "VmRSS: 18446744073709551615 kB"] {
            assert_eq!(resident_bytes(status), None, "{status}");
        }
    }

    #[test]
    fn the_time_of_processors_is_read_in_seconds() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 160 0 0 20 0 9 0 5";
        assert_eq!(cpu_seconds(stat), Some(4));
        for stat in ["", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 100 0 0 0 x 160 0"] {
            assert_eq!(cpu_seconds(stat), None, "{stat}");
        }
    }

    #[test]
    fn the_process_is_reported() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, report_process);
        assert!(recorded.gauge("mainspring_process_resident_memory_bytes") > 1e6);
        assert_eq!(recorded.counters()[0].0, "mainspring_process_cpu_seconds_total");
    }
}

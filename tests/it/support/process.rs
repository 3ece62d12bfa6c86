//! Processes that `Child` does not start: nodes of `dev --nodes`, `demo` and the benchmarks, and plain programs.

use std::path::Path;

use super::{LONG_TIMEOUT, poll_until};

/// A process that is killed at the latest when this is dropped.
pub(crate) struct KilledOnDrop(pub(crate) std::process::Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process runs: a zombie does not count.
pub(crate) fn lives(pid: &str) -> bool {
    if Path::new("/proc/self/stat").exists() {
        return std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(')')
                .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
        });
    }
    let kill = std::process::Command::new("kill").args(["-0", pid]).output();
    kill.is_ok_and(|done| done.status.success())
}

pub(crate) async fn end(pids: &[String]) {
    poll_until(LONG_TIMEOUT, "the nodes to end", async || {
        (!pids.iter().any(|pid| lives(pid))).then_some(())
    })
    .await;
}

#[test]
fn a_live_process_is_distinguished_from_an_ended_one() {
    assert!(lives(&std::process::id().to_string()));
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let pid = ended.id().to_string();
    ended.wait().unwrap();
    assert!(!lives(&pid));
}

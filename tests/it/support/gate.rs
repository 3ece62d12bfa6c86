//! A failpoint at which a node stalls until the test opens it, or from then on.

use std::path::PathBuf;

use super::wait_until;

/// Where a node stalls until it is opened, or from then on.
pub(crate) struct Gate(PathBuf);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-gate-{}", uuid::Uuid::new_v4().simple())))
    }

    pub(crate) fn stalls(&self, point: &str) -> String {
        format!("{point}=stall:{}", self.0.display())
    }

    /// From the opening on a task that comes to the point never continues.
    pub(crate) fn hangs(&self, point: &str) -> String {
        format!("{point}=hang:{}", self.0.display())
    }

    /// While it is open a task that comes to the point keeps its thread.
    pub(crate) fn blocks(&self, point: &str) -> String {
        format!("{point}=block:{}", self.0.display())
    }

    /// A node has come to the point since the last call.
    pub(crate) async fn reached(&self) {
        let mark = self.0.with_extension("reached");
        wait_until("the node to come to the point", async || {
            std::fs::remove_file(&mark).is_ok()
        })
        .await;
    }

    pub(crate) fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("reached"));
    }
}

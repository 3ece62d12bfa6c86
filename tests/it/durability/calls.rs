//! The calls of services that `Mainspring.Call` makes, each a line of a file.

use std::path::PathBuf;

use serde_json::Value;

/// A file of its own, which ends with this.
pub(super) struct Calls(PathBuf);

impl Calls {
    pub(super) fn new() -> Self {
        let name = format!("mainspring-calls-{}", uuid::Uuid::new_v4().simple());
        Self(std::env::temp_dir().join(name))
    }

    /// What makes a node write its calls there.
    pub(super) fn variable(&self) -> (&'static str, &str) {
        ("MAINSPRING_TEST_CALLS", self.0.to_str().unwrap())
    }

    /// The calls as they were made.
    pub(super) fn all(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(&self.0).unwrap();
        lines.lines().map(|call| serde_json::from_str(call).unwrap()).collect()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

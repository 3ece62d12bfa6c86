//! A clock of a process that a test sets.

use std::path::PathBuf;

use super::TestDatabase;
use super::node::Node;

/// The path of the library that fakes the time of a program with threads.
fn library() -> String {
    let folders = std::fs::read_dir("/usr/lib")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let found = folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.exists());
    let found = found.expect("there is no libfaketime here: run scripts/install-missing faketime");
    found.display().to_string()
}

/// What a clock is set by; gone at the end.
pub(crate) struct Clock(pub(crate) PathBuf);

impl Clock {
    pub(crate) fn new(offset: &str) -> Self {
        let clock = Self(std::env::temp_dir().join(format!("mainspring-clock-{}", uuid::Uuid::new_v4().simple())));
        clock.set(offset);
        clock
    }

    pub(crate) fn set(&self, offset: &str) {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, format!("{offset}\n")).unwrap();
        std::fs::rename(beside, &self.0).unwrap();
    }

    /// What a program is started with to go by it.
    pub(crate) fn of_program(&self) -> Vec<(&'static str, String)> {
        Self::variables(&self.0.display().to_string()).into()
    }

    pub(crate) fn node(&self, database: &TestDatabase, name: &'static str) -> Node {
        let variables = self.of_program();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Node::start_at(&database.url(), name, &["--check-in", "200ms"], &variables)
    }

    pub(crate) fn variables(path: &str) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", path.to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // Else the processes of a server go by different clocks for a second, as those of no machine do.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
        ]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

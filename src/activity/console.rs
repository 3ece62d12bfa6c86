//! Where `Elsa.WriteLine` writes.

use std::io::Write;

/// Takes the lines that workflows write.
pub trait Console: Send + Sync {
    /// Writes one line; `line` has no line break at its end.
    fn write_line(&self, line: &str);
}

/// The standard output of the process. A line goes out in one call, so that lines of different workflows do not mix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Console for Stdout {
    fn write_line(&self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let mut out = std::io::stdout().lock();
        // A closed pipe is no fault of the workflow: its journal has the line all the same.
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
    }
}

//! The sink of `Elsa.WriteLine`, and the escaping of its text for one line of output.
//!
//! The thread writes a line some microseconds later, or two milliseconds under load. A burst does not wait unless a mebibyte is
//! in the buffer; a line without room is dropped after a second. Dropped lines are counted, and a warning follows once the
//! output is read again; the journal has them in any case. Control characters are escaped (`\n`, `\u{1b}`), on a terminal and
//! on a pipe. `mainspring serve` prints `ready URL` on the same output, and programs wait for that line: a text that begins
//! with the word `ready` and continues gets a backslash in front.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The sink for lines that workflows write.
pub trait Console: Send + Sync {
    /// Writes one line of a workflow. `line` has no line break at its end, but may contain some, and any other control
    /// character. It is called during a burst and should not block.
    fn write_line(&self, line: &str);

    /// Waits for at most `timeout` until all lines are written. It is called at shutdown and may block.
    fn flush(&self, timeout: Duration) {
        let _ = timeout;
    }
}

/// The maximum number of bytes in the buffer. A line without room waits for [`ROOM_TIMEOUT`] and is then dropped: a
/// reader of the output that stops reading must not stop the server.
const MAX_BUFFERED: usize = 1 << 20;

/// How long a line waits for room in the buffer.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that arrive within this time of the last write are written together. Each write wakes the reader, which costs more
/// than the line.
const BATCH_INTERVAL: Duration = Duration::from_millis(2);

/// The standard output of the process, written by a thread. [`Engine::shutdown`](crate::Engine::shutdown) waits for its buffer;
/// a process that ends without it may lose the last lines. A call writes exactly one line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Console for Stdout {
    fn write_line(&self, line: &str) {
        let line = one_line(line);
        if let Some(writer) = StdoutWriter::of_stdout() {
            writer.enqueue(&line);
        } else {
            emit(&mut std::io::stdout().lock(), format!("{line}\n").as_bytes());
        }
    }

    fn flush(&self, timeout: Duration) {
        if let Some(Some(writer)) = WRITER.get() {
            writer.flush(timeout);
        }
    }
}

/// The first word of the line that the program itself prints once it is ready.
const READY: &str = "ready";

/// The text as one line that cannot be mistaken for the program's own.
fn one_line(text: &str) -> Cow<'_, str> {
    let line = printable(text);
    let continues = |rest: &str| rest.starts_with(char::is_whitespace);
    if line.strip_prefix(READY).is_some_and(continues) {
        Cow::Owned(format!("\\{line}"))
    } else {
        line
    }
}

fn emit(out: &mut impl Write, bytes: &[u8]) {
    // A closed pipe must not fault the workflow.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// The writer of the process, created by the first line; `None` if its thread could not be spawned.
static WRITER: OnceLock<Option<&'static StdoutWriter>> = OnceLock::new();

/// Buffers lines for the thread that writes them.
#[derive(Default)]
struct StdoutWriter {
    buffer: Mutex<Buffer>,
    added: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Buffer {
    waiting: Vec<u8>,
    /// The thread waits for lines.
    idle: bool,
    /// The thread is writing.
    writing: bool,
    /// Lines dropped since the last write.
    dropped: u64,
}

impl StdoutWriter {
    fn of_stdout() -> Option<&'static Self> {
        *WRITER.get_or_init(|| {
            let writer: &'static Self = Box::leak(Box::default());
            let thread = std::thread::Builder::new().name("mainspring-console".to_owned());
            let spawned = thread.spawn(move || writer.run(|bytes| emit(&mut std::io::stdout().lock(), bytes)));
            spawned.ok().map(|_| writer)
        })
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the buffer. Without room it waits up to [`ROOM_TIMEOUT`]; while lines are dropped it does not wait and
    /// drops the line.
    fn enqueue(&self, line: &str) {
        let has_room = |buffer: &Buffer| buffer.waiting.is_empty() || buffer.waiting.len() + line.len() < MAX_BUFFERED;
        let mut buffer = self.buffer();
        if !has_room(&buffer) && buffer.dropped == 0 {
            let is_full = |buffer: &mut Buffer| !has_room(buffer) && buffer.dropped == 0;
            let waits = self.written.wait_timeout_while(buffer, ROOM_TIMEOUT, is_full);
            buffer = waits.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !has_room(&buffer) {
            // Nothing is logged here: the log may have the same reader.
            buffer.dropped += 1;
            drop(buffer);
            self.written.notify_all();
            metrics::counter!("mainspring_console_lines_dropped_total").increment(1);
            return;
        }
        buffer.waiting.extend_from_slice(line.as_bytes());
        buffer.waiting.push(b'\n');
        if std::mem::take(&mut buffer.idle) {
            self.added.notify_one();
        }
    }

    fn flush(&self, timeout: Duration) {
        let busy = |buffer: &mut Buffer| buffer.writing || !buffer.waiting.is_empty();
        let _ = self.written.wait_timeout_while(self.buffer(), timeout, busy);
    }

    /// Writes lines as they arrive; never returns.
    fn run(&self, mut emit: impl FnMut(&[u8])) {
        let mut lines = Vec::new();
        let mut last: Option<Instant> = None;
        loop {
            let mut buffer = self.buffer();
            while buffer.waiting.is_empty() {
                buffer.idle = true;
                buffer = self.added.wait(buffer).unwrap_or_else(PoisonError::into_inner);
            }
            buffer.idle = false;
            buffer.writing = true;
            drop(buffer);
            if let Some(soon) = last.and_then(|last| BATCH_INTERVAL.checked_sub(last.elapsed())) {
                std::thread::sleep(soon);
            }
            std::mem::swap(&mut self.buffer().waiting, &mut lines);
            self.written.notify_all();
            emit(&lines);
            lines.clear();
            lines.shrink_to(MAX_BUFFERED);
            last = Some(Instant::now());
            let mut buffer = self.buffer();
            buffer.writing = false;
            let dropped = std::mem::take(&mut buffer.dropped);
            drop(buffer);
            self.written.notify_all();
            if dropped > 0 {
                tracing::warn!(
                    lines = dropped,
                    "the standard output was not read; lines of workflows were dropped"
                );
            }
        }
    }
}

/// Escapes every character that would end the line, move the cursor or change the direction of writing: control characters
/// except the tab, line and paragraph separators, and directional marks. Other text is not changed.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    // Nearly all text is plain ASCII, and each line of a workflow is checked here.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) || !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if needs_escape(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn needs_escape(character: char) -> bool {
    let direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    direction || character.is_control() && character != '\t'
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    /// A writer, and the bytes of each of its writes; a write blocks until it is received.
    fn writer() -> (Arc<StdoutWriter>, mpsc::Receiver<Vec<u8>>) {
        let writer = Arc::new(StdoutWriter::default());
        let (to, from) = mpsc::sync_channel(0);
        std::thread::spawn({
            let writer = Arc::clone(&writer);
            move || writer.run(|bytes| to.send(bytes.to_vec()).unwrap_or_else(|_| std::thread::park()))
        });
        (writer, from)
    }

    #[test]
    fn a_text_is_one_line_that_is_not_the_programs() {
        for (text, line) in [
            ("Hello", "Hello"),
            ("ready", "ready"),
            ("readyness", "readyness"),
            (" ready http://x", " ready http://x"),
            ("ready http://x", "\\ready http://x"),
            ("ready\thttp://x", "\\ready\thttp://x"),
            ("a\nready http://x", "a\\nready http://x"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
        ] {
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn lines_are_written_whole_in_order_and_in_batches() {
        let (writer, written) = writer();
        let expected: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for n in 0..1000 {
            writer.enqueue(&format!("line {n}"));
        }
        let (mut seen, mut calls) = (Vec::new(), 0);
        while seen.len() < expected.len() {
            let part = written.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(part.ends_with(b"\n"), "a line is written in one call");
            seen.extend(part);
            calls += 1;
        }
        assert_eq!(seen, expected);
        assert!(calls < 500, "{calls} calls for 1000 lines");
        writer.flush(Duration::from_secs(10));
        assert!(writer.buffer().waiting.is_empty() && !writer.buffer().writing);
    }

    #[test]
    fn a_reader_that_stops_does_not_block_writers() {
        let (writer, written) = writer();
        let line = "x".repeat(MAX_BUFFERED / 4);
        writer.enqueue(&line);
        while !writer.buffer().waiting.is_empty() {
            std::thread::yield_now();
        }
        let began = Instant::now();
        // One write is blocked, with the first line; the buffer has room for three more.
        for _ in 0..19 {
            writer.enqueue(&line);
        }
        assert!(began.elapsed() < ROOM_TIMEOUT * 5, "only the first one waits");
        assert_eq!(writer.buffer().dropped, 16);
        writer.flush(Duration::from_millis(1));
        assert!(writer.buffer().writing, "a flush times out");
        written.recv_timeout(Duration::from_secs(10)).unwrap();
        let rest = written.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(rest.len() / line.len(), 3);
        writer.flush(Duration::from_secs(10));
        assert_eq!(writer.buffer().dropped, 0);
        writer.enqueue("after");
        assert_eq!(written.recv_timeout(Duration::from_secs(10)).unwrap(), b"after\n");
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_written() {
        let (writer, written) = writer();
        writer.enqueue(&"y".repeat(MAX_BUFFERED * 2));
        assert_eq!(
            written.recv_timeout(Duration::from_secs(10)).unwrap().len(),
            MAX_BUFFERED * 2 + 1
        );
    }

    #[test]
    fn nothing_ends_the_line_or_moves_the_cursor() {
        for (text, safe) in [
            ("", ""),
            ("plain\ttext \\n", "plain\ttext \\n"),
            ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
            ("a\nb\r\nc", "a\\nb\\r\\nc"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("ü\u{9b}31m\u{7f}", "ü\\u{9b}31m\\u{7f}"),
            ("\u{2028}x\u{202e}y\u{2066}", "\\u{2028}x\\u{202e}y\\u{2066}"),
            ("\0", "\\u{0}"),
        ] {
            assert_eq!(printable(text), safe);
        }
    }
}

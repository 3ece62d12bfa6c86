//! Where `Elsa.WriteLine` writes.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Takes the lines that workflows write.
pub trait Console: Send + Sync {
    /// Writes one line, as the workflow made it: `line` has no line break at its end, but may hold some, and any other
    /// control character. Called in the midst of a burst: it should not block.
    fn write_line(&self, line: &str);

    /// Waits for at most `timeout` until what was written has gone out. Called at the end of a node; it may block.
    fn flush(&self, timeout: Duration) {
        let _ = timeout;
    }
}

/// Bytes that wait to be written. More is worth a moment of waiting, then it is left out: whoever reads the output of a
/// server, and stops to, must not stop the server.
const MAX_BUFFERED: usize = 1 << 20;

/// How long a line waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// What comes so soon after the last call goes out together, in one. Each call wakes whoever reads, which costs more than
/// the line.
const BATCH_INTERVAL: Duration = Duration::from_millis(2);

/// The standard output of the process. A thread writes, some microseconds later, or two milliseconds where much is written: a
/// burst waits for nobody unless a mebibyte does, and a line is left out then after a second, with a count, and a warning once
/// somebody reads again. Its journal has the line all the same. [`Engine::shutdown`](crate::Engine::shutdown) waits for what
/// was written; a process that ends without it may take the last lines with it.
///
/// A call is one line of the output, whatever is in the text: control characters are escaped (`\n`, `\u{1b}`), whether a terminal
/// or a pipe is behind it. `mainspring serve` says `ready URL` on the same output, and programs wait for that: so a text that
/// begins with the word `ready` and goes on gets a backslash in front.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Console for Stdout {
    fn write_line(&self, line: &str) {
        let line = one_line(line);
        if let Some(writer) = StdoutWriter::of_stdout() {
            writer.write(&line);
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

/// What the program itself prints once it answers begins so.
const READY: &str = "ready";

/// The text as one line that is none of the program's own.
fn one_line(text: &str) -> Cow<'_, str> {
    let line = printable(text);
    let goes_on = |rest: &str| rest.starts_with(char::is_whitespace);
    if line.strip_prefix(READY).is_some_and(goes_on) {
        Cow::Owned(format!("\\{line}"))
    } else {
        line
    }
}

fn emit(out: &mut impl Write, bytes: &[u8]) {
    // A closed pipe is no fault of the workflow.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Of the process, once something was written; none where no thread can be had.
static WRITER: OnceLock<Option<&'static StdoutWriter>> = OnceLock::new();

/// Lines on their way to a thread.
#[derive(Default)]
struct StdoutWriter {
    buffer: Mutex<Buffer>,
    added: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Buffer {
    waiting: Vec<u8>,
    /// The thread waits for a line.
    idle: bool,
    /// The thread has lines in hands.
    writing: bool,
    /// Lines left out since something went out: nobody has read for so long.
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

    fn write(&self, line: &str) {
        let has_room = |buffer: &Buffer| buffer.waiting.is_empty() || buffer.waiting.len() + line.len() < MAX_BUFFERED;
        let mut buffer = self.buffer();
        if !has_room(&buffer) && buffer.dropped == 0 {
            let is_full = |buffer: &mut Buffer| !has_room(buffer) && buffer.dropped == 0;
            let waits = self.written.wait_timeout_while(buffer, ROOM_TIMEOUT, is_full);
            buffer = waits.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !has_room(&buffer) {
            // Nothing is logged here: the log may go to the same reader.
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

    /// Writes what comes; never returns.
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
            // There is room from now on.
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
                    "nobody read the standard output; lines of workflows were left out of it"
                );
            }
        }
    }
}

/// The text with every character escaped that would end the line, move the cursor or turn the direction of writing: control
/// characters but the tab, line and paragraph separators, and marks of direction. What is plain stays as it is.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    // Nearly all text is plain ASCII, and each line that a workflow writes comes by here.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) || !text.chars().any(moves) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if moves(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn moves(character: char) -> bool {
    let direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    direction || character.is_control() && character != '\t'
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    /// What a writer wrote, call by call; each call waits until it is taken.
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
    fn a_text_is_one_line_and_none_of_the_programs() {
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
    fn lines_go_out_whole_in_their_order_and_together() {
        let (writer, written) = writer();
        let expected: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for n in 0..1000 {
            writer.write(&format!("line {n}"));
        }
        let (mut seen, mut calls) = (Vec::new(), 0);
        while seen.len() < expected.len() {
            let part = written.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(part.ends_with(b"\n"), "a line goes out in one call");
            seen.extend(part);
            calls += 1;
        }
        assert_eq!(seen, expected);
        assert!(calls < 500, "{calls} calls for 1000 lines");
        writer.flush(Duration::from_secs(10));
        assert!(writer.buffer().waiting.is_empty() && !writer.buffer().writing);
    }

    #[test]
    fn who_stops_reading_stops_nobody() {
        let (writer, written) = writer();
        let line = "x".repeat(MAX_BUFFERED / 4);
        writer.write(&line);
        while !writer.buffer().waiting.is_empty() {
            std::thread::yield_now();
        }
        let began = Instant::now();
        // One call is stuck, with the first line; behind it there is room for three.
        for _ in 0..19 {
            writer.write(&line);
        }
        assert!(began.elapsed() < ROOM_TIMEOUT * 5, "only the first one waits");
        assert_eq!(writer.buffer().dropped, 16);
        writer.flush(Duration::from_millis(1));
        assert!(writer.buffer().writing, "a flush has an end");
        written.recv_timeout(Duration::from_secs(10)).unwrap();
        let rest = written.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(rest.len() / line.len(), 3);
        writer.flush(Duration::from_secs(10));
        assert_eq!(writer.buffer().dropped, 0);
        writer.write("after");
        assert_eq!(written.recv_timeout(Duration::from_secs(10)).unwrap(), b"after\n");
    }

    #[test]
    fn a_line_longer_than_all_room_goes_out() {
        let (writer, written) = writer();
        writer.write(&"y".repeat(MAX_BUFFERED * 2));
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

//! Where `Elsa.WriteLine` writes.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::printable::printable;

/// Takes the lines that workflows write.
pub trait Console: Send + Sync {
    /// Writes one line, as the workflow made it: `line` has no line break at its end, but may hold some, and any other
    /// control character. Called in the midst of a burst: it should not block.
    fn write_line(&self, line: &str);

    /// Waits for at most `patience` until what was written has gone out. Called at the end of a node; it may block.
    fn flush(&self, patience: Duration) {
        let _ = patience;
    }
}

/// Bytes that wait to be written. More is worth a moment of waiting, then it is left out: whoever reads the output of a
/// server, and stops to, must not stop the server.
const MOST: usize = 1 << 20;

/// How long a line waits for room.
const PATIENCE: Duration = Duration::from_secs(1);

/// What comes so soon after the last call goes out together, in one. Each call wakes whoever reads, which costs more than
/// the line.
const GATHERING: Duration = Duration::from_millis(2);

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
        if let Some(pen) = Pen::of_stdout() {
            pen.write(&line);
        } else {
            emit(&mut std::io::stdout().lock(), format!("{line}\n").as_bytes());
        }
    }

    fn flush(&self, patience: Duration) {
        if let Some(Some(pen)) = PEN.get() {
            pen.flush(patience);
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
static PEN: OnceLock<Option<&'static Pen>> = OnceLock::new();

/// Lines on their way to a thread.
#[derive(Default)]
struct Pen {
    page: Mutex<Page>,
    arrived: Condvar,
    went: Condvar,
}

#[derive(Default)]
struct Page {
    waiting: Vec<u8>,
    /// The thread waits for a line.
    idle: bool,
    /// The thread has lines in hands.
    writing: bool,
    /// Lines left out since something went out: nobody has read for so long.
    left_out: u64,
}

impl Pen {
    fn of_stdout() -> Option<&'static Self> {
        *PEN.get_or_init(|| {
            let pen: &'static Self = Box::leak(Box::default());
            let thread = std::thread::Builder::new().name("mainspring-console".to_owned());
            let spawned = thread.spawn(move || pen.work(|bytes| emit(&mut std::io::stdout().lock(), bytes)));
            spawned.ok().map(|_| pen)
        })
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &str) {
        let has_room = |page: &Page| page.waiting.is_empty() || page.waiting.len() + line.len() < MOST;
        let mut page = self.page();
        if !has_room(&page) && page.left_out == 0 {
            let hopes = |page: &mut Page| !has_room(page) && page.left_out == 0;
            let waits = self.went.wait_timeout_while(page, PATIENCE, hopes);
            page = waits.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !has_room(&page) {
            // Nothing is logged here: the log may go to the same reader.
            page.left_out += 1;
            drop(page);
            self.went.notify_all();
            metrics::counter!("mainspring_console_lines_left_out_total").increment(1);
            return;
        }
        page.waiting.extend_from_slice(line.as_bytes());
        page.waiting.push(b'\n');
        if std::mem::take(&mut page.idle) {
            self.arrived.notify_one();
        }
    }

    fn flush(&self, patience: Duration) {
        let busy = |page: &mut Page| page.writing || !page.waiting.is_empty();
        let _ = self.went.wait_timeout_while(self.page(), patience, busy);
    }

    /// Writes what comes; never returns.
    fn work(&self, mut emit: impl FnMut(&[u8])) {
        let mut lines = Vec::new();
        let mut last: Option<Instant> = None;
        loop {
            let mut page = self.page();
            while page.waiting.is_empty() {
                page.idle = true;
                page = self.arrived.wait(page).unwrap_or_else(PoisonError::into_inner);
            }
            page.idle = false;
            page.writing = true;
            drop(page);
            if let Some(soon) = last.and_then(|last| GATHERING.checked_sub(last.elapsed())) {
                std::thread::sleep(soon);
            }
            std::mem::swap(&mut self.page().waiting, &mut lines);
            // There is room from now on.
            self.went.notify_all();
            emit(&lines);
            lines.clear();
            lines.shrink_to(MOST);
            last = Some(Instant::now());
            let mut page = self.page();
            page.writing = false;
            let left_out = std::mem::take(&mut page.left_out);
            drop(page);
            self.went.notify_all();
            if left_out > 0 {
                tracing::warn!(
                    lines = left_out,
                    "nobody read the standard output; lines of workflows were left out of it"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    /// What a pen wrote, call by call; each call waits until it is taken.
    fn pen() -> (Arc<Pen>, mpsc::Receiver<Vec<u8>>) {
        let pen = Arc::new(Pen::default());
        let (to, from) = mpsc::sync_channel(0);
        std::thread::spawn({
            let pen = Arc::clone(&pen);
            move || pen.work(|bytes| to.send(bytes.to_vec()).unwrap_or_else(|_| std::thread::park()))
        });
        (pen, from)
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
        let (pen, written) = pen();
        let told: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for n in 0..1000 {
            pen.write(&format!("line {n}"));
        }
        let (mut seen, mut calls) = (Vec::new(), 0);
        while seen.len() < told.len() {
            let part = written.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(part.ends_with(b"\n"), "a line goes out in one call");
            seen.extend(part);
            calls += 1;
        }
        assert_eq!(seen, told);
        assert!(calls < 500, "{calls} calls for 1000 lines");
        pen.flush(Duration::from_secs(10));
        assert!(pen.page().waiting.is_empty() && !pen.page().writing);
    }

    #[test]
    fn who_stops_reading_stops_nobody() {
        let (pen, written) = pen();
        let line = "x".repeat(MOST / 4);
        pen.write(&line);
        while !pen.page().waiting.is_empty() {
            std::thread::yield_now();
        }
        let began = Instant::now();
        // One call is stuck, with the first line; behind it there is room for three.
        for _ in 0..19 {
            pen.write(&line);
        }
        assert!(began.elapsed() < PATIENCE * 5, "only the first one waits");
        assert_eq!(pen.page().left_out, 16);
        pen.flush(Duration::from_millis(1));
        assert!(pen.page().writing, "a flush has an end");
        written.recv_timeout(Duration::from_secs(10)).unwrap();
        let rest = written.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(rest.len() / line.len(), 3);
        pen.flush(Duration::from_secs(10));
        assert_eq!(pen.page().left_out, 0);
        pen.write("after");
        assert_eq!(written.recv_timeout(Duration::from_secs(10)).unwrap(), b"after\n");
    }

    #[test]
    fn a_line_longer_than_all_room_goes_out() {
        let (pen, written) = pen();
        pen.write(&"y".repeat(MOST * 2));
        assert_eq!(
            written.recv_timeout(Duration::from_secs(10)).unwrap().len(),
            MOST * 2 + 1
        );
    }
}

//! Instructions that parts of a node take, counted by callgrind: load beside them moves the numbers by less than 3 %. A change that raises
//! one says so by changing it here.
//!
//! What other threads do is not counted: of a request that executes a workflow, the engine has its own, so that its checks and polls
//! by the clock do not move the number; the encoding of its commit is counted apart.
//!
//! They are of the build that the tests run in, without optimisation: another build for them would take minutes of each run. What a
//! change adds to one it mostly adds to the other. They are of x86_64 and of one version of the compiler, as rust-toolchain.toml
//! names no version: a newer one may move all of them at once, and the message says which one counted.

use std::future::Future;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::process::Command;
use tokio::runtime::{Builder, Runtime};

/// The version of rustc of these numbers.
const RUSTC: &str = "1.95.0";

/// Tests that do a thing many times, what they do, and the instructions of each time.
const EXPECTED: [(&str, &str, f64); 6] = [
    // The one that takes longest comes first.
    (
        "http::tests::instructions::executed_workflow",
        "a request that executes a workflow",
        2_412_000.0,
    ),
    (
        "runtime::worker::tests::instructions::hello_world",
        "a burst of one activity",
        550_000.0,
    ),
    (
        "runtime::worker::tests::instructions::ten_activities",
        "a burst of ten activities",
        2_275_100.0,
    ),
    (
        "runtime::worker::tests::instructions::encoding_of_a_commit",
        "the encoding of a commit",
        661_800.0,
    ),
    ("lock::tests::instructions::local_lock", "a lock in memory", 38_097.0),
    (
        "lock::tests::instructions::postgres_lock",
        "a lock in PostgreSQL",
        335_200.0,
    ),
];

/// Seeds of hash tables move the numbers a little, and with a database the order in which answers arrive.
const TOLERANCE: f64 = 0.03;
/// A busy machine splits answers of the server, and wakes a task once more.
const TRIES: u32 = 3;
/// How often the subject does its thing: enough to level the seeds.
const REPETITIONS: u32 = 30;
/// For one subject; valgrind is some fifty times slower than the processor.
const DEADLINE: Duration = Duration::from_secs(120);
/// Says to a subject that its instructions are counted.
const COUNTED: &str = "MAINSPRING_TEST_COUNTED";

/// Of a subject: does it many times while callgrind counts the instructions of this thread.
pub(crate) fn count(mut work: impl FnMut()) {
    assert!(
        std::env::var_os(COUNTED).is_some(),
        "testing::instructions runs this test, under callgrind"
    );
    // Caches fill, and connections are opened.
    for _ in 0..5 {
        work();
    }
    counted_by_callgrind(&mut work);
}

/// The only function of this name: callgrind counts from its begin to its end.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut()) {
    for _ in 0..REPETITIONS {
        work();
    }
}

/// A runtime that does everything on the thread that is counted.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The output of a program, within the deadline; it ends with the test.
fn run(command: &mut Command) -> impl Future<Output = std::io::Result<Output>> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    async {
        tokio::time::timeout(DEADLINE, output)
            .await
            .expect("callgrind takes too long")
    }
}

/// The instructions of one time.
async fn instructions(folder: &Path, subject: &str) -> f64 {
    let file = folder.join(subject.replace("::", "."));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*counted_by_callgrind*",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", subject, "--ignored", "--test-threads=1"])
        .env(COUNTED, "1");
    let output = run(&mut valgrind).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{subject}: {said}\n{errors}"
    );
    let counts = std::fs::read_to_string(&file).unwrap();
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    let total: f64 = total.expect("callgrind writes a total").trim().parse().unwrap();
    assert!(
        total > 0.0,
        "callgrind finds no function of this name: the test program has no symbols"
    );
    total / f64::from(REPETITIONS)
}

/// A message, if it is not as expected.
async fn compared(folder: &Path, (subject, what, expected): (&str, &str, f64)) -> Option<String> {
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let found = instructions(folder, subject).await;
        println!("{what}: {found:.0} instructions");
        if (found / expected - 1.0).abs() <= TOLERANCE {
            return None;
        }
        all.push(format!("{found:.0}"));
    }
    Some(format!(
        "{what} ({subject}): {} instructions, not {expected:.0}",
        all.join(", ")
    ))
}

#[tokio::test]
async fn a_part_takes_as_many_instructions_as_are_written_here() {
    if cfg!(not(all(
        target_os = "linux",
        target_arch = "x86_64",
        debug_assertions,
        feature = "failpoints"
    ))) {
        println!(
            "not counted: the numbers are of Linux on x86_64, of a build without optimisation, with the feature failpoints"
        );
        return;
    }
    let valgrind = run(Command::new("valgrind").arg("--version")).await;
    assert!(
        valgrind.is_ok_and(|output| output.status.success()),
        "valgrind is missing, which counts instructions: apt-get install valgrind"
    );
    let folder = std::env::temp_dir().join(format!("mainspring-instructions-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&folder).unwrap();
    let counted = futures_util::stream::iter(EXPECTED).map(|expected| compared(&folder, expected));
    // Two at once, as the tests beside it need processors, too.
    let wrong: Vec<Option<String>> = counted.buffered(2).collect().await;
    std::fs::remove_dir_all(&folder).unwrap();
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    if !wrong.is_empty() {
        let rustc = run(Command::new("rustc")
            .arg("--version")
            .current_dir(env!("CARGO_MANIFEST_DIR")))
        .await;
        let rustc = rustc.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        panic!(
            "change the numbers in {}, and say why (they are of rustc {RUSTC}; this is {rustc}):\n{}",
            file!(),
            wrong.join("\n")
        );
    }
}

//! `mainspring demo`, as in a fresh clone of the repository.

use std::path::{Path, PathBuf};

use crate::support::process::{end, lives};
use crate::support::{Child, LONG_TIMEOUT, TestDatabase, poll_until};

/// A folder in which everything that the demo makes has to be: nothing else is to be left in it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;

        let place = std::env::temp_dir().join(format!("mainspring-place-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&place).unwrap();
        // root lets another user run PostgreSQL.
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(place)
    }

    fn demo(&self) -> Child {
        Child::start(&["demo"], &[("TMPDIR", self.0.to_str().unwrap())])
    }

    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The processes that were named so far.
fn pids(demo: &Child) -> Vec<String> {
    let lines = demo.stdout();
    let named = lines.iter().filter_map(|line| line.split_once(", process "));
    named.map(|(_, pid)| pid.to_owned()).collect()
}

#[tokio::test]
async fn a_node_is_killed_another_one_finishes_and_nothing_is_left() {
    let place = Place::new();
    let mut demo = place.demo();
    let code = demo.wait(LONG_TIMEOUT).code();
    let output = demo.stdout().join("\n");
    assert_eq!(code, Some(0), "{output}\n{}", demo.stderr().join("\n"));
    for step in [
        "kill -9 ",
        "has taken it over, ",
        "the workflow is finished",
        "every invariant",
        "dev --nodes 3",
    ] {
        assert!(output.contains(step), "{step}: {output}");
    }
    assert_eq!(pids(&demo).len(), 3, "{output}");
    end(&pids(&demo)).await;
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn a_demo_that_is_interrupted_says_so_and_leaves_nothing() {
    let place = Place::new();
    let mut demo = place.demo();
    poll_until(LONG_TIMEOUT, "the kill", async || {
        demo.stdout().iter().any(|line| line.contains("kill -9")).then_some(())
    })
    .await;
    demo.signal("INT");
    assert_eq!(demo.wait(LONG_TIMEOUT).code(), Some(1));
    assert!(demo.stderr().join("\n").contains("stopped"), "{:?}", demo.stderr());
    end(&pids(&demo)).await;
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn the_next_demo_removes_what_a_killed_one_left_behind() {
    let place = Place::new();
    let mut demo = place.demo();
    poll_until(LONG_TIMEOUT, "the nodes", async || {
        (pids(&demo).len() == 3).then_some(())
    })
    .await;
    demo.kill9();
    end(&pids(&demo)).await;
    let left = place.left();
    assert_eq!(left.len(), 1, "{left:?}");
    let server = std::fs::read_to_string(place.0.join(&left[0]).join("postgres/postmaster.pid")).unwrap();
    let server = server.lines().next().unwrap().to_owned();
    assert!(lives(&server));

    let mut demo = place.demo();
    poll_until(LONG_TIMEOUT, "the nodes", async || {
        (pids(&demo).len() == 3).then_some(())
    })
    .await;
    assert!(!lives(&server) && !Path::new(&place.0.join(&left[0])).exists());
    demo.signal("TERM");
    assert_eq!(demo.wait(LONG_TIMEOUT).code(), Some(1));
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn in_a_database_that_is_given_it_has_a_schema_of_its_own() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let mut demo = Child::start(&["demo", "--database-url", &url], &[]);
    let code = demo.wait(LONG_TIMEOUT).code();
    assert_eq!(code, Some(0), "{:?}\n{:?}", demo.stdout(), demo.stderr());
    let client = database.connect().await;
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    assert_eq!(client.count(query).await, 0);
}

#[test]
fn a_demo_without_a_database_fails_with_its_code() {
    let nowhere = (
        "MAINSPRING_DATABASE_URL",
        "postgres://somebody:s3cret@127.0.0.1:1/nowhere",
    );
    let mut demo = Child::start(&["demo"], &[nowhere]);
    assert_eq!(demo.wait(LONG_TIMEOUT).code(), Some(3));
    let said = demo.stderr().join("\n");
    assert!(said.contains("PostgreSQL") && !said.contains("s3cret"), "{said}");
}

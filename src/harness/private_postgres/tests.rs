//! Tests with real servers, as root and as another user. They need an installed PostgreSQL.

use std::process::Command;

use super::*;

/// A folder that every user can enter, removed at the end.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("mainspring-private-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn options(&self) -> Options {
        Options {
            folder: self.0.join("data"),
        }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn query(url: &str, sql: &str) -> std::result::Result<String, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    let answer = client.simple_query(sql).await;
    driver.abort();
    let row = answer?.into_iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
        _ => None,
    });
    Ok(row.unwrap_or_default())
}

fn kill9(pid: u32) {
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -9 {pid}")])
            .status()
            .unwrap()
            .success()
    );
}

/// The state after a `kill -9` of the program: the server runs, and the folder is not locked.
fn abandon(postgres: PrivatePostgres) -> u32 {
    let PrivatePostgres { server, folder, .. } = postgres;
    let pid = server.child.id().unwrap();
    std::mem::forget(server);
    drop(folder);
    pid
}

fn port(url: &str) -> u16 {
    url.rsplit_once('/')
        .unwrap()
        .0
        .rsplit_once(':')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_postgres_survives_kills_of_program_and_server() {
    let temp = TempFolder::new();
    let postgres = start(temp.options()).await.unwrap();
    let url = postgres.url().to_owned();
    assert_eq!(postgres.folder(), temp.0.join("data").canonicalize().unwrap());
    assert_eq!(postgres.notice(), None);
    assert_eq!(query(&url, "SHOW fsync").await.unwrap(), "on");
    assert_eq!(query(&url, "SHOW listen_addresses").await.unwrap(), "127.0.0.1");
    assert_eq!(query(&url, "SELECT current_database()").await.unwrap(), "mainspring");
    query(&url, "CREATE TABLE kept AS SELECT 'precious' AS it")
        .await
        .unwrap();

    // Connections need the password, which only its owner can read.
    let other = url.replace(postgres.folder.password(), "guessed");
    assert!(query(&other, "SELECT 1").await.unwrap_err().code() == Some(&SqlState::INVALID_PASSWORD));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(postgres.folder().join("password"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    assert!(!postgres.folder().join("initdb.password").exists());
    // A Ctrl-C goes to the process group of the terminal.
    let pid = postgres.server.child.id().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert_eq!(
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(2),
        Some(pid.to_string().as_str())
    );

    // A second start in the same folder is refused, and the first one continues.
    let refused = start(temp.options()).await.err().unwrap();
    assert_eq!(refused.code(), "data-folder-in-use");
    assert_eq!(query(&url, "SELECT it FROM kept").await.unwrap(), "precious");

    // An orderly stop, and a start: the same URL, the same data.
    postgres.stop().await.unwrap();
    assert!(query(&url, "SELECT 1").await.is_err());
    let postgres = start(temp.options()).await.unwrap();
    assert_eq!(postgres.url(), url);

    // The program is killed, and the server still runs.
    let pid = abandon(postgres);
    let mut postgres = start(temp.options()).await.unwrap();
    assert_ne!(postgres.server.child.id(), Some(pid));
    assert_eq!(query(postgres.url(), "SELECT it FROM kept").await.unwrap(), "precious");

    // The server is killed: the exit is reported, and the next start recovers.
    kill9(postgres.server.child.id().unwrap());
    let end = tokio::time::timeout(Duration::from_secs(60), postgres.exited())
        .await
        .unwrap();
    assert!(end.message().contains("signal: 9"), "{end}");
    drop(postgres);
    let postgres = start(temp.options()).await.unwrap();
    assert_eq!(query(postgres.url(), "SELECT it FROM kept").await.unwrap(), "precious");

    // Both are killed while a backend is busy: the new server waits for its exit.
    let busy = postgres.url().to_owned();
    let busy = tokio::spawn(async move {
        let endless = "SET statement_timeout = '3s'; DO $$ BEGIN LOOP END LOOP; END $$";
        query(&busy, endless).await
    });
    let begun = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LOOP END LOOP%' AND pid <> pg_backend_pid()";
    while query(postgres.url(), begun).await.unwrap() == "0" {
        tokio::task::yield_now().await;
    }
    kill9(abandon(postgres));
    let postgres = start(temp.options()).await.unwrap();
    assert_eq!(query(postgres.url(), "SELECT it FROM kept").await.unwrap(), "precious");
    assert!(busy.await.unwrap().is_err());

    // Dropped without a stop: the server exits.
    let pid = postgres.server.child.id().unwrap();
    drop(postgres);
    let mut attempts = 100;
    while !std::fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .is_empty()
    {
        attempts -= 1;
        assert!(attempts > 0, "a dropped server does not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // After a restart of the machine another process has the server's process id.
    let folder = ServerFolder::open(&temp.options().folder).unwrap();
    let mut other_process = folder.command(Path::new("sleep")).arg("600").spawn().unwrap();
    let stale = format!("{}\n{}\n1\n1\n", other_process.id(), folder.cluster().display());
    std::fs::write(folder.cluster().join("postmaster.pid"), stale).unwrap();
    drop(folder);
    let taken = TcpListener::bind(("127.0.0.1", port(&url))).unwrap();
    let postgres = start(temp.options()).await.unwrap();
    assert!(
        other_process.try_wait().unwrap().is_none(),
        "the other process still runs"
    );
    other_process.kill().unwrap();
    other_process.wait().unwrap();
    assert_ne!(port(postgres.url()), port(&url), "the port was taken");
    assert_eq!(query(postgres.url(), "SELECT it FROM kept").await.unwrap(), "precious");
    drop(taken);
    postgres.stop().await.unwrap();

    // A missing password is reported, and nothing is changed.
    std::fs::remove_file(temp.0.join("data/password")).unwrap();
    let refused = start(temp.options()).await.err().unwrap();
    assert!(refused.message().contains("password is missing"), "{refused}");
}

#[tokio::test]
async fn an_interrupted_initdb_is_repeated_and_a_foreign_folder_is_not_touched() {
    let temp = TempFolder::new();
    let data = temp.0.join("data");
    std::fs::create_dir_all(data.join("postgres.new/base")).unwrap();
    std::fs::write(data.join("postgres.new/PG_VERSION"), "15\n").unwrap();
    std::fs::create_dir(data.join("postgres")).unwrap();
    std::fs::write(data.join("postgres/thesis.txt"), "years of work").unwrap();
    let folder = ServerFolder::open(&data);
    // As root, a folder `postgres` of root's is refused even earlier.
    if let Ok(folder) = folder {
        let refused = folder.prepare_cluster().unwrap_err();
        assert!(refused.message().contains("is not a PostgreSQL cluster"), "{refused}");
    }
    assert!(data.join("postgres/thesis.txt").exists());

    std::fs::remove_dir_all(data.join("postgres")).unwrap();
    let folder = ServerFolder::open(&data).unwrap();
    let making = folder.prepare_cluster().unwrap();
    assert_eq!(std::fs::read_dir(making).unwrap().count(), 0);
}

#[test]
fn as_root_a_folder_that_the_server_cannot_enter_is_replaced_with_a_notice() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let temp = TempFolder::new();
    if std::fs::metadata(&temp.0).unwrap().uid() != 0 {
        return;
    }
    std::fs::set_permissions(&temp.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    let wanted = temp.options().folder;
    let folder = ServerFolder::open(&wanted).unwrap();
    let taken = folder.path().to_owned();
    assert!(!taken.starts_with(&temp.0));
    assert!(!wanted.exists());
    assert!(folder.notice().unwrap().contains(&taken.display().to_string()));
    drop(folder);
    let again = ServerFolder::open(&wanted).unwrap();
    assert_eq!(again.path(), taken, "always the same one");
    drop(again);
    std::fs::remove_dir_all(&taken).unwrap();
    // It fails while another run uses it.
    let _ = std::fs::remove_dir(taken.parent().unwrap());
}

/// Whether this is root: only root can set these tests up.
fn is_root(temp: &TempFolder) -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&temp.0).unwrap()) == 0
}

const ANOTHER: u32 = 65_534;

#[test]
fn root_follows_no_link_in_a_folder_of_another_user() {
    let temp = TempFolder::new();
    if !is_root(&temp) {
        return;
    }
    let (theirs, target) = (temp.0.join("theirs"), temp.0.join("target"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, theirs.join("data")).unwrap();
    std::os::unix::fs::lchown(theirs.join("data"), Some(ANOTHER), None).unwrap();
    std::os::unix::fs::chown(&theirs, Some(ANOTHER), None).unwrap();

    // Without a cluster another folder is used, with a notice; also below a foreign folder without a link.
    for wanted in [theirs.join("data"), theirs.join("new/data")] {
        let folder = ServerFolder::open(&wanted).unwrap();
        let taken = folder.path().to_owned();
        assert!(!taken.starts_with(&temp.0), "{}", taken.display());
        assert!(
            folder.notice().unwrap().contains("belongs to the user 65534"),
            "{:?}",
            folder.notice()
        );
        drop(folder);
        std::fs::remove_dir_all(&taken).unwrap();
        let _ = std::fs::remove_dir(taken.parent().unwrap());
    }
    assert_eq!(
        std::fs::read_dir(&target).unwrap().count(),
        0,
        "nothing was written where the link leads"
    );
    assert!(!theirs.join("new").exists());

    // With a cluster it is refused: another folder would be another database.
    std::fs::create_dir(target.join("postgres")).unwrap();
    std::os::unix::fs::chown(target.join("postgres"), Some(ANOTHER), None).unwrap();
    let refused = ServerFolder::open(&theirs.join("data")).err().unwrap();
    assert!(refused.message().contains("belongs to the user 65534"), "{refused}");
    assert!(!target.join("lock").exists());
}

#[test]
fn the_lock_file_is_private_and_no_link_is_followed() {
    use std::os::unix::fs::PermissionsExt;

    let temp = TempFolder::new();
    let wanted = temp.options().folder;
    let folder = ServerFolder::open(&wanted).unwrap();
    let lock = folder.path().join("lock");
    assert_eq!(std::fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
    drop(folder);
    let target = temp.0.join("target");
    std::fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&target, &lock).unwrap();
    let refused = ServerFolder::open(&wanted).err().unwrap();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    assert!(!target.exists());
}

#[test]
fn only_transient_start_failures_are_retried() {
    let waiting = "FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use";
    assert!(is_transient(waiting));
    assert!(!is_transient("FATAL:  data directory \"/x\" has invalid permissions"));
}

/// Accepts connections as another local user's program would that bound the port first: it asks for a password in the clear
/// and keeps what it is sent.
async fn thief(listener: tokio::net::TcpListener, sent: tokio::sync::mpsc::UnboundedSender<Vec<u8>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).await.unwrap_or(0);
        let _ = sent.send(bytes[..read].to_vec());
        // AuthenticationCleartextPassword.
        let _ = stream.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]).await;
        let read = stream.read(&mut bytes).await.unwrap_or(0);
        let _ = sent.send(bytes[..read].to_vec());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_binds_the_port_first_is_sent_no_password() {
    let temp = TempFolder::new();
    start(temp.options()).await.unwrap().stop().await.unwrap();

    let folder = ServerFolder::open(&temp.options().folder).unwrap();
    let installation = Installation::find(folder.cluster_version().unwrap()).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
    let thief = tokio::spawn(thief(listener, sent));
    let mut server = Server::spawn(&folder, &installation, port).unwrap();
    let ready = server.until_ready(&folder, &installation, port).await.unwrap();
    assert!(matches!(ready, Ready::Exited(_)));
    // Nothing was sent while the server started, either.
    thief.abort();
    assert_eq!(received.recv().await, None);
}

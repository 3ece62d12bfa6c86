//! A real pgbouncer in transaction mode: a node refuses it, names the remedy, and works past it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::{Child, Http, TIMEOUT, TestDatabase, assert_contains, assert_wrong_server, poll_until};

/// A pgbouncer of the test's own.
struct Pooler {
    url: String,
    folder: PathBuf,
    _child: Child,
}

impl Pooler {
    async fn start(database: &TestDatabase, settings: &str) -> Self {
        let server = reqwest::Url::parse(&database.url()).unwrap();
        let (host, port) = (server.host_str().unwrap(), server.port().unwrap_or(5432));
        let (user, password) = (server.username(), server.password().unwrap_or_default());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let free = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = std::env::temp_dir().join(format!("mainspring-pooler-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (ini, users) = (folder.join("pgbouncer.ini"), folder.join("users"));
        std::fs::write(&users, format!("\"{user}\" \"{password}\"\n")).unwrap();
        let text = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {free}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n{settings}\n",
            users.display()
        );
        std::fs::write(&ini, text).unwrap();
        let ini = ini.display().to_string();
        // It will not run as root.
        let root = std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
        let arguments: &[&str] = if root { &["-u", "nobody", &ini] } else { &[&ini] };
        let program = [
            "/usr/sbin/pgbouncer",
            "/usr/bin/pgbouncer",
            "/opt/homebrew/bin/pgbouncer",
        ]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
        .expect("there is no pgbouncer here: run scripts/install-missing pgbouncer");
        let child = Child::program(program, arguments, &[]);
        poll_until(TIMEOUT, "the pooler to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", free)).await.ok()
        })
        .await;
        let mut url = server;
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(free)).unwrap();
        Self {
            url: url.into(),
            folder,
            _child: child,
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A node and a migration end at once, with the remedy.
fn is_refused(pooler: &Pooler, why: &str) {
    assert_wrong_server(&pooler.url, &["--direct-database-url", why]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_with_the_remedy_and_the_remedy_works() {
    let database = TestDatabase::empty().await;
    let pooler = Pooler::start(&database, "").await;
    is_refused(&pooler, "it refuses the settings of a session");
    let mut doctor = Child::start(&["doctor", "--database-url", &pooler.url], &[]);
    assert_eq!(doctor.wait(TIMEOUT).code(), Some(1), "{:?}", doctor.stderr());
    let printed = doctor.stdout().join("\n");
    assert_contains(
        &printed,
        &["problem: session: ", "pooler", "  remedy: ", "--direct-database-url"],
    );
    let direct = database.url();
    let node = Child::start(
        &["serve", "--listen", "127.0.0.1:0", "--database-url", &pooler.url],
        &[("MAINSPRING_DIRECT_DATABASE_URL", &direct)],
    );
    let http = Http::new(&node.wait_for_line("ready ", TIMEOUT));
    crate::support::node::publish(&http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_swallows_settings_is_refused() {
    let database = TestDatabase::empty().await;
    let pooler = Pooler::start(&database, "ignore_startup_parameters = options").await;
    is_refused(&pooler, "the settings of a session are lost");
    let client = database.connect().await;
    let schemas = client
        .query("SELECT 1 FROM pg_namespace WHERE nspname = 'mainspring'", &[])
        .await
        .unwrap();
    assert!(schemas.is_empty(), "it was refused too late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_recognized_by_its_sessions() {
    let database = TestDatabase::empty().await;
    // As if the settings had reached it.
    let client = database.connect().await;
    let name = database.name();
    client
        .run(&format!("ALTER DATABASE {name} SET search_path = mainspring,pg_temp"))
        .await;
    let settings = "ignore_startup_parameters = options";
    let pooler = Pooler::start(&database, settings).await;
    is_refused(&pooler, "run in two sessions");
    let pooler = Pooler::start(&database, &format!("{settings}\ndefault_pool_size = 1")).await;
    is_refused(&pooler, "waits while another one is in a transaction");
}

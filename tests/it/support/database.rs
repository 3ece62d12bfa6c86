//! A database per test, on the server that `scripts/test` started.

use std::ops::Deref;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, NoTls};

const PREFIX: &str = "mainspring_test_";

/// Databases of runs that were killed are dropped when they are older than this; younger ones may belong to a run that
/// continues beside this one.
const STRAY_AFTER: Duration = Duration::from_secs(3600);

mod embedded {
    refinery::embed_migrations!("sql/migrations");
}

/// A database that is dropped at the end, with all its connections.
pub(crate) struct TestDatabase {
    server: String,
    name: String,
    dropped: bool,
}

/// A client with its driver task; both end together.
pub(crate) struct Connection {
    client: Client,
    driver: tokio::task::JoinHandle<()>,
}

impl TestDatabase {
    /// Makes one whose schema `mainspring` is what this version makes of it. It is a copy, as all the migrations take
    /// many times as long.
    pub(crate) async fn create() -> Self {
        drop_strays_once().await;
        let server = connect(server_url()).await;
        let mut tries = 0;
        loop {
            let template = template(&server).await;
            let name = new_name();
            // Less work for the server than its default; before PostgreSQL 15 the only way.
            let version = "SELECT current_setting('server_version_num')::integer >= 150000";
            let strategy = match server.query_one(version, &[]).await.unwrap().get(0) {
                true => "STRATEGY file_copy",
                false => "",
            };
            let copy = format!("CREATE DATABASE {name} TEMPLATE {template} {strategy}");
            match server.batch_execute(&copy).await {
                Ok(()) => return Self::named(server_url(), name),
                // Another run has just deleted it as a stray.
                Err(error) if tries < 3 => eprintln!("no copy of {template}: {error}"),
                Err(error) => panic!("no copy of {template}: {error}"),
            }
            tries += 1;
        }
    }

    /// Makes one with nothing in it.
    pub(crate) async fn empty() -> Self {
        drop_strays_once().await;
        Self::create_on(server_url()).await
    }

    /// Makes one with nothing in it on another server, by the URL of its superuser.
    pub(crate) async fn create_on(server: &str) -> Self {
        let name = new_name();
        let client = connect(server).await;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self::named(server, name)
    }

    fn named(server: &str, name: String) -> Self {
        Self {
            server: server.to_owned(),
            name,
            dropped: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL of its superuser.
    pub(crate) fn url(&self) -> String {
        url_of(&self.server, &self.name)
    }

    pub(crate) async fn connect(&self) -> Connection {
        connect(&self.url()).await
    }

    /// A connection to another database of the same server, to do to this one what an operator could.
    pub(crate) async fn connect_to_server(&self) -> Connection {
        connect(&self.server).await
    }

    /// Drops it now, where a test wants to see the error.
    pub(crate) async fn drop(mut self) {
        self.dropped = true;
        drop_database(&self.server, &self.name).await.unwrap();
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.dropped {
            return;
        }
        // The test's runtime may be single-threaded, and it is busy dropping us.
        let (server, name) = (self.server.clone(), self.name.clone());
        let helper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { drop_database(&server, &name).await.map_err(std::io::Error::other) })
        });
        if !matches!(helper.join(), Ok(Ok(()))) {
            eprintln!("could not drop the database {}", self.name);
        }
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl std::ops::DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub(super) async fn connect(url: &str) -> Connection {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("connect to the test server");
    let driver = tokio::spawn(async move {
        // A test that kills its connection sees that at the client.
        let _ = connection.await;
    });
    Connection { client, driver }
}

fn server_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        std::env::var("MAINSPRING_TEST_DATABASE_URL").expect(
            "MAINSPRING_TEST_DATABASE_URL is not set. Run scripts/test, which starts a PostgreSQL for the tests; or \
             set it to the URL of a superuser of a PostgreSQL that holds nothing of value",
        )
    })
}

fn url_of(server: &str, database: &str) -> String {
    let mut url = reqwest::Url::parse(server).expect("the URL of the server is a URL");
    url.set_path(database);
    url.into()
}

fn new_name() -> String {
    format!("{PREFIX}{}_{}", epoch(), uuid::Uuid::new_v4().simple())
}

/// The template database. The first test that needs it creates it, whatever other runs continue beside this one:
/// each set of migrations has its own, and it has its name only when all is in it. It is deleted as a stray, too.
async fn template(server: &Client) -> String {
    let migrations = embedded::migrations::runner();
    let known = migrations.get_migrations().iter();
    let key = known.fold(0_u64, |key, migration| {
        key.wrapping_mul(31).wrapping_add(migration.checksum())
    });
    let ending = format!("_template_{key:016x}");
    let find = async || {
        let sql = "SELECT max(datname::text) FROM pg_database WHERE starts_with(datname::text, $1)
                   AND right(datname::text, length($2)) = $2";
        let row = server.query_one(sql, &[&PREFIX, &ending]).await.unwrap();
        row.get::<_, Option<String>>(0)
    };
    if let Some(found) = find().await {
        return found;
    }
    let lock = "SELECT pg_advisory_lock(hashtext('mainspring_test_template'))";
    server.batch_execute(lock).await.unwrap();
    let found = match find().await {
        Some(found) => found,
        None => {
            let unfinished = new_name();
            let create = format!("CREATE DATABASE {unfinished}");
            server.batch_execute(&create).await.unwrap();
            let mut client = connect(&url_of(server_url(), &unfinished)).await;
            let schema = "CREATE SCHEMA mainspring; SET search_path = mainspring, pg_temp; SET timezone = 'UTC'";
            client.batch_execute(schema).await.unwrap();
            migrations.run_async(&mut *client).await.unwrap();
            // As the first node does at its start.
            client.batch_execute("SELECT ensure_partitions(7)").await.unwrap();
            drop(client);
            let made = format!("{PREFIX}{}{ending}", epoch());
            // The server waits until no session is connected.
            let rename = format!("ALTER DATABASE {unfinished} RENAME TO {made}");
            server.batch_execute(&rename).await.unwrap();
            made
        }
    };
    let unlock = "SELECT pg_advisory_unlock(hashtext('mainspring_test_template'))";
    server.batch_execute(unlock).await.unwrap();
    found
}

async fn drop_database(server: &str, name: &str) -> Result<(), tokio_postgres::Error> {
    let server = connect(server).await;
    // The server waits for all of its sessions, also those of other databases.
    server.batch_execute("SET statement_timeout = '60s'").await?;
    server
        .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        .await
}

async fn drop_strays_once() {
    static DONE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    DONE.get_or_init(async || {
        let server = connect(server_url()).await;
        let rows = server
            .query("SELECT datname::text FROM pg_database", &[])
            .await
            .unwrap();
        for name in rows
            .iter()
            .map(|row| row.get::<_, String>(0))
            .filter(|name| is_stray(name, epoch()))
        {
            // Another run may drop it at the same moment.
            let _ = drop_database(server_url(), &name).await;
        }
    })
    .await;
}

/// The name holds the second in which the database was made.
fn is_stray(name: &str, now: u64) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('_'))
        .and_then(|(made, _)| made.parse::<u64>().ok())
        .is_some_and(|made| made + STRAY_AFTER.as_secs() < now)
}

fn epoch() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::{TestDatabase, is_stray};

    #[tokio::test]
    async fn a_database_is_fresh_and_gone_at_the_end_even_while_in_use() {
        let database = TestDatabase::create().await;
        let server = database.connect_to_server().await;
        let exists = async |name: &str| {
            let found = server
                .query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name])
                .await;
            !found.unwrap().is_empty()
        };
        let name = database.name().to_owned();
        let mut client = database.connect().await;
        let transaction = client.transaction().await.unwrap();
        let row = transaction
            .query_one("SELECT current_database()::text", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, String>(0), name);
        assert!(exists(&name).await);
        std::mem::drop(database);
        assert!(!exists(&name).await);

        let database = TestDatabase::create().await;
        let name = database.name().to_owned();
        let _in_use = database.connect().await;
        database.drop().await;
        assert!(!exists(&name).await);
    }

    #[test]
    fn only_old_databases_of_tests_are_strays() {
        assert!(is_stray("mainspring_test_1000_abc", 9000));
        assert!(!is_stray("mainspring_test_8999_abc", 9000));
        assert!(!is_stray("mainspring_test_abc", 9000));
        assert!(!is_stray("postgres", 9000));
    }
}

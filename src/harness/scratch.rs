//! A database for one run of the demo or of a benchmark: a new schema in a given database, or a private PostgreSQL in a
//! temporary folder. It is removed at the end.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::Failure;
use super::private_postgres::{self, Options, PrivatePostgres};
use crate::Result as EngineResult;
use crate::db::{Connector, DatabaseUrl, SchemaName, Session, migrate};

/// The prefix of the temporary folders.
const FOLDER: &str = "mainspring-demo-";

/// How long to retry the drop of the schema while the last sessions of killed nodes hold locks on it.
const DROP_TIMEOUT: Duration = Duration::from_secs(20);

/// The database. Its owner calls [`ScratchDatabase::remove`], also after a failure. If it is only dropped, a private
/// PostgreSQL shuts down, and the next run removes its folder.
pub struct ScratchDatabase {
    /// The URL of the database.
    pub url: String,
    /// The schema of the run.
    pub schema: String,
    postgres: Option<PrivatePostgres>,
}

impl ScratchDatabase {
    /// Creates and migrates a schema in a given database; `program` becomes part of its name.
    pub async fn create_schema(url: &str, program: &str) -> Result<Self, Failure> {
        let scratch = Self {
            url: url.to_owned(),
            schema: format!("mainspring_{program}_{:08x}", rand::random::<u32>()),
            postgres: None,
        };
        match migrate::run(&scratch.connector()?).await {
            Ok(_) => Ok(scratch),
            Err(error) => {
                let _ = migrate::drop_schema(&scratch.connector()?).await;
                Err(error.into())
            }
        }
    }

    /// A schema that exists.
    pub fn existing(url: &str, schema: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: schema.to_owned(),
            postgres: None,
        }
    }

    /// Starts a private PostgreSQL in a temporary folder. Not cancellation safe: the folder would stay.
    pub(crate) async fn start_private(folder: &Path) -> Result<Self, Failure> {
        let started = private_postgres::start(Options {
            folder: folder.to_owned(),
        });
        let postgres = match started.await {
            Ok(postgres) => postgres,
            Err(error) => {
                let _ = std::fs::remove_dir_all(folder);
                return Err(error.into());
            }
        };
        Ok(Self {
            url: postgres.url().to_owned(),
            schema: "mainspring".to_owned(),
            postgres: Some(postgres),
        })
    }

    /// The path of a new temporary folder. Removes the folders that killed runs left behind.
    pub(crate) async fn temporary_folder() -> PathBuf {
        let parent = std::env::temp_dir();
        for folder in leftover_folders(&parent) {
            // It fails while another run uses the folder.
            let _ = private_postgres::remove(&folder).await;
        }
        parent.join(format!("{FOLDER}{:016x}", rand::random::<u64>()))
    }

    fn connector(&self) -> EngineResult<Connector> {
        Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)
    }

    /// Opens a session that belongs to no node.
    pub(crate) async fn open(&self) -> Result<Session, Failure> {
        Ok(self.connector()?.open().await?)
    }

    /// Waits for the unexpected exit of the private PostgreSQL; pends forever if there is none. Cancellation safe.
    pub(crate) async fn server_exited(&mut self) -> Failure {
        match &mut self.postgres {
            Some(postgres) => postgres.exited().await.into(),
            None => std::future::pending().await,
        }
    }

    /// Drops the schema, or stops the server and removes its folder. Precondition: all nodes have exited.
    pub async fn remove(self) -> Result<(), Failure> {
        let Some(postgres) = self.postgres else {
            let connector = self.connector()?;
            let began = tokio::time::Instant::now();
            loop {
                match migrate::drop_schema(&connector).await {
                    Err(error) if error.is_transient() && began.elapsed() < DROP_TIMEOUT => {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    outcome => return Ok(outcome?),
                }
            }
        };
        let folder = postgres.folder().to_owned();
        let stopped = postgres.stop().await;
        let removed = std::fs::remove_dir_all(&folder)
            .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", folder.display())));
        stopped?;
        removed
    }
}

/// The temporary folders of this user's earlier runs.
fn leftover_folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let user = std::fs::metadata("/proc/self").map(|process| process.uid()).ok();
    let owned = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(FOLDER)
            && entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && Some(found.uid()) == user)
    };
    entries.flatten().filter(owned).map(|entry| entry.path()).collect()
}

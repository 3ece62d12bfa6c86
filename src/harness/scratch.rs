//! Where a program tries things that nobody wants to keep: a schema of its own in a database that is given, or in a
//! private PostgreSQL in a temporary folder. Afterwards nothing of it is left.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::Failure;
use super::private_postgres::{self, Options, PrivatePostgres};
use crate::Result as EngineResult;
use crate::db::{Connector, DatabaseUrl, SchemaName, Session, migrate};

/// How the temporary folders begin.
const FOLDER: &str = "mainspring-demo-";

/// How long the last sessions of nodes that were killed may stand in the way of dropping the schema.
const DROP_PATIENCE: Duration = Duration::from_secs(20);

/// The place. To be cleared by its owner, also after a failure; dropped without that, a private PostgreSQL shuts down,
/// and its folder is taken away by the next one who comes.
pub(crate) struct ScratchDatabase {
    pub(crate) url: String,
    pub(crate) schema: String,
    postgres: Option<PrivatePostgres>,
}

impl ScratchDatabase {
    /// A schema of its own in a database that is given; `what` names the program.
    pub(crate) async fn in_database(url: &str, what: &str) -> Result<Self, Failure> {
        let scratch = Self {
            url: url.to_owned(),
            schema: format!("mainspring_{what}_{:08x}", rand::random::<u32>()),
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

    /// A private PostgreSQL in a temporary folder. Not to be dropped half-way: the folder would be left.
    pub(crate) async fn private(folder: &Path) -> Result<Self, Failure> {
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

    /// A temporary folder that is not there yet. What others left behind who were killed is cleared away.
    pub(crate) async fn folder() -> PathBuf {
        let place = std::env::temp_dir();
        for stray in strays(&place) {
            // Somebody may be using it: then it cannot be had.
            let _ = private_postgres::remove(&stray).await;
        }
        place.join(format!("{FOLDER}{:016x}", rand::random::<u64>()))
    }

    fn connector(&self) -> EngineResult<Connector> {
        Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)
    }

    /// A connection that belongs to no node.
    pub(crate) async fn open(&self) -> Result<Session, Failure> {
        Ok(self.connector()?.open().await?)
    }

    /// Waits for the end of a private PostgreSQL that nobody asked to stop; for ever if there is none. Cancellation
    /// safe.
    pub(crate) async fn died(&mut self) -> Failure {
        match &mut self.postgres {
            Some(postgres) => postgres.died().await.into(),
            None => std::future::pending().await,
        }
    }

    /// Takes all of it away. The nodes have ended.
    pub(crate) async fn clear(self) -> Result<(), Failure> {
        let Some(postgres) = self.postgres else {
            let connector = self.connector()?;
            let began = tokio::time::Instant::now();
            loop {
                match migrate::drop_schema(&connector).await {
                    Err(error) if error.is_transient() && began.elapsed() < DROP_PATIENCE => {
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

/// Folders of ours in a place where others have theirs, too.
fn strays(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place) else {
        return Vec::new();
    };
    let us = std::fs::metadata("/proc/self").map(|us| us.uid()).ok();
    let ours = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(FOLDER)
            && entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && Some(found.uid()) == us)
    };
    entries.flatten().filter(ours).map(|entry| entry.path()).collect()
}

//! A file that is being written.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::file::{FileName, Stored};
use super::room::Owner;
use super::{Opened, SpoolFile, refused};
use crate::{Error, Result};

/// What is written at once, in bytes. The next part fills meanwhile, so a writer takes twice this much memory.
const PART_BYTES: usize = 256 * 1024;

/// A file that is being written; dropping it deletes the file.
#[derive(Debug)]
pub(crate) struct SpoolWriter {
    name: FileName,
    file: Arc<File>,
    length: u64,
    part: Vec<u8>,
    /// The part before.
    writing: Option<JoinHandle<std::io::Result<()>>>,
}

impl SpoolWriter {
    pub(super) async fn create(opened: Arc<Opened>, owner: Owner) -> Result<Self> {
        let place = opened.room.file(owner)?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let path = opened.folder.path().join(&id);
        let created = tokio::task::spawn_blocking(move || {
            let mut options = OpenOptions::new();
            let made = options.write(true).create_new(true).mode(0o600).open(&path);
            let file = made.map_err(|error| refused(&path, error))?;
            // Made here, so that a caller that is dropped meanwhile leaves no file.
            let name = FileName {
                id,
                path,
                opened: Some(opened),
                place: Some(place),
            };
            Ok::<_, Error>((file, name))
        });
        let (file, name) = created.await.map_err(panicked)??;
        Ok(Self {
            name,
            file: Arc::new(file),
            length: 0,
            part: Vec::new(),
            writing: None,
        })
    }

    /// Appends bytes. Errors: `spool-full`, `spool-unavailable`; the file is then of no use. Not cancellation safe.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match &mut self.name.place {
            Some(place) => place.grow(length)?,
            None => return Err(Error::internal("a file of the spool has no place")),
        }
        self.length += length;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.part.capacity() == 0 {
                self.part.reserve_exact(PART_BYTES);
            }
            let (now, later) = rest.split_at(rest.len().min(PART_BYTES - self.part.len().min(PART_BYTES)));
            self.part.extend_from_slice(now);
            rest = later;
            if self.part.len() >= PART_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Begins to write the part, once the one before is written.
    async fn flush(&mut self) -> Result<()> {
        self.written().await?;
        let part = std::mem::take(&mut self.part);
        let file = Arc::clone(&self.file);
        self.writing = Some(tokio::task::spawn_blocking(move || (&*file).write_all(&part)));
        Ok(())
    }

    /// Waits until what was flushed is written.
    async fn written(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else {
            return Ok(());
        };
        let written = writing.await.map_err(panicked)?;
        written.map_err(|error| refused(&self.name.path, error))
    }

    /// Completes the file. It is not synced: a crash of the machine ends all who could read it.
    pub(crate) async fn finish(mut self) -> Result<SpoolFile> {
        if !self.part.is_empty() {
            self.flush().await?;
        }
        self.written().await?;
        let Self { name, length, .. } = self;
        let opened = name.opened.clone();
        let stored = Arc::new(Stored { name, length });
        if let Some(opened) = opened {
            let id = stored.name.id.clone();
            opened.files().insert(id, Arc::downgrade(&stored));
        }
        Ok(SpoolFile(stored))
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::internal("writing to the spool panicked").caused_by(error)
}

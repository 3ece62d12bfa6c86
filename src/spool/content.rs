//! Bytes that go to the spool once they are too many for memory.

use super::{Spool, SpoolFile, SpoolWriter};
use crate::Result;

/// Bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct SpoolContent {
    bytes: Vec<u8>,
    writer: Option<SpoolWriter>,
}

/// Where all of the bytes are.
#[derive(Debug)]
pub(crate) enum SpoolPlace {
    Memory(Vec<u8>),
    File(SpoolFile),
}

impl SpoolContent {
    /// What is in memory, in bytes.
    pub(crate) fn in_memory(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes; they stay in memory up to `most`. Errors: those of [`SpoolWriter::write`]. Not cancellation safe.
    pub(crate) async fn write(&mut self, part: &[u8], most: usize, spool: &Spool) -> Result<()> {
        if self.writer.is_none() && self.bytes.len() + part.len() > most {
            self.writer = Some(spool.create().await?);
        }
        match &mut self.writer {
            Some(writer) => {
                let before = std::mem::take(&mut self.bytes);
                if !before.is_empty() {
                    writer.write(&before).await?;
                }
                writer.write(part).await
            }
            None => {
                self.bytes.extend_from_slice(part);
                Ok(())
            }
        }
    }

    /// Completes the file, if there is one.
    pub(crate) async fn finish(self) -> Result<SpoolPlace> {
        match self.writer {
            Some(writer) => Ok(SpoolPlace::File(writer.finish().await?)),
            None => Ok(SpoolPlace::Memory(self.bytes)),
        }
    }
}

//! What the HTTP activities share.

use super::file_value::{FileContent, FileValue};
use crate::activity::{AnswerBody, Fault};
use crate::outgoing::OutgoingClient;
use crate::spool::{Spool, SpoolFile};

/// Where workflows are served, unless a program says it.
pub(super) const DEFAULT_BASE_PATH: &str = "/workflows";

/// What the HTTP activities share: where workflows are served, and the files of this process.
#[derive(Debug)]
pub(crate) struct HttpServices {
    /// Scheme and authority under which clients reach the server, perhaps with a path. `None`: as each of them names it.
    pub(crate) base_url: Option<String>,
    /// The path below which workflows are served: `/workflows`. It is not empty.
    pub(crate) base_path: String,
    /// The files that are too large for memory.
    pub(crate) spool: Spool,
    /// The client of requests to other servers.
    pub(crate) outgoing: OutgoingClient,
}

impl Default for HttpServices {
    fn default() -> Self {
        Self {
            base_url: None,
            base_path: DEFAULT_BASE_PATH.to_owned(),
            spool: Spool::default(),
            outgoing: OutgoingClient::default(),
        }
    }
}

impl HttpServices {
    /// What stands before the path of an endpoint: `https://workflows.example/workflows/`, or without the base URL `/workflows/`.
    pub(crate) fn complete_base_url(&self) -> String {
        let base_url = self.base_url.as_deref().unwrap_or_default();
        format!(
            "{}/{}/",
            base_url.trim_end_matches('/'),
            self.base_path.trim_matches('/')
        )
    }

    /// The bytes of a file, whatever its value says of one in the spool.
    /// Errors: as of [`Self::content_of`].
    pub(crate) fn length_of(&self, file: &FileValue) -> Result<u64, Fault> {
        match &file.content {
            // It was counted when the value was read.
            FileContent::Inline(_) => Ok(file.length),
            FileContent::Spooled(id) => self.spooled(id, file).map(|found| found.length()),
        }
    }

    /// The content of a file.
    /// Errors: it was kept in the spool, and is gone.
    pub(crate) fn content_of(&self, file: &FileValue) -> Result<AnswerBody, Fault> {
        match &file.content {
            FileContent::Inline(bytes) => Ok(AnswerBody::Bytes(bytes.clone())),
            FileContent::Spooled(id) => self.spooled(id, file).map(AnswerBody::File),
        }
    }

    fn spooled(&self, id: &str, file: &FileValue) -> Result<SpoolFile, Fault> {
        self.spool.find(id).ok_or_else(|| gone(file))
    }
}

fn gone(file: &FileValue) -> Fault {
    let message = format!(
        "The file {:?} ({} bytes) is gone: a file of this size is kept only for the burst that received it, and the workflow has \
         waited since; use it before the workflow waits, or store it elsewhere and keep a reference",
        file.filename, file.length
    );
    Fault::new(message).code("file-gone").category("HTTP")
}

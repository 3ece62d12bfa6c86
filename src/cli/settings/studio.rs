//! Settings of Elsa Studio.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::api::Studio;

/// The value of `--studio` that serves no Studio.
const OFF: &str = "off";

/// Which Studio `serve` and `dev` offer at `/studio`.
#[derive(Debug, Args)]
pub(crate) struct StudioChoice {
    /// The folder of Elsa Studio, which is served at /studio; `off` serves none. By default the one that
    /// `mainspring studio install` has installed
    #[arg(long, value_name = "FOLDER|off")]
    studio: Option<PathBuf>,
    /// Let Studio poll for changes instead of keeping a WebSocket to the hub, for proxies that do not pass WebSockets
    #[arg(long)]
    studio_polls: bool,
}

impl StudioChoice {
    /// The Studio to serve; `None` if it is off.
    pub(crate) fn studio(&self) -> Option<Studio> {
        let folder = self.studio.clone().unwrap_or_else(default_folder);
        (folder.as_os_str() != OsStr::new(OFF)).then(|| Studio::in_folder(folder))
    }

    /// Whether it polls.
    pub(crate) fn polls(&self) -> bool {
        self.studio_polls
    }

    /// The arguments that give a child process the same folder.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let folder = self.studio.clone().unwrap_or_else(default_folder);
        vec!["--studio".to_owned(), folder.to_string_lossy().into_owned()]
    }

    /// What the environment of such a process has.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let polls = self
            .studio_polls
            .then(|| ("MAINSPRING_STUDIO_POLLS", "true".to_owned()));
        polls.into_iter().collect()
    }
}

/// The commands of `mainspring studio`.
#[derive(Debug, Subcommand)]
pub(crate) enum StudioCommand {
    /// Get the npm package with npm, or use a local one; check its digest, and unpack it
    Install(Install),
    /// Say whether Studio is installed, and whether its files are those of the package
    Status(Status),
}

/// Settings of `studio install`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// A package fetched earlier: the .tgz file, a folder with it, or a folder into which npm has installed it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,
    /// The folder to install into; by default mainspring/studio in the user's data folder
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

impl Install {
    pub(crate) fn folder(&self) -> PathBuf {
        self.to.clone().unwrap_or_else(default_folder)
    }
}

/// Settings of `studio status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The folder of Elsa Studio, if it is not the default one
    #[arg(long, value_name = "FOLDER")]
    studio: Option<PathBuf>,
}

impl Status {
    pub(crate) fn folder(&self) -> PathBuf {
        self.studio.clone().unwrap_or_else(default_folder)
    }
}

/// `$XDG_DATA_HOME/mainspring/studio`, where a user's programs keep data; without a home, that of the machine.
fn default_folder() -> PathBuf {
    let given = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || given("HOME").map(|home| home.join(".local/share"));
    let data = given("XDG_DATA_HOME").or_else(home);
    data.unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("mainspring/studio")
}

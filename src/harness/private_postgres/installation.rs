//! Finds the PostgreSQL installed on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// The oldest supported major version.
const MIN_VERSION: u32 = 14;

/// The programs that a private cluster needs.
const PROGRAMS: [&str; 4] = ["postgres", "initdb", "pg_ctl", "createdb"];

/// Folders with one subfolder per version: the parent, and the prefix of the subfolders.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql"),
    ("/usr/local/opt", "postgresql"),
];

/// An installed PostgreSQL.
#[derive(Debug)]
pub(super) struct Installation {
    folder: PathBuf,
    version: u32,
}

impl Installation {
    /// The first usable installation in PATH and in the usual places, newest first. With `version`, only that major
    /// version, which an existing cluster needs.
    pub(super) fn find(version: Option<u32>) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::find_in(&candidates(&path), version)
    }

    pub(super) fn find_in(candidates: &[PathBuf], version: Option<u32>) -> Result<Self> {
        let installed: Vec<Self> = candidates.iter().filter_map(|folder| Self::read(folder)).collect();
        let versions: Vec<String> = installed.iter().map(|found| found.version.to_string()).collect();
        let fits = |found: &Self| found.version >= MIN_VERSION && version.is_none_or(|wanted| wanted == found.version);
        if let Some(found) = installed.into_iter().find(fits) {
            return Ok(found);
        }
        let found = match versions.as_slice() {
            [] => "none is installed".to_owned(),
            versions => format!("only {} is installed", versions.join(", ")),
        };
        let needed = match version {
            Some(version) => format!("the data folder was created by PostgreSQL {version}, but {found}"),
            None => format!("this needs PostgreSQL {MIN_VERSION} or newer, but {found}"),
        };
        let package = version.map_or_else(|| "postgresql".to_owned(), |version| format!("postgresql-{version}"));
        Err(Error::unavailable(
            "postgresql-not-installed",
            format!(
                "{needed} (searched PATH, /usr/lib/postgresql/*/bin and other usual places). Install it: \
                 `sudo apt-get install {package}` on Debian and Ubuntu, `sudo dnf install postgresql-server` on \
                 Fedora, `brew install postgresql` on macOS. Or use an existing server: \
                 `mainspring serve --database-url postgresql://…`"
            ),
        ))
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(folder: &Path) -> Option<Self> {
        // PATH may contain links to programs of another folder.
        let postgres = folder.join("postgres").canonicalize().ok()?;
        let folder = postgres.parent()?.to_owned();
        if !PROGRAMS.iter().all(|program| folder.join(program).is_file()) {
            return None;
        }
        let output = Command::new(postgres).arg("--version").output().ok()?;
        let version = major(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { folder, version })
    }
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, `postgres (PostgreSQL) 17beta1`.
fn major(output: &str) -> Option<u32> {
    let (_, version) = output.split_once("(PostgreSQL) ")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn candidates(path: &std::ffi::OsStr) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .collect();
    for (parent, prefix) in VERSIONED {
        let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(parent)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let version = name.strip_prefix(prefix)?.trim_start_matches('@').parse().unwrap_or(0);
                Some((version, entry.path().join("bin")))
            })
            .collect();
        versions.sort_by(|a, b| b.cmp(a));
        folders.extend(versions.into_iter().map(|(_, folder)| folder));
    }
    folders.push(PathBuf::from("/usr/local/pgsql/bin"));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_parsed_from_the_output() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 17beta1"), Some(17));
        assert_eq!(major("postgres (PostgreSQL) 9.6.24"), Some(9));
        assert_eq!(major("something else"), None);
    }

    #[test]
    fn without_postgresql_the_error_says_what_to_install() {
        let error = Installation::find_in(&[PathBuf::from("/nowhere")], None).unwrap_err();
        assert_eq!(error.code(), "postgresql-not-installed");
        assert!(error.message().contains("sudo apt-get install postgresql`"), "{error}");
        let error = Installation::find_in(&[], Some(99)).unwrap_err();
        assert!(
            error
                .message()
                .contains("created by PostgreSQL 99, but none is installed"),
            "{error}"
        );
        assert!(
            error.message().contains("sudo apt-get install postgresql-99`"),
            "{error}"
        );
    }

    #[test]
    fn an_installation_is_found_only_for_its_own_version() {
        let found = Installation::find(None).unwrap();
        assert!(found.version >= MIN_VERSION);
        assert!(found.program("initdb").is_file());
        assert!(Installation::find(Some(found.version)).is_ok());
        let error = Installation::find(Some(1)).unwrap_err();
        assert!(error.message().contains(&format!("only {}", found.version)), "{error}");
    }
}

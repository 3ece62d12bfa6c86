//! The data folder of the private PostgreSQL: its place, its owner, its lock.
//!
//! root cannot run a PostgreSQL server. Started by root, the server runs as the user `postgres`, or else `nobody`, which
//! needs search permission on the path. Where it has no such permission (below `/root`, for example), another folder is
//! used, always the same one for the same requested path.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::{failed_with, write_private};
use crate::{Error, Result, private_file};

/// How long to retry the lock: a child that the previous holder forked shares it until its `exec`.
const LOCK_TIMEOUT: Duration = Duration::from_millis(300);

/// How many lines of the server's log an error shows.
const LOG_LINES: usize = 12;

/// A user to run programs as: uid and gid.
pub(super) type User = (u32, u32);

/// The folder, locked by this process while the value exists.
pub(super) struct ServerFolder {
    path: PathBuf,
    user: Option<User>,
    password: String,
    notice: Option<String>,
    owner: u32,
    _lock: File,
}

impl ServerFolder {
    /// Opens or creates the folder `wanted`, or the one that replaces it.
    pub(super) fn open(wanted: &Path) -> Result<Self> {
        let failed = |error: io::Error| {
            failed_with(format!(
                "cannot use the data folder {}; give another one",
                wanted.display()
            ))
            .caused_by(error)
        };
        let wanted = std::path::absolute(wanted).map_err(failed)?;
        let (path, user) = if id(&["-u"]) == Some(0) {
            place_for_root(&wanted)?
        } else {
            make_folder(&wanted, 0o700).map_err(failed)?;
            (wanted.clone(), None)
        };
        let path = path.canonicalize().map_err(failed)?;
        let folder_owner = std::fs::metadata(&path).map_err(failed)?.uid();
        let owner = private_file::owner_in(&path).map_err(failed)?;
        if folder_owner != owner {
            return Err(foreign_folder(&path, &format!("it belongs to the user {folder_owner}")));
        }
        let lock = lock(&path, owner)?;
        let notice = (wanted.canonicalize().ok().as_ref() != Some(&path)).then(|| {
            let why = match unsafe_owner(&wanted) {
                Some(why) if user.is_some() => format!("is not used: {why}"),
                _ => "cannot be entered by the user that runs PostgreSQL".to_owned(),
            };
            format!("{} {why}; the data is in {}", wanted.display(), path.display())
        });
        let password = password(&path)?;
        Ok(Self {
            path,
            user,
            password,
            notice,
            owner,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    pub(super) fn user(&self) -> Option<User> {
        self.user
    }

    /// The folder of the cluster.
    pub(super) fn cluster(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub(super) fn has_cluster(&self) -> bool {
        self.cluster().join("PG_VERSION").exists()
    }

    /// The major version of the cluster, if there is one.
    pub(super) fn cluster_version(&self) -> Result<Option<u32>> {
        if !self.has_cluster() {
            return Ok(None);
        }
        let file = self.cluster().join("PG_VERSION");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| failed_with(format!("cannot read {}", file.display())).caused_by(error))?;
        match text.trim().parse() {
            Ok(version) => Ok(Some(version)),
            Err(_) => Err(failed_with(format!(
                "{} does not contain a version of PostgreSQL",
                file.display()
            ))),
        }
    }

    /// Creates an empty folder for `initdb`, owned by the server's user.
    pub(super) fn prepare_cluster(&self) -> Result<PathBuf> {
        let failed =
            |error: io::Error| failed_with(format!("cannot prepare {}", self.cluster().display())).caused_by(error);
        match std::fs::remove_dir(self.cluster()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed_with(format!(
                    "{} is not a PostgreSQL cluster, and not empty; move it away",
                    self.cluster().display()
                ))
                .caused_by(error));
            }
            _ => {}
        }
        let new_cluster = self.path.join("postgres.new");
        match std::fs::remove_dir_all(&new_cluster) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&new_cluster)
            .map_err(failed)?;
        self.change_owner(&new_cluster).map_err(failed)?;
        Ok(new_cluster)
    }

    /// Writes a copy of the password that `initdb` can read; the caller removes it.
    pub(super) fn copy_password(&self) -> Result<PathBuf> {
        let copy = self.path.join("initdb.password");
        write_private(&copy, &self.password)
            .and_then(|()| self.change_owner(&copy))
            .map_err(|error| failed_with(format!("cannot write {}", copy.display())).caused_by(error))?;
        Ok(copy)
    }

    /// Renames the complete cluster to its final name.
    pub(super) fn install_cluster(&self, new_cluster: &Path) -> Result<()> {
        std::fs::rename(new_cluster, self.cluster())
            .map_err(|error| failed_with(format!("cannot rename {}", new_cluster.display())).caused_by(error))
    }

    /// The port of the previous run.
    pub(super) fn port(&self) -> Option<u16> {
        std::fs::read_to_string(self.path.join("port"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    pub(super) fn keep_port(&self, port: u16) -> Result<()> {
        write_private(&self.path.join("port"), &format!("{port}\n"))
            .map_err(|error| failed_with("cannot keep the port").caused_by(error))
    }

    fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }

    /// Renames the log of the previous start.
    pub(super) fn rotate_log(&self) -> Result<()> {
        match std::fs::rename(self.log(), self.path.join("postgres.log.old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed_with("cannot rename the old log").caused_by(error))
            }
            _ => Ok(()),
        }
    }

    /// Opens and truncates the log. The server inherits the descriptor and needs no permission on the file.
    pub(super) fn open_log(&self) -> Result<File> {
        let log = private_file::open_to_append(&self.log(), self.owner);
        let log = log.and_then(|log| log.set_len(0).map(|()| log));
        log.map_err(|error| failed_with(format!("cannot write {}", self.log().display())).caused_by(error))
    }

    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut lines: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// A command that runs a program of PostgreSQL as the server's user.
    pub(super) fn command(&self, program: &Path) -> Command {
        command_as(self.user, &self.path, program)
    }

    fn change_owner(&self, path: &Path) -> io::Result<()> {
        match self.user {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

/// A command with a minimal environment: without `PGHOST` and `PGDATA`, and with English messages, which are parsed.
pub(super) fn command_as(user: Option<User>, folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir(folder)
        .stdin(Stdio::null());
    for kept in ["PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// Runs `id` and parses the number that it prints.
fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn place_for_root(wanted: &Path) -> Result<(PathBuf, Option<User>)> {
    let digest = Sha256::digest(wanted.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let others = [
        Path::new("/var/lib/mainspring-dev").join(&name),
        std::env::temp_dir().join(format!("mainspring-dev-{name}")),
    ];

    // An existing cluster keeps its folder and its user.
    for place in std::iter::once(wanted).chain(others.iter().map(PathBuf::as_path)) {
        if let Ok(cluster) = std::fs::symlink_metadata(place.join("postgres"))
            && cluster.is_dir()
            && (place == wanted || unsafe_owner(place).is_none())
        {
            if let Some(why) = unsafe_owner(place) {
                return Err(foreign_folder(place, &why));
            }
            if cluster.uid() == 0 {
                return Err(failed_with(format!(
                    "{} belongs to root, which cannot run PostgreSQL",
                    place.display()
                )));
            }
            return Ok((place.to_owned(), Some((cluster.uid(), cluster.gid()))));
        }
    }

    let user = ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)));
    let Some(user) = user.filter(|(uid, _)| *uid != 0) else {
        return Err(failed_with(
            "root cannot run PostgreSQL, and there is no user `postgres` or `nobody` to run it",
        ));
    };
    for place in std::iter::once(wanted).chain(others.iter().map(PathBuf::as_path)) {
        // The owner of a parent folder could replace ours at any time.
        if unsafe_owner(place).is_some() {
            continue;
        }
        // 0711: the server's user has search permission only.
        let made = match make_folder(place, 0o711) {
            Ok(made) => made,
            Err(_) if place != wanted => continue,
            Err(error) => return Err(failed_with(format!("cannot create {}", place.display())).caused_by(error)),
        };
        if can_enter(user, place) {
            return Ok((place.to_owned(), Some(user)));
        }
        if made {
            let _ = std::fs::remove_file(place.join(".gitignore"));
            let _ = std::fs::remove_dir(place);
        }
    }
    Err(failed_with(format!(
        "the user that runs PostgreSQL cannot enter {}, and no replacement is available; give a data folder that \
         every user can enter",
        wanted.display()
    )))
}

/// Creates the folder, with a `.gitignore`, if it is missing. Returns whether it was created.
fn make_folder(path: &Path, mode: u32) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::DirBuilder::new().mode(mode).create(path)?;
    // The umask may have removed bits.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    std::fs::write(path.join(".gitignore"), "*\n")?;
    Ok(true)
}

/// Why a user other than root could replace the folder at `path`: an entry of another user, or a folder that others may
/// write to (with the sticky bit only owners can change their entries). Checks both the path as given and its target,
/// because each link could belong to another user.
fn unsafe_owner(path: &Path) -> Option<String> {
    let of_another = |(part, is_last): (&Path, bool)| {
        let found = std::fs::symlink_metadata(part).ok()?;
        let is_shared = found.is_dir() && found.mode() & 0o022 != 0 && (is_last || found.mode() & 0o1000 == 0);
        if found.uid() != 0 {
            Some(format!("{} belongs to the user {}", part.display(), found.uid()))
        } else {
            is_shared.then(|| format!("users other than root may write to {}", part.display()))
        }
    };
    let leads_to = path.ancestors().find_map(|part| part.canonicalize().ok());
    let exists = path.symlink_metadata().is_ok();
    let walked = |path: &Path| {
        let mut parts = path
            .ancestors()
            .zip(std::iter::once(exists).chain(std::iter::repeat(false)));
        parts.find_map(of_another)
    };
    walked(path).or_else(|| leads_to.as_deref().and_then(walked))
}

fn foreign_folder(path: &Path, why: &str) -> Error {
    failed_with(format!(
        "{} is not used: {why}: start as its owner, change the owner of the folder and of its parents, \
         or give another folder",
        path.display()
    ))
}

fn can_enter((uid, gid): User, path: &Path) -> bool {
    let mut command = Command::new("sh");
    command
        .args(["-c", "cd \"$0\""])
        .arg(path)
        .current_dir("/")
        .uid(uid)
        .gid(gid);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn lock(folder: &Path, owner: u32) -> Result<File> {
    let path = folder.join("lock");
    let failed = |error: io::Error| {
        let hint = "if another user created the folder, start as that user, or give another folder";
        failed_with(format!("cannot lock {}; {hint}", path.display())).caused_by(error)
    };
    let file = private_file::open(&path, owner).map_err(failed)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::conflict(
                    "data-folder-in-use",
                    format!(
                        "another `mainspring dev` is running in {}; stop it, or give another folder",
                        folder.display()
                    ),
                ));
            }
        }
    }
}

/// Reads the password of the cluster; generates it if there is no cluster yet.
fn password(folder: &Path) -> Result<String> {
    let file = folder.join("password");
    match std::fs::read_to_string(&file) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed_with(format!("cannot read {}", file.display())).caused_by(error))
        }
        _ if folder.join("postgres").join("PG_VERSION").exists() => Err(failed_with(format!(
            "{} is missing, and the cluster requires it; restore it, or move {} away to create a new cluster",
            file.display(),
            folder.display()
        ))),
        _ => {
            let random = || uuid::Uuid::new_v4().simple().to_string();
            let password = random() + &random();
            write_private(&file, &password)
                .map_err(|error| failed_with(format!("cannot write {}", file.display())).caused_by(error))?;
            Ok(password)
        }
    }
}

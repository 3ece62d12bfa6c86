//! The folder of the private PostgreSQL: where it is, who owns what in it, and who may use it.
//!
//! root may not run a PostgreSQL server. Started as root, the server runs as the user `postgres`, or else `nobody`, who
//! has to be able to walk to the folder. Where that one cannot (below `/root`, say), another folder is taken, always
//! the same for the same wanted one.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::{broken, write_private};
use crate::{Error, Result, private_file};

/// Whoever just let go of a folder may have started another program in the same moment, which has the lock, too, until it
/// runs.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);

/// How much of a log is shown.
const LOG_LINES: usize = 12;

/// A user to run programs as: (uid, gid).
pub(super) type User = (u32, u32);

/// The folder, held by us alone while this lives.
pub(super) struct Folder {
    path: PathBuf,
    user: Option<User>,
    password: String,
    notice: Option<String>,
    owner: u32,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder `wanted`, or the one to take in its place.
    pub(super) fn open(wanted: &Path) -> Result<Self> {
        let failed = |error: io::Error| {
            broken(format!(
                "cannot use the data folder {}; another one can be named",
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
        let found = std::fs::metadata(&path).map_err(failed)?.uid();
        let owner = private_file::owner_in(&path).map_err(failed)?;
        if found != owner {
            return Err(foreign(&path, &format!("it belongs to the user {found}")));
        }
        let lock = lock(&path, owner)?;
        let notice = (wanted.canonicalize().ok().as_ref() != Some(&path)).then(|| {
            let why = match strangers(&wanted) {
                Some(why) if user.is_some() => format!("is not used, as {why}"),
                _ => "cannot be reached by the user who runs PostgreSQL".to_owned(),
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

    /// PostgreSQL's own folder.
    pub(super) fn cluster(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub(super) fn has_cluster(&self) -> bool {
        self.cluster().join("PG_VERSION").exists()
    }

    /// The major version that the cluster needs, if there is one.
    pub(super) fn cluster_version(&self) -> Result<Option<u32>> {
        if !self.has_cluster() {
            return Ok(None);
        }
        let file = self.cluster().join("PG_VERSION");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| broken(format!("cannot read {}", file.display())).caused_by(error))?;
        match text.trim().parse() {
            Ok(version) => Ok(Some(version)),
            Err(_) => Err(broken(format!(
                "{} does not hold a version of PostgreSQL",
                file.display()
            ))),
        }
    }

    /// An empty folder for `initdb`, owned by the server's user.
    pub(super) fn prepare_cluster(&self) -> Result<PathBuf> {
        let failed = |error: io::Error| broken(format!("cannot prepare {}", self.cluster().display())).caused_by(error);
        match std::fs::remove_dir(self.cluster()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(broken(format!(
                    "{} is not a PostgreSQL cluster, and not empty: move it away",
                    self.cluster().display()
                ))
                .caused_by(error));
            }
            _ => {}
        }
        let making = self.path.join("postgres.new");
        match std::fs::remove_dir_all(&making) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::DirBuilder::new().mode(0o700).create(&making).map_err(failed)?;
        self.give(&making).map_err(failed)?;
        Ok(making)
    }

    /// A copy of the password that `initdb` can read; to be removed afterwards.
    pub(super) fn lend_password(&self) -> Result<PathBuf> {
        let copy = self.path.join("initdb.password");
        write_private(&copy, &self.password)
            .and_then(|()| self.give(&copy))
            .map_err(|error| broken(format!("cannot write {}", copy.display())).caused_by(error))?;
        Ok(copy)
    }

    /// The cluster is whole.
    pub(super) fn adopt_cluster(&self, made: &Path) -> Result<()> {
        std::fs::rename(made, self.cluster())
            .map_err(|error| broken(format!("cannot rename {}", made.display())).caused_by(error))
    }

    /// The port of last time.
    pub(super) fn port(&self) -> Option<u16> {
        std::fs::read_to_string(self.path.join("port"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    pub(super) fn keep_port(&self, port: u16) -> Result<()> {
        write_private(&self.path.join("port"), &format!("{port}\n"))
            .map_err(|error| broken("cannot keep the port").caused_by(error))
    }

    fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }

    /// One log per start, and the one before.
    pub(super) fn rotate_log(&self) -> Result<()> {
        match std::fs::rename(self.log(), self.path.join("postgres.log.old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(broken("cannot put the old log aside").caused_by(error))
            }
            _ => Ok(()),
        }
    }

    /// The log, empty; the server gets it opened, so it needs no right to it.
    pub(super) fn open_log(&self) -> Result<File> {
        let log = private_file::open_to_append(&self.log(), self.owner);
        let log = log.and_then(|log| log.set_len(0).map(|()| log));
        log.map_err(|error| broken(format!("cannot write {}", self.log().display())).caused_by(error))
    }

    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut lines: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// A program of PostgreSQL's, run by the server's user.
    pub(super) fn command(&self, program: &Path) -> Command {
        command_as(self.user, &self.path, program)
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        match self.user {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

/// A command with a small environment: no `PGHOST` or `PGDATA` of the user leads it astray, and messages are in English,
/// because some are read.
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

/// What `id` prints, a number.
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

    // A cluster that is already there keeps its place and its user.
    for place in std::iter::once(wanted).chain(others.iter().map(PathBuf::as_path)) {
        if let Ok(cluster) = std::fs::symlink_metadata(place.join("postgres"))
            && cluster.is_dir()
            && (place == wanted || strangers(place).is_none())
        {
            if let Some(why) = strangers(place) {
                return Err(foreign(place, &why));
            }
            if cluster.uid() == 0 {
                return Err(broken(format!(
                    "{} belongs to root, who cannot run PostgreSQL",
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
        return Err(broken(
            "root cannot run PostgreSQL, and there is no user `postgres` or `nobody` to run it",
        ));
    };
    for place in std::iter::once(wanted).chain(others.iter().map(PathBuf::as_path)) {
        // In a folder of another user anything can take our place while we use it, so nothing is made there.
        if strangers(place).is_some() {
            continue;
        }
        // 0711: the server's user walks through, and sees only what is its own.
        let made = match make_folder(place, 0o711) {
            Ok(made) => made,
            Err(_) if place != wanted => continue,
            Err(error) => return Err(broken(format!("cannot make {}", place.display())).caused_by(error)),
        };
        if can_enter(user, place) {
            return Ok((place.to_owned(), Some(user)));
        }
        if made {
            let _ = std::fs::remove_file(place.join(".gitignore"));
            let _ = std::fs::remove_dir(place);
        }
    }
    Err(broken(format!(
        "the user who has to run PostgreSQL cannot enter {}, nor is there another place; name a data folder that \
         every user can enter",
        wanted.display()
    )))
}

/// Makes the folder if it is missing, and keeps it out of version control. Tells whether it was made.
fn make_folder(path: &Path, mode: u32) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::DirBuilder::new().mode(mode).create(path)?;
    // Whatever the umask took away.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    std::fs::write(path.join(".gitignore"), "*\n")?;
    Ok(true)
}

/// Who other than root can change what a path leads to: an entry of another user's, or a folder that others may write to
/// (in one with the sticky bit only owners change their entries). Both the path as it was named and where it leads are
/// walked, as each link could be another user's.
fn strangers(path: &Path) -> Option<String> {
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

fn foreign(path: &Path, why: &str) -> Error {
    broken(format!(
        "{} is not used, as {why}: start as the user who owns it, give the folder and those above it to the user who \
         starts, or name another folder",
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
        let hint = "if another user made the folder, start as that one, or name another folder";
        broken(format!("cannot lock {}; {hint}", path.display())).caused_by(error)
    };
    let file = private_file::open(&path, owner).map_err(failed)?;
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::conflict(
                    "data-folder-in-use",
                    format!(
                        "another `mainspring dev` is running in {}; stop that one, or name another folder",
                        folder.display()
                    ),
                ));
            }
        }
    }
}

/// The password of the cluster, made before the cluster.
fn password(folder: &Path) -> Result<String> {
    let file = folder.join("password");
    match std::fs::read_to_string(&file) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(broken(format!("cannot read {}", file.display())).caused_by(error))
        }
        _ if folder.join("postgres").join("PG_VERSION").exists() => Err(broken(format!(
            "{} is missing, and without it nobody can log in; put it back, or move {} away to begin anew",
            file.display(),
            folder.display()
        ))),
        _ => {
            let random = || uuid::Uuid::new_v4().simple().to_string();
            let password = random() + &random();
            write_private(&file, &password)
                .map_err(|error| broken(format!("cannot write {}", file.display())).caused_by(error))?;
            Ok(password)
        }
    }
}

//! `mainspring studio`: installs the npm package of Elsa Studio. The package is pinned by version and digest, none of its
//! scripts is run, and the folder is renamed into place once it is complete.

mod package;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::settings::{Install, Status, StudioCommand};
use crate::api::Studio;
use crate::harness::failure::Failure;
use crate::harness::print_line;

/// How long npm may take for 46 MB.
const NPM_TIMEOUT: Duration = Duration::from_secs(600);
/// The name of the file that npm writes.
const FILE: &str = "elsa-workflows-elsa-studio-wasm-3.8.2.tgz";
/// How much of npm's output is repeated in an error.
const MAX_LINES: usize = 5;

pub(super) async fn run(command: &StudioCommand) -> Result<(), Failure> {
    match command {
        StudioCommand::Install(settings) => install(settings).await,
        StudioCommand::Status(settings) => status(settings),
    }
}

async fn install(settings: &Install) -> Result<(), Failure> {
    let folder = settings.folder();
    let target = folder.join(Studio::VERSION);
    if package::is_unchanged(&target) {
        print_line(&format!(
            "Elsa Studio {} is installed in {}",
            Studio::VERSION,
            target.display()
        ));
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| failed("create", &folder, &error))?;
    // In the same folder, so that it can be renamed.
    let work = WorkFolder::create(&folder)?;
    let unpacked = work.0.join("package");
    match &settings.from {
        None => {
            eprintln!("npm gets {} {} …", Studio::PACKAGE, Studio::VERSION);
            npm_pack(&work.0).await?;
            package::unpack(&work.0.join(FILE), &unpacked)?;
        }
        Some(from) => match local(from)? {
            Local::Archive(file) => package::unpack(&file, &unpacked)?,
            Local::Folder(from) => package::copy(&from, &unpacked)?,
        },
    }
    if !package::is_unchanged(&unpacked) {
        return Err(Failure::failed(format!(
            "these are not the files of {} {}: their digest is {}",
            Studio::PACKAGE,
            Studio::VERSION,
            package::digest_of_folder(&unpacked).unwrap_or_else(|error| error.to_string()),
        )));
    }
    // What is there is damaged, or a link; it makes room.
    if target.symlink_metadata().is_ok() {
        let old = work.0.join("old");
        fs::rename(&target, &old).map_err(|error| failed("replace", &target, &error))?;
    }
    match fs::rename(&unpacked, &target) {
        Ok(()) => {}
        // An install at the same time was faster.
        Err(_) if package::is_unchanged(&target) => {}
        Err(error) => return Err(failed("create", &target, &error)),
    }
    print_line(&format!(
        "Elsa Studio {} is installed in {}",
        Studio::VERSION,
        target.display()
    ));
    Ok(())
}

fn status(settings: &Status) -> Result<(), Failure> {
    let folder = settings.folder();
    let studio = Studio::in_folder(&folder);
    let Some(installed) = studio.installed() else {
        print_line(&format!("Elsa Studio is not installed in {}", folder.display()));
        return Err(Failure::reported());
    };
    let digest = package::digest_of_folder(&installed).map_err(|error| failed("read", &installed, &error))?;
    let place = installed.display();
    if digest == package::FOLDER_DIGEST {
        print_line(&format!(
            "Elsa Studio {} is installed in {place}, unchanged",
            Studio::VERSION
        ));
        return Ok(());
    }
    print_line(&format!(
        "the files in {place} are not those of {} {}",
        Studio::PACKAGE,
        Studio::VERSION
    ));
    Err(Failure::reported())
}

/// Lets npm fetch the archive. It is not installed, so none of its code runs.
async fn npm_pack(folder: &Path) -> Result<(), Failure> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination", "."])
        .arg(format!("{}@{}", Studio::PACKAGE, Studio::VERSION))
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = match tokio::time::timeout(NPM_TIMEOUT, npm.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::failed(format!(
                "npm is not installed. Install it, or fetch the package on another machine (npm pack {}@{}) and \
                 install it \
                 with --from {FILE}",
                Studio::PACKAGE,
                Studio::VERSION
            )));
        }
        Ok(Err(error)) => return Err(Failure::failed(format!("cannot start npm: {error}"))),
        Err(_) => {
            return Err(Failure::failed(format!(
                "npm did not end within {} s",
                NPM_TIMEOUT.as_secs()
            )));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(MAX_LINES)
        .collect();
    Err(Failure::failed(format!(
        "npm cannot get the package:\n{}",
        lines.join("\n")
    )))
}

/// A package on this machine.
enum Local {
    Archive(PathBuf),
    Folder(PathBuf),
}

fn local(from: &Path) -> Result<Local, Failure> {
    if from.is_file() {
        return Ok(Local::Archive(from.to_owned()));
    }
    let archive = from.join(FILE);
    if archive.is_file() {
        return Ok(Local::Archive(archive));
    }
    let installed = from.join("node_modules").join(Studio::PACKAGE);
    let candidates = [from.to_owned(), from.join("package"), installed];
    let found = candidates
        .into_iter()
        .find_map(|folder| Studio::in_folder(folder).installed());
    found.map(Local::Folder).ok_or_else(|| {
        Failure::usage(format!(
            "{} has neither the file {FILE} nor the unpacked package",
            from.display()
        ))
    })
}

/// A new folder, which is removed at the end.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn create(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(format!(".install-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).map_err(|error| failed("create", &path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", path.display()))
}

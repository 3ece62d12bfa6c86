//! Leftovers of an earlier run: a server that still runs, or a stale process id in `postmaster.pid`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::folder::ServerFolder;
use super::installation::Installation;
use super::{failed_with, run};
use crate::Result;

/// Stops a server that an earlier run left in the folder. Precondition: this process holds the folder's lock.
pub(super) async fn stop(folder: &ServerFolder, installation: &Installation) -> Result<()> {
    let cluster = folder.cluster();
    let file = cluster.join("postmaster.pid");
    let Some(pid) = recorded_pid(&file) else { return Ok(()) };
    match arguments(pid) {
        // The process is gone. PostgreSQL removes the file when the last backend has exited.
        None => Ok(()),
        Some(arguments)
            if arguments.iter().any(|argument| Path::new(argument) == cluster)
                || works_in(Path::new(&format!("/proc/{pid}")), &cluster) =>
        {
            tracing::info!(
                "stopping the PostgreSQL that an earlier run left in {}",
                cluster.display()
            );
            for mode in ["fast", "immediate"] {
                let mut command = folder.command(&installation.program("pg_ctl"));
                command
                    .arg("stop")
                    .arg("-D")
                    .arg(&cluster)
                    .args(["-w", "-s", "-t", "20", "-m", mode]);
                match run(command).await {
                    Ok(()) => return Ok(()),
                    // It exited meanwhile.
                    Err(_) if !file.exists() => return Ok(()),
                    Err(error) => tracing::warn!("{mode} stop of process {pid}: {error}"),
                }
            }
            Err(failed_with(format!(
                "process {pid}, a PostgreSQL that an earlier run left in {}, does not stop",
                cluster.display()
            )))
        }
        // The id belongs to another process or to a zombie. PostgreSQL would take that for a running server.
        Some(_) if no_process_works_in(&cluster) => std::fs::remove_file(&file)
            .map_err(|error| failed_with(format!("cannot remove {}", file.display())).caused_by(error)),
        Some(_) => Ok(()),
    }
}

/// The process id in the first line of `postmaster.pid`.
fn recorded_pid(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.lines().next()?.trim().parse().ok()
}

/// The arguments of a running process; no element for a zombie.
fn arguments(pid: u32) -> Option<Vec<String>> {
    if Path::new("/proc/self/cmdline").exists() {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line);
        let arguments: Vec<String> = line.split('\0').map(str::to_owned).collect();
        return Some(arguments);
    }
    let output = Command::new("ps")
        .args(["-o", "args=", "-p", &pid.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let line = String::from_utf8_lossy(&output.stdout);
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!arguments.is_empty()).then_some(arguments)
}

/// Whether no process has the cluster as its working directory, as all processes of a server do. False where `/proc` cannot
/// be read.
fn no_process_works_in(cluster: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    !processes.flatten().any(|process| works_in(&process.path(), cluster))
}

/// Whether the process with this folder in `/proc` works in the cluster.
fn works_in(process: &Path, cluster: &Path) -> bool {
    let (Ok(directory), Ok(cluster)) = (std::fs::metadata(process.join("cwd")), std::fs::metadata(cluster)) else {
        return false;
    };
    directory.dev() == cluster.dev() && directory.ino() == cluster.ino()
}

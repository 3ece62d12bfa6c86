use tokio::io::AsyncReadExt;

use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-spool-test-{}", uuid::Uuid::new_v4().simple())))
    }

    /// The names in the directory, and in the folders of it.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                names.push(path.strip_prefix(&self.0).unwrap().display().to_string());
            }
        }
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn file(spool: &Spool, bytes: &[u8]) -> Result<SpoolFile> {
    let mut writer = spool.create().await?;
    writer.write(bytes).await?;
    writer.finish().await
}

async fn opened(directory: &Path, limit: u64) -> Result<Spool> {
    let spool = Spool::lazy(Some(directory.to_owned()), limit);
    spool.prepare().await?;
    Ok(spool)
}

async fn read(file: &SpoolFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.open().await.unwrap().read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Deletions run on threads of their own.
async fn until(mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waited)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_file_is_found_as_long_as_it_is_held() {
    let scratch = Scratch::new();
    let spool = opened(&scratch.0, 1 << 20).await.unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
    let first = file(&spool, &bytes).await.unwrap();
    assert_eq!(first.length(), 300_000);
    let (id, path) = (first.id().to_owned(), first.path().to_owned());
    let found = spool.find(&id).unwrap();
    drop(first);
    assert_eq!(read(&found).await, bytes);
    assert_eq!(read(&found).await, bytes, "from its begin again");
    let mut opened = found.open().await.unwrap();
    drop(found);
    assert!(spool.find(&id).is_none() && spool.find("no such file").is_none());
    until(|| !path.exists() && spool.used() == 0).await;
    let mut rest = Vec::new();
    opened.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, bytes);
}

#[tokio::test]
async fn a_full_spool_refuses_and_has_room_again() {
    let scratch = Scratch::new();
    let spool = opened(&scratch.0, 100_000).await.unwrap();
    let held = file(&spool, &[1; 60_000]).await.unwrap();
    let error = file(&spool, &[2; 60_000]).await.unwrap_err();
    assert_eq!(error.code(), "spool-full");
    assert!(error.is_unavailable());
    until(|| spool.used() < 70_000).await;
    drop(held);
    until(|| spool.used() == 0).await;
    file(&spool, &[3; 90_000]).await.unwrap();
    let mut empty = Vec::new();
    loop {
        match file(&spool, b"").await {
            Ok(one) => empty.push(one),
            Err(error) => break assert_eq!(error.code(), "spool-full"),
        }
        assert!(empty.len() < 100_000, "empty files are without end");
    }
}

#[tokio::test]
async fn strangers_leave_room_to_the_others() {
    let scratch = Scratch::new();
    let spool = opened(&scratch.0, 800_000).await.unwrap();
    let strangers = spool.of_strangers();
    let mut held = Vec::new();
    let error = loop {
        match file(&strangers, &[1; 50_000]).await {
            Ok(one) => held.push(one),
            Err(error) => break error,
        }
    };
    assert_eq!((error.code(), held.len()), ("spool-full", 12));
    // A file is found whoever has sent it.
    assert!(spool.find(held[0].id()).is_some());
    let known = file(&spool, &[2; 100_000]).await.unwrap();
    held.clear();
    drop(known);
    until(|| spool.used() == 0).await;
    let known = file(&spool, &[2; 750_000]).await.unwrap();
    assert!(
        file(&strangers, b"").await.is_err(),
        "both share what strangers may use"
    );
    drop(known);
}

#[tokio::test]
async fn a_writer_that_is_dropped_leaves_no_file() {
    let scratch = Scratch::new();
    let spool = opened(&scratch.0, 1 << 20).await.unwrap();
    let mut writer = spool.create().await.unwrap();
    writer.write(&[7; 200_000]).await.unwrap();
    assert_eq!(scratch.names().len(), 3, "lock, folder and file");
    drop(writer);
    until(|| scratch.names().len() == 2 && spool.used() == 0).await;
    drop(spool);
    assert!(scratch.names().is_empty());
}

#[tokio::test]
async fn what_a_dead_process_left_is_deleted_and_nothing_else() {
    let scratch = Scratch::new();
    let living = opened(&scratch.0, 1 << 20).await.unwrap();
    let kept = file(&living, b"kept").await.unwrap();
    // The lock of a dead process is free.
    let dead = scratch.0.join("spool-0123");
    std::fs::create_dir(&dead).unwrap();
    std::fs::write(dead.join("body"), "left").unwrap();
    std::fs::write(dead.with_extension("lock"), "").unwrap();
    let interrupted = scratch.0.join("spool-4567");
    std::fs::create_dir(&interrupted).unwrap();
    std::fs::write(scratch.0.join("foreign"), "not of a spool").unwrap();
    let other = opened(&scratch.0, 1 << 20).await.unwrap();
    assert!(!dead.exists() && !dead.with_extension("lock").exists() && !interrupted.exists());
    assert!(scratch.0.join("foreign").exists());
    assert_eq!(read(&kept).await, b"kept");
    assert!(other.find(kept.id()).is_none(), "a file belongs to its process");
}

#[tokio::test]
async fn a_spool_without_a_directory_is_private() {
    use std::os::unix::fs::MetadataExt;
    let spool = Spool::default();
    assert!(spool.find("x").is_none());
    let made = file(&spool, b"x").await.unwrap();
    let folder = made.path().parent().unwrap().parent().unwrap();
    assert!(folder.starts_with(std::env::temp_dir()));
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(made.path().metadata().unwrap().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_an_error() {
    let error = opened(Path::new("/proc/nothing/here"), 1).await.unwrap_err();
    assert_eq!(error.code(), "spool-unavailable");
}

//! `mainspring bench plot`: files in, a picture out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Child, LONG_TIMEOUT};

/// What `bench workflows --json` prints.
const SLOW: &str = r#"64 clients, 1 nodes, execute: 400 workflows/s
machine: 2 cores
server: server_version 17
{"bench":"workflows","clients":64,"seconds":10,"ops_per_s":412.0,"p50_us":900,"p95_us":1500,"p99_us":2500,"max_us":9000,"errors":0,"mode":"execute","commit":"burst","journal":"full","nodes":1,"wal_bytes":731}
"#;

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("mainspring-plot-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Its exit code, standard output and standard error.
fn plot(arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let mut child = Child::start(&[&["bench", "plot"], arguments].concat(), &[]);
    let code = child.wait(LONG_TIMEOUT).code();
    (code, child.stdout(), child.stderr().join("\n"))
}

/// The texts of the elements, if each is closed in its order, and the first is the outermost.
fn texts(svg: &str) -> Option<Vec<&str>> {
    let (mut open, mut texts) = (Vec::new(), Vec::new());
    let (before, rest) = svg.split_once('<')?;
    if !before.is_empty() {
        return None;
    }
    for part in rest.split('<') {
        if !texts.is_empty() && open.is_empty() {
            return None;
        }
        let (tag, text) = part.split_once('>')?;
        if text.contains('>') {
            return None;
        }
        match tag.strip_prefix('/') {
            Some(name) => (open.pop()? == name).then_some(())?,
            None if tag.ends_with('/') => {}
            None => open.push(tag.split([' ', '\n']).next()?),
        }
        texts.push(text.trim());
    }
    open.is_empty().then_some(texts)
}

#[test]
fn two_runs_are_drawn_on_standard_output_and_into_a_file() {
    let folder = Folder::new();
    let fast = SLOW.replace("412.0", "8765.0").replace(":731", ":512");
    let (slow, fast) = (folder.file("slow.txt", SLOW), folder.file("fast.txt", &fast));
    let (code, lines, errors) = plot(&[&slow, &fast]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(errors, "");
    let picture = lines.join("\n");
    assert!(
        picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""),
        "{picture}"
    );
    let texts = texts(&picture).unwrap_or_else(|| panic!("not well-formed: {picture}"));
    for figure in ["412", "8,765", "731", "512", "machine: 2 cores"] {
        assert!(texts.contains(&figure), "no {figure} in {texts:?}");
    }
    for name in ["slow: workflows, execute", "fast: workflows, execute"] {
        assert!(
            texts.iter().any(|text| text.starts_with(name)),
            "no {name} in {texts:?}"
        );
    }

    let drawn = folder.0.join("picture.svg");
    let (code, lines, errors) = plot(&["-o", drawn.to_str().unwrap(), &slow, &fast]);
    assert_eq!((code, lines), (Some(0), Vec::new()), "{errors}");
    assert_eq!(fs::read_to_string(&drawn).unwrap(), format!("{picture}\n"));
}

#[test]
fn a_file_without_an_outcome_is_named_and_nothing_is_drawn() {
    let folder = Folder::new();
    let (good, bad) = (folder.file("good.txt", SLOW), folder.file("bad.txt", "no outcome\n"));
    let drawn = folder.0.join("picture.svg");
    let (code, lines, errors) = plot(&[&good, &bad, "-o", drawn.to_str().unwrap()]);
    assert_eq!((code, lines), (Some(2), Vec::new()), "{errors}");
    assert!(errors.contains(&bad) && !errors.contains(&good), "{errors}");
    assert!(!Path::new(&drawn).exists());
}

//! Every crate that is linked in may be: its licence stands in `deny.toml`, it comes from crates.io, and it was compared
//! with the advisories.
//!
//! `cargo deny` says the same and more; this also holds where it is not installed.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_crate_has_a_licence_that_is_allowed_and_a_known_source() {
    let root = env!("CARGO_MANIFEST_DIR");
    let allowed = allowed_licences(&std::fs::read_to_string(format!("{root}/deny.toml")).unwrap());
    assert!(allowed.contains("MIT") && allowed.contains("Apache-2.0"), "{allowed:?}");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--locked",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .unwrap();
    // Without a network, crates for other platforms may not be there: then the lock file is all there is to see.
    let complaints = if output.status.success() {
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        metadata["packages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|package| complaint(package, &allowed))
            .collect()
    } else {
        sources(&std::fs::read_to_string(format!("{root}/Cargo.lock")).unwrap())
    };
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn complaint(package: &Value, allowed: &BTreeSet<String>) -> Option<String> {
    let name = package["name"].as_str()?;
    match package["source"].as_str() {
        None | Some(CRATES_IO) => {}
        Some(other) => return Some(format!("{name} comes from {other}")),
    }
    match package["license"].as_str() {
        Some(licence) if may_use(licence, allowed) => None,
        licence => Some(format!(
            "{name} has the licence {licence:?}, which deny.toml does not allow"
        )),
    }
}

fn sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    sources
        .map(|source| source.trim_matches('"'))
        .filter(|source| *source != CRATES_IO)
        .map(str::to_owned)
        .collect()
}

/// The strings of `allow = [ … ]` below `[licenses]`.
fn allowed_licences(deny: &str) -> BTreeSet<String> {
    let licenses = deny.split_once("[licenses]").map_or("", |(_, rest)| rest);
    let allow = licenses.split_once("allow = [").map_or("", |(_, rest)| rest);
    let allow = allow.split_once(']').map_or("", |(list, _)| list);
    allow.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// An SPDX expression, as crates write them: AND binds closer than OR, `/` is an old OR.
fn may_use(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let licence = licence.replace('/', " OR ");
    // The few that need brackets are of one form: (A OR B) AND C.
    if let Some((first, rest)) = licence.strip_prefix('(').and_then(|inner| inner.split_once(") AND ")) {
        return may_use(first, allowed) && may_use(rest, allowed);
    }
    licence
        .split(" OR ")
        .any(|choice| choice.split(" AND ").all(|one| allowed.contains(one.trim())))
}

#[test]
fn a_licence_that_is_not_allowed_is_seen() {
    let allowed = allowed_licences("[licenses]\nallow = [\n \"MIT\",\n \"ISC\", ]\n[bans]\ndeny = [\"x\"]");
    assert_eq!(allowed.len(), 2);
    for (licence, fine) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 OR ISC", true),
        ("MIT AND ISC", true),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("(MIT OR ISC) AND GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("AGPL-3.0", false),
    ] {
        assert_eq!(may_use(licence, &allowed), fine, "{licence}");
    }
}

/// `name version` of each crate of a lock file but those of this repository.
fn locked(lock: &str) -> BTreeSet<String> {
    let field = |package: &str, name: &str| {
        let line = package
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} = ")));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter(|package| field(package, "source").is_some())
        .filter_map(|package| Some(format!("{} {}", field(package, "name")?, field(package, "version")?)))
        .collect()
}

/// The crates of a review of advisories, and its date.
fn reviewed(review: &str) -> (BTreeSet<String>, String) {
    let lines = review.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (heads, crates): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.starts_with("reviewed ") || line.starts_with("database "));
    let date = heads
        .iter()
        .find_map(|line| line.strip_prefix("reviewed "))
        .unwrap_or_default();
    (crates.into_iter().map(str::to_owned).collect(), date.to_owned())
}

#[test]
fn every_crate_was_compared_with_the_advisories() {
    let read = |file: &str| std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (known, date) = reviewed(&read("advisories.txt"));
    let is_date = chrono::NaiveDate::parse_from_str(&date, "%Y-%m-%d").is_ok();
    assert!(
        is_date,
        "advisories.txt needs a line `reviewed YYYY-MM-DD`, not {date:?}"
    );
    let used = locked(&read("Cargo.lock"));
    assert!(used.len() > 100, "{used:?}");
    let new: Vec<&String> = used.difference(&known).collect();
    assert!(
        new.is_empty(),
        "look these up at https://rustsec.org/advisories and list them in advisories.txt, whose head says how: {new:?}"
    );
    let gone: Vec<&String> = known.difference(&used).collect();
    assert!(
        gone.is_empty(),
        "no longer in Cargo.lock; take them out of advisories.txt: {gone:?}"
    );
}

#[test]
fn a_crate_that_was_not_compared_is_seen() {
    let lock = "[[package]]\nname = \"mainspring\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"r\"\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\nsource = \"r\"\n";
    assert_eq!(
        locked(lock),
        BTreeSet::from(["a 1.2.3".to_owned(), "b 0.1.0".to_owned()])
    );
    let (known, date) = reviewed("# said\nreviewed 2026-01-02\ndatabase x\n\na 1.2.2\n");
    assert_eq!(
        (known, date.as_str()),
        (BTreeSet::from(["a 1.2.2".to_owned()]), "2026-01-02")
    );
}

#[test]
fn a_crate_from_elsewhere_is_seen() {
    let allowed = BTreeSet::from(["MIT".to_owned()]);
    let package = |source: &str| serde_json::json!({"name": "a", "license": "MIT", "source": source});
    assert_eq!(complaint(&package(CRATES_IO), &allowed), None);
    assert!(complaint(&package("git+https://example.org/a"), &allowed).is_some());
    assert_eq!(
        sources(&format!(
            "source = \"{CRATES_IO}\"\nsource = \"git+https://example.org/a\""
        ))
        .len(),
        1
    );
}

/// Redis and RabbitMQ are for those who ask for them: the library has each with a feature alone, and so has what `cargo build`
/// makes.
#[test]
fn adapters_are_in_no_default_feature() {
    let tree = |features: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
            .args(features)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let default = tree(&[]) + &tree(&["--no-default-features"]);
    let program = tree(&["--features", "program"]);
    for (feature, name) in [("redis", "redis v"), ("rabbitmq", "lapin v")] {
        let has = |tree: &str| tree.lines().any(|line| line.starts_with(name));
        assert!(!has(&default), "{name}");
        assert!(has(&program) && has(&tree(&["--features", feature])), "{name}");
    }
}

/// What is measured beside us is the same for everybody: exact versions, and lock files that name no registry of one machine.
#[test]
fn the_peers_of_the_benchmarks_are_pinned() {
    let peers = format!("{}/benches/peers", env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(format!("{peers}/{file}")).unwrap();
    let lock = read("dbos/Cargo.lock");
    assert!(lock.contains("name = \"dbos\""));
    assert_eq!(sources(&lock), [""; 0]);
    assert!(read("dbos/Cargo.toml").contains("dbos = \"="), "not exact");
    let wanted: Value = serde_json::from_str(&read("node/package.json")).unwrap();
    let locked: Value = serde_json::from_str(&read("node/package-lock.json")).unwrap();
    for (name, version) in wanted["dependencies"].as_object().unwrap() {
        assert_eq!(
            version,
            &locked["packages"][format!("node_modules/{name}")]["version"],
            "{name}"
        );
    }
    for (path, package) in locked["packages"].as_object().unwrap() {
        assert!(package.get("resolved").is_none(), "{path} has an address");
        assert!(
            path.is_empty() || package["integrity"].is_string(),
            "{path} has no digest"
        );
    }
}

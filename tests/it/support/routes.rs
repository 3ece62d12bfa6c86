//! The routes of the API, as its source has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// A route with its methods in capitals. The path begins with `/`.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: String,
    pub(crate) methods: Vec<String>,
}

/// All routes, sorted by path.
pub(crate) fn routes() -> Vec<Route> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api"), &mut found);
    let routes = found.into_iter().map(|(path, methods)| Route { path, methods });
    let routes: Vec<Route> = routes.collect();
    assert!(
        routes.len() > 35 && routes.iter().all(|route| !route.methods.is_empty()),
        "{routes:?}"
    );
    routes
}

fn read(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        // Studio's pages are no API, and a node serves them only if they are installed.
        if path.is_dir() && path.ends_with("studio") {
            continue;
        }
        if path.is_dir() {
            read(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for call in text.split(".route(").skip(1) {
                add(call, found);
            }
            for form in text.split("#[utoipa::path(").skip(1) {
                add_described(form, found);
            }
            for call in text.split("also_at(").skip(1) {
                add_further(call, &path, found);
            }
        }
    }
}

/// The path that the source names by a literal or a constant.
fn full(name: &str) -> String {
    match name.trim().rsplit("::").next().unwrap() {
        "RESUME_BY_QUERY" => "/elsa/api/bookmarks/resume".to_owned(),
        "TRIGGER_BY_QUERY" => "/elsa/api/events/trigger".to_owned(),
        "WEBHOOKS" => "/elsa/api/webhooks".to_owned(),
        "RESUME_BY_PATH" => "/workflows/resume/{link}".to_owned(),
        "LIVE" => "/health/live".to_owned(),
        "READY" => "/health/ready".to_owned(),
        "METRICS" => "/metrics".to_owned(),
        "OPENAPI_JSON" => "/openapi.json".to_owned(),
        "OPENAPI_PAGE" => "/openapi".to_owned(),
        "HUB" => "/elsa/hubs/workflow-instance".to_owned(),
        "HUB_NEGOTIATION" => "/elsa/hubs/workflow-instance/negotiate".to_owned(),
        literal => {
            let path = literal.strip_prefix('"').and_then(|path| path.strip_suffix('"'));
            format!(
                "/elsa/api{}",
                path.unwrap_or_else(|| panic!("which path is {literal}?"))
            )
        }
    }
}

/// What describes a handler: `post, path = …` or `method(get, post), path = …`.
fn add_described(form: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let (methods, rest) = form.split_once("path = ").unwrap();
    let path = rest.split([',', ')']).next().unwrap();
    let known = found.entry(full(path)).or_default();
    let words = methods.split(|c: char| !c.is_alphanumeric());
    for method in words.filter(|word| METHODS.contains(word)).map(str::to_uppercase) {
        if !known.contains(&method) {
            known.push(method);
        }
    }
}

/// A further path of a handler: `"/path", routes!(module::handler)`. A path that is computed is left out.
fn add_further(call: &str, file: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    let (path, rest) = call.split_once(',').unwrap();
    let Some(handler) = rest.trim_start().strip_prefix("routes!(") else {
        return;
    };
    if !path.trim().starts_with('"') {
        return;
    }
    let handler = handler.split(')').next().unwrap();
    let (file, name) = match handler.split_once("::") {
        Some((module, name)) => (file.with_file_name(format!("{module}.rs")), name),
        None => (file.to_owned(), handler),
    };
    let text = fs::read_to_string(file).unwrap();
    let before = text.split(&format!("fn {name}(")).next().unwrap();
    let methods = before.rsplit("#[utoipa::path(").next().unwrap();
    let methods = methods.split("path = ").next().unwrap();
    add_described(&format!("{methods}path = {path},"), found);
}

/// A call of `route`: from its path on.
fn add(call: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let (path, rest) = call.split_once(',').unwrap();
    let path = full(path);
    // The call ends where its parentheses do.
    let mut depth = 1;
    let end = rest.char_indices().find(|(_, c)| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    let rest = &rest[..end.map_or(rest.len(), |(at, _)| at)];
    let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(' && c != ':');
    let words: Vec<&str> = words.collect();
    let has = |method: &&str| {
        let call = format!("{method}(");
        words.iter().any(|word| word.starts_with(&call))
    };
    let known = found.entry(path).or_default();
    for method in METHODS.into_iter().filter(has).map(str::to_uppercase) {
        if !known.contains(&method) {
            known.push(method);
        }
    }
}

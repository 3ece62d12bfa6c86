//! `docker-compose.yml` and the Dockerfile, as far as they can be tested without a container engine: their settings are what the
//! program is started with. The build of the image is not tested here.
//!
//! ThreeNodes things cannot be had as they are by three processes of one machine, and are mapped here, and nothing else: the
//! host `postgres` with its user and database is the test server with a database of its own, port 8080 is a free port
//! for each node, and the key that Compose takes from the environment is one of this test.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use yaml_rust2::{Yaml, YamlLoader};

use crate::support::{Child, Http, LONG_TIMEOUT, TestDatabase, poll_until};

const COMPOSE: &str = include_str!("../../../docker-compose.yml");
const DOCKERFILE: &str = include_str!("../../../Dockerfile");

/// As `openssl rand -hex 32` makes one.
const KEY: &str = "5f1c0d7be2a94c6f8b3e7d2a1c9f4e6b0a8d5c3f7e1b2946d8c0a5f3e7b19d42";

/// What the image declares.
#[derive(Debug, Default)]
struct Image {
    environment: BTreeMap<String, String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    user: String,
    port: String,
    has_health_check: bool,
}

/// The last stage of a Dockerfile.
fn image(dockerfile: &str) -> Image {
    let joined = dockerfile.replace("\\\n", " ");
    let stage = joined.rsplit_once("\nFROM ").unwrap().1;
    let mut image = Image::default();
    for line in stage.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        match instruction {
            "ENV" => {
                let (name, value) = rest.split_once('=').unwrap();
                image.environment.insert(name.to_owned(), value.to_owned());
            }
            "ENTRYPOINT" => image.entrypoint = serde_json::from_str(rest).unwrap(),
            "CMD" => image.command = serde_json::from_str(rest).unwrap(),
            "USER" => image.user = rest.to_owned(),
            "EXPOSE" => image.port = rest.to_owned(),
            "HEALTHCHECK" => image.has_health_check = rest.contains("/health/ready"),
            _ => {}
        }
    }
    image
}

/// YAML as JSON. What `<<` names is merged below the keys beside it, as Compose does.
fn plain(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::String(text) => json!(text),
        Yaml::Integer(number) => json!(number),
        Yaml::Boolean(yes) => json!(yes),
        Yaml::Array(items) => items.iter().map(plain).collect(),
        Yaml::Hash(entries) => {
            let (mut below, mut own) = (Map::new(), Map::new());
            for (key, value) in entries {
                match key.as_str().unwrap() {
                    "<<" => below = plain(value).as_object().unwrap().clone(),
                    key => drop(own.insert(key.to_owned(), plain(value))),
                }
            }
            below.extend(own);
            Value::Object(below)
        }
        Yaml::Null => Value::Null,
        other => panic!("not expected in this file: {other:?}"),
    }
}

fn services() -> Map<String, Value> {
    let file = YamlLoader::load_from_str(COMPOSE).unwrap();
    plain(&file[0])["services"].as_object().unwrap().clone()
}

fn nodes() -> Vec<Value> {
    let services = services();
    let nodes = services.values().filter(|service| service["image"] == "mainspring");
    nodes.cloned().collect()
}

/// The environment of a list of `NAME=value`.
fn environment(service: &Value) -> BTreeMap<String, String> {
    let list = service["environment"].as_array().unwrap();
    let pair = |entry: &Value| {
        let (name, value) = entry.as_str().unwrap().split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    list.iter().map(pair).collect()
}

#[test]
fn three_nodes_and_a_database_as_in_a_compose_file_of_elsas() {
    let nodes = nodes();
    let ports: Vec<&Value> = nodes.iter().map(|node| &node["ports"]).collect();
    assert_eq!(
        ports,
        [
            &json!(["127.0.0.1:5001:8080"]),
            &json!(["127.0.0.1:5002:8080"]),
            &json!(["127.0.0.1:5003:8080"])
        ]
    );
    for node in &nodes {
        assert_eq!(node["build"], ".");
        assert_eq!(node["depends_on"]["postgres"]["condition"], "service_healthy");
        assert!(node["healthcheck"]["test"].to_string().contains("8080/health/ready"));
        let environment = environment(node);
        assert_eq!(environment["ELSA__RUNTIME__TYPE"], "Distributed");
        assert_eq!(environment["QUARTZ__CLUSTERED"], "true");
        assert_eq!(environment["ASPNETCORE_ENVIRONMENT"], "Development");
        // Required: without one Compose starts nothing. A key that stood here would be known to all.
        assert!(
            environment["MAINSPRING_API_KEY"].starts_with("${MAINSPRING_API_KEY:?"),
            "{environment:?}"
        );
        assert!(!environment.contains_key("MAINSPRING_ALLOW_ANONYMOUS"));
    }
    // Other servers start with a profile alone, and are selected by nothing that stands here.
    let all = services();
    for (name, selected) in [("redis", "MAINSPRING_LOCK_PROVIDER"), ("rabbitmq", "MAINSPRING_WAKE")] {
        assert_eq!(all[name]["profiles"], json!([name]));
        assert_eq!(environment(&nodes[0])[selected], format!("${{{selected}:-postgres}}"));
    }
    let postgres = &services()["postgres"];
    assert!(is_pinned(postgres["image"].as_str().unwrap()), "{}", postgres["image"]);
    let server = environment(postgres);
    let expected = format!(
        "Server=postgres;Database={};User Id={};Password={}",
        server["POSTGRES_DB"], server["POSTGRES_USER"], server["POSTGRES_PASSWORD"]
    );
    for node in &nodes {
        assert_eq!(environment(node)["CONNECTIONSTRINGS__POSTGRESQL"], expected);
    }
}

#[test]
fn the_image_runs_without_privileges_and_reports_its_health() {
    let image = image(DOCKERFILE);
    assert_eq!(image.entrypoint, ["mainspring"]);
    assert_eq!(image.command, ["serve"]);
    assert!(image.user.parse::<u32>().unwrap() > 0);
    assert_eq!(image.port, "8080");
    assert_eq!(image.environment["ASPNETCORE_HTTP_PORTS"], "8080");
    assert!(image.has_health_check);
    // The operator of the image configures the access.
    assert!(!image.environment.contains_key("MAINSPRING_ALLOW_ANONYMOUS"));
    assert!(!image.environment.contains_key("MAINSPRING_API_KEY"));
}

/// `name:tag@sha256:digest`, the tag with a full version or a date.
fn is_pinned(image: &str) -> bool {
    let Some((name, digest)) = image.split_once("@sha256:") else {
        return false;
    };
    let tag = name.split_once(':').map_or("", |(_, tag)| tag);
    digest.len() == 64
        && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        && tag.split(['-', '.']).filter(|part| part.parse::<u32>().is_ok()).count() >= 1
        && tag.bytes().filter(u8::is_ascii_digit).count() >= 4
}

#[test]
fn base_images_are_pinned() {
    let bases: Vec<&str> = DOCKERFILE
        .lines()
        .filter_map(|line| line.strip_prefix("FROM "))
        .map(|base| base.split(' ').next().unwrap())
        .collect();
    assert_eq!(bases.len(), 2);
    for base in bases {
        assert!(is_pinned(base), "{base}");
    }
    assert!(!is_pinned("debian:bookworm-slim") && !is_pinned("rust:1-slim-bookworm"));
    // The build uses the newest compiler, whatever the image has.
    assert!(
        !DOCKERFILE
            .lines()
            .any(|line| line.starts_with("COPY") && line.contains("rust-toolchain"))
    );
}

/// Another process may take the port before the node does; then the test fails, and says so.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The connection string with the test server in place of the host `postgres`.
fn mapped(connection: &str, url: &str) -> String {
    let url = reqwest::Url::parse(url).unwrap();
    let parts = connection.split(';').map(|part| {
        let (key, value) = part.split_once('=').unwrap();
        match (key, value) {
            ("Server", "postgres") => format!("Server={};Port={}", url.host_str().unwrap(), url.port().unwrap_or(5432)),
            ("Database", "elsa") => format!("Database={}", &url.path()[1..]),
            ("User Id", "elsa") => format!("User Id={}", url.username()),
            ("Password", "elsa") => format!("Password={}", url.password().unwrap_or("none")),
            other => panic!("{other:?} is not mapped"),
        }
    });
    parts.collect::<Vec<_>>().join(";")
}

#[tokio::test]
async fn the_services_start_with_exactly_their_environment_and_command() {
    let database = TestDatabase::empty().await;
    let image = image(DOCKERFILE);
    let mut running = Vec::new();
    for node in nodes() {
        let mut environment: BTreeMap<String, String> = image.environment.clone();
        environment.extend(self::environment(&node));
        let connection = environment.get_mut("CONNECTIONSTRINGS__POSTGRESQL").unwrap();
        *connection = mapped(connection, &database.url());
        let key = environment.get_mut("MAINSPRING_API_KEY").unwrap();
        assert!(key.starts_with("${MAINSPRING_API_KEY:?"));
        *key = KEY.to_owned();
        for value in environment.values_mut() {
            // What .env does not set.
            let default = value.strip_prefix("${").and_then(|rest| rest.split_once(":-"));
            if let Some((_, default)) = default {
                *value = default.trim_end_matches('}').to_owned();
            }
        }
        let port = environment.get_mut("ASPNETCORE_HTTP_PORTS").unwrap();
        assert_eq!(port, "8080");
        let free = free_port();
        *port = free.to_string();
        assert!(node.get("command").is_none() && node.get("entrypoint").is_none());
        let (program, arguments) = image.entrypoint.split_first().unwrap();
        assert_eq!(program, "mainspring");
        let arguments: Vec<&str> = arguments.iter().chain(&image.command).map(String::as_str).collect();
        let variables: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        running.push((Child::start(&arguments, &variables), free));
    }
    let mut clients = Vec::new();
    for (child, port) in &running {
        child.wait_for_line("ready ", LONG_TIMEOUT);
        let http = Http::new(&format!("http://127.0.0.1:{port}"));
        assert_eq!(http.get("/health/ready").await.status, 200);
        assert_eq!(http.get("workflow-definitions").await.status, 401);
        clients.push(http.with_key(KEY));
    }
    let hello: Value = serde_json::from_str(include_str!("../../../samples/hello-world.json")).unwrap();
    let save = json!({"model": hello, "publish": true});
    clients[0].post("workflow-definitions", &save).await.expect(200);
    let executed = clients[1]
        .post("workflow-definitions/hello-world/execute", &json!({}))
        .await;
    let id = executed.expect(200)["workflowState"]["id"].as_str().unwrap().to_owned();
    poll_until(LONG_TIMEOUT, "the third node to show it", async || {
        let shown = clients[2].get(&format!("workflow-instances/{id}")).await;
        (shown.status == 200 && shown.body["status"] == "Finished").then_some(())
    })
    .await;
    for (child, _) in &mut running {
        child.signal("TERM");
        assert_eq!(child.wait(LONG_TIMEOUT).code(), Some(0), "{:?}", child.stderr());
    }
}

//! Redis servers that cannot be used as they are set, sentinels, and TLS.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::node::{Node, assert_each_exactly_once, load, publish, spawn, start_three, wait_until_finished};
use crate::support::redis::RedisProcess;
use crate::support::sentinels::{MASTER, Sentinels};
use crate::support::{Child, TIMEOUT, TestDatabase, long, wait_until};

fn start(database: &TestDatabase, url: &str, more: &[&str]) -> Child {
    let settings = ["--lock-provider", "redis", "--redis-url", url];
    spawn(&database.url(), "one", &[&settings[..], more].concat(), &[])
}

/// It ends with this exit code, and says these words and no password.
#[track_caller]
fn ends(mut child: Child, code: i32, words: &[&str]) {
    let ended = child.wait(TIMEOUT).code();
    let said = child.stderr().join("\n");
    assert!(!said.contains("geheim") && !said.contains("falsch"), "{said}");
    let says_all = words.iter().all(|word| said.contains(word));
    assert!(ended == Some(code) && says_all, "{words:?}, {ended:?}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_exits_with_a_remedy_where_its_redis_cannot_be_used() {
    let database = TestDatabase::create().await;
    let redis = RedisProcess::start_with(&["--requirepass", "geheim"]);
    let port = redis.port();
    let start = |url: &str| start(&database, url, &[]);
    ends(start(&format!("redis://:falsch@127.0.0.1:{port}")), 2, &["password"]);
    ends(start("redis://:geheim@127.0.0.1:1"), 3, &["127.0.0.1:1"]);
    ends(start(&format!("127.0.0.1:{port},pasword=geheim")), 2, &["pasword"]);
    ends(start(&format!("rediss://:geheim@127.0.0.1:{port}")), 3, &["no TLS"]);
    ends(
        start(&format!("127.0.0.1:{port},serviceName=m,password=geheim")),
        2,
        &["no sentinel"],
    );
    ends(
        start(&format!("redis-cluster://:geheim@127.0.0.1:{port}")),
        2,
        &["Cluster"],
    );
    // `abortConnect=false`: it starts without Redis, and is ready.
    let degraded = Node::start_at(
        &database.url(),
        "one",
        &[
            "--lock-provider",
            "redis",
            "--redis-url",
            "127.0.0.1:1,abortConnect=false",
        ],
        &[],
    );
    let http = degraded.http.as_ref().unwrap();
    wait_until("readiness to name what is away", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!(["locks"])
    })
    .await;
    let said = degraded.child.stderr().join("\n");
    assert_eq!(said.matches("starts without Redis").count(), 1, "{said}");
}

/// The rights that docs/adapters.md lists are enough, and a missing one is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_documented_rights_is_enough() {
    let of_nodes = "info get set evalsha script|load subscribe publish";
    let of_scripts = "time type del exists pexpire pttl zadd zrange zrem zremrangebyscore zscore";
    let redis = RedisProcess::start();
    let allow = |commands: &str| {
        let rights = "ACL SETUSER app reset on >geheim ~workflow:* ~mainspring:* &mainspring:* -@all +";
        let all = format!("{rights}{}", commands.replace(' ', " +"));
        assert_eq!(redis.run(&all.split(' ').collect::<Vec<_>>()), "OK");
    };
    let database = TestDatabase::create().await;
    let url = format!("redis://app:geheim@127.0.0.1:{}", redis.port());
    allow("info");
    ends(start(&database, &url, &[]), 2, &["denies", "GET"]);
    allow(&format!("{of_nodes} {of_scripts}"));
    let all = ["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url];
    let node = Node::start_with(&database, "one", &all, "");
    let http = node.http.as_ref().unwrap();
    publish(http).await;
    for walk in load(vec![http.clone()], 3) {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 3).await;
    assert_eq!(http.get("/health/ready").await.expect(200)["away"], json!([]));
    assert_each_exactly_once(&database, &client, 3).await;
    // The locks were in Redis: each drew a token.
    assert!(!redis.run(&["GET", "mainspring:tokens:workflow:"]).is_empty());
}

/// Nodes of sentinels whose master is killed under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_flow_again_soon_after_sentinels_have_promoted_a_replica() {
    if !long() {
        return;
    }
    let database = TestDatabase::create().await;
    let mut sentinels = Sentinels::start();
    let url = sentinels.connection_string();
    ends(
        start(&database, &url.replace(MASTER, "unknown"), &[]),
        2,
        &["`unknown`", "serviceName"],
    );
    let settings = [
        "--lock-provider",
        "redis",
        "--signal",
        "redis",
        "--redis-url",
        &url,
        "--lock-expiry",
        "3s",
    ];
    let nodes = start_three(&database, &settings);
    let addresses: Vec<_> = nodes.iter().filter_map(|node| node.http.clone()).collect();
    publish(&addresses[0]).await;
    let walks = load(addresses.clone(), 60);
    let before = sentinels.master();
    sentinels.kill_master();
    wait_until("the sentinels to name another master", async || {
        sentinels.master() != before
    })
    .await;
    let promoted = Instant::now();
    for http in &addresses {
        wait_until("the locks to be back", async || {
            http.get("/health/ready").await.expect(200)["away"] == json!([])
        })
        .await;
    }
    let took = promoted.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    for walk in walks {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 60).await;
    assert!(!sentinels.run_at_master(&["GET", "mainspring:nonce"]).is_empty());
    assert_each_exactly_once(&database, &client, 60).await;
}

/// A private authority with a certificate for 127.0.0.1 and one for a client.
struct Certificates(PathBuf);

impl Certificates {
    fn make() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-tls-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
        let made = Self(folder);
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        made.openssl(
            &[
                "req",
                "-x509",
                "-subj",
                "/CN=authority",
                "-days",
                "2",
                "-keyout",
                "ca.key",
                "-out",
                "ca.pem",
            ],
            &key,
        );
        for name in ["server", "client"] {
            let (request, secret, signed) = (format!("{name}.csr"), format!("{name}.key"), format!("{name}.pem"));
            let subject = format!("/CN={name}");
            made.openssl(&["req", "-subj", &subject, "-keyout", &secret, "-out", &request], &key);
            let authority = [
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "2",
                "-extfile",
                "names",
            ];
            made.openssl(&["x509", "-req", "-in", &request, "-out", &signed], &authority);
        }
        made
    }

    fn openssl(&self, arguments: &[&str], more: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command
            .args(arguments)
            .args(more)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_and_a_client_certificate_are_used_and_needed() {
    let files = Certificates::make();
    let database = TestDatabase::create().await;
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| files.path(name));
    let (server_cert, server_key) = (files.path("server.pem"), files.path("server.key"));
    let redis = RedisProcess::start_with_tls(&[
        "--tls-cert-file",
        &server_cert,
        "--tls-key-file",
        &server_key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "yes",
    ]);
    let url = format!("rediss://127.0.0.1:{}", redis.tls_port());
    let both = ["--redis-cert-file", &cert, "--redis-key-file", &key];
    let ca_file = ["--redis-ca-file", ca.as_str()];
    ends(start(&database, &url, &both), 3, &["--redis-ca-file"]);
    ends(start(&database, &url, &ca_file), 3, &["TLS"]);
    ends(
        start(&database, &url, &["--redis-cert-file", &cert]),
        2,
        &["--redis-key-file"],
    );
    ends(
        start(&database, &url, &["--redis-ca-file", "/dev/null"]),
        2,
        &["/dev/null", "PEM"],
    );
    ends(start(&database, &redis.url(), &ca_file), 2, &["rediss://"]);
    let plain = format!("redis://127.0.0.1:{}", redis.tls_port());
    ends(start(&database, &plain, &[]), 3, &["rediss://"]);
    let all = [
        &["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url][..],
        &ca_file,
        &both,
    ]
    .concat();
    let node = Node::start_at(&database.url(), "one", &all, &[]);
    let http = node.http.as_ref().unwrap();
    wait_until("the signal to be there", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
    assert!(!redis.run(&["GET", "mainspring:nonce"]).is_empty());
}

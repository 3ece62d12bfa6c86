//! Users and keys at two nodes behind the REST API: what Elsa's clients send, and what the commands of the program do.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Child, Http, TIMEOUT, TestDatabase, wait_until};

const PASSWORD: &str = "correct horse battery";

/// A cluster of two nodes, with the administrator `root`.
struct Pair {
    database: TestDatabase,
    nodes: [Node; 2],
    one: Http,
    two: Http,
}

/// What a command of the program prints, and its exit code. The first line of standard input is `input`.
fn command(database: &TestDatabase, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let script = "printf '%s\\n' \"$INPUT\" | \"$PROGRAM\" \"$@\"";
    let program = env!("CARGO_BIN_EXE_mainspring");
    let url = database.url();
    let variables = [
        ("INPUT", input),
        ("PROGRAM", program),
        ("MAINSPRING_DATABASE_URL", url.as_str()),
    ];
    let mut child = Child::program("sh", &[&["-c", script, "sh"], arguments].concat(), &variables);
    let code = child.wait(TIMEOUT).code();
    (code, child.stdout().join("\n"), child.stderr().join("\n"))
}

pub(super) fn done(database: &TestDatabase, arguments: &[&str], input: &str) -> String {
    let (code, said, errors) = command(database, arguments, input);
    assert_eq!(code, Some(0), "{arguments:?}: {errors}");
    assert!(!said.contains(PASSWORD) && !errors.contains(PASSWORD));
    said
}

impl Pair {
    async fn start() -> Self {
        let database = TestDatabase::create().await;
        done(&database, &["migrate"], "");
        done(
            &database,
            &["user", "add", "root", "--role", "admin", "--password-stdin"],
            PASSWORD,
        );
        let nodes = ["one", "two"].map(|name| Node::start(&database, name));
        let [one, two] = [0, 1].map(|at: usize| nodes[at].http.clone().unwrap());
        Self {
            database,
            nodes,
            one,
            two,
        }
    }

    async fn sign_in(&self, name: &str, password: &str) -> Value {
        let login = json!({"username": name, "password": password});
        self.one.post("identity/login", &login).await.expect(200)
    }

    /// The tokens of a user who signs in.
    async fn tokens(&self, name: &str) -> (String, String) {
        tokens(&self.sign_in(name, PASSWORD).await)
    }
}

fn tokens(answer: &Value) -> (String, String) {
    assert_eq!(answer["isAuthenticated"], true, "{answer}");
    let text = |field: &str| answer[field].as_str().unwrap().to_owned();
    (text("accessToken"), text("refreshToken"))
}

/// A request with a token.
async fn with(http: &Http, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
    let bearer = format!("Bearer {token}");
    http.send(method, path, &[("authorization", &bearer)], body)
        .await
        .unwrap()
}

async fn get(http: &Http, token: &str, path: &str) -> Answer {
    with(http, token, Method::GET, path, None).await
}

async fn refresh(http: &Http, token: &str) -> Answer {
    with(http, token, Method::POST, "identity/refresh-token", None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn elsas_clients_sign_in_and_go_on_at_any_node() {
    let pair = Pair::start().await;
    // As soon as there is a user, a request needs a credential.
    pair.one
        .get("workflow-definitions")
        .await
        .assert_refused(401, "unauthorized");
    let nothing = json!({"isAuthenticated": false, "accessToken": null, "refreshToken": null});
    for (name, password) in [("root", "another"), ("nobody", PASSWORD), ("", ""), ("root", "")] {
        assert_eq!(pair.sign_in(name, password).await, nothing);
    }
    assert_eq!(
        pair.one.post("identity/login", &json!({"username": 7})).await.status,
        400
    );
    let (access, first) = tokens(&pair.sign_in(" Root ", &format!(" {PASSWORD} ")).await);
    for http in [&pair.one, &pair.two] {
        get(http, &access, "workflow-definitions").await.expect(200);
        let me = get(http, &access, "identity/me").await.expect(200);
        assert_eq!(
            (&me["kind"], &me["name"], &me["permissions"]),
            (&json!("user"), &json!("root"), &json!(["*"]))
        );
    }
    // Neither token is good in the other's place.
    get(&pair.one, &first, "workflow-definitions")
        .await
        .assert_refused(401, "unauthorized");
    refresh(&pair.one, &access).await.assert_refused(401, "wrong-token-use");
    refresh(&pair.one, "no.token.here")
        .await
        .assert_refused(401, "invalid-token");
    pair.one
        .post("identity/refresh-token", &json!({}))
        .await
        .assert_refused(401, "invalid-token");
    // A lost answer is repeated, at another node; a copy that is used later ends the session everywhere.
    let second = refresh(&pair.one, &first).await.expect(200);
    assert_eq!(refresh(&pair.two, &first).await.expect(200), second);
    let (_, token) = tokens(&second);
    let third = refresh(&pair.two, &token).await.expect(200);
    refresh(&pair.one, &first).await.assert_refused(401, "token-reused");
    let (access, token) = tokens(&third);
    refresh(&pair.two, &token).await.assert_refused(401, "invalid-token");
    for http in [&pair.one, &pair.two] {
        wait_until("the session to end", async || {
            get(http, &access, "identity/me").await.status == 401
        })
        .await;
    }
    // So does signing out.
    let (access, token) = pair.tokens("root").await;
    with(&pair.two, &access, Method::POST, "identity/logout", None)
        .await
        .expect(204);
    get(&pair.two, &access, "identity/me")
        .await
        .assert_refused(401, "unauthorized");
    refresh(&pair.one, &token).await.assert_refused(401, "invalid-token");
    // No node has written a password or a token to its log.
    for node in &pair.nodes {
        let said = node.child.stderr().join("\n");
        assert!(!said.contains(PASSWORD) && !said.contains("eyJ"), "{said}");
    }
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_manage_users_roles_and_applications() {
    let pair = Pair::start().await;
    let (access, _) = pair.tokens("root").await;
    let send = async |method, path: &str, body: Value| with(&pair.one, &access, method, path, Some(&body)).await;
    let role = json!({"name": "Order Clerk", "permissions": ["read:workflow-instances", "exec:workflow-definitions"]});
    let made = send(Method::POST, "identity/roles", role.clone()).await.expect(200);
    assert_eq!(made["id"], "order-clerk");
    send(Method::POST, "identity/roles", role)
        .await
        .assert_refused(409, "role-exists");
    let made = send(
        Method::POST,
        "identity/users",
        json!({"name": "Ann", "roles": ["order-clerk"]}),
    )
    .await
    .expect(200);
    let password = made["password"].as_str().unwrap().to_owned();
    assert!(made.get("hashedPassword").is_none());
    let id = made["id"].as_str().unwrap().to_owned();
    let (clerk, _) = tokens(&pair.sign_in("ann", &password).await);
    get(&pair.two, &clerk, "workflow-instances").await.expect(200);
    get(&pair.two, &clerk, "identity/users")
        .await
        .assert_refused(403, "permission-required");
    // What is listed has neither a password nor a hash.
    let listed = get(&pair.two, &access, "identity/users").await.expect(200);
    assert_eq!(listed["users"].as_array().unwrap().len(), 2);
    let text = listed.to_string();
    assert!(!text.contains("argon2") && !text.contains("assword"), "{text}");
    // One's own password, with the one that is good.
    let change = |current: &str| json!({"currentPassword": current, "newPassword": PASSWORD});
    let own = async |body: Value| with(&pair.two, &clerk, Method::POST, "identity/password", Some(&body)).await;
    own(change("wrong one")).await.assert_refused(403, "wrong-password");
    own(change(&password)).await.expect(204);
    get(&pair.one, &clerk, "workflow-instances").await.expect(200);
    pair.tokens("ann").await;
    // An application, its key, and their end.
    let new = json!({"name": "Shop", "roles": ["order-clerk"], "expiresIn": "P1D"});
    let made = send(Method::POST, "identity/applications", new).await.expect(200);
    let shop = pair.two.clone().with_key(made["apiKey"].as_str().unwrap());
    shop.get("workflow-instances").await.expect(200);
    shop.get("identity/applications")
        .await
        .assert_refused(403, "permission-required");
    assert!(
        get(&pair.one, &access, "identity/applications").await.expect(200)["applications"][0]
            .get("apiKey")
            .is_none()
    );
    let path = format!("identity/applications/{}", made["id"].as_str().unwrap());
    with(&pair.one, &access, Method::DELETE, &path, None).await.expect(204);
    wait_until("the key to be revoked", async || {
        shop.get("workflow-instances").await.status == 401
    })
    .await;
    // A role that is in use, and what its end would change.
    let path = "identity/roles/order-clerk";
    with(&pair.one, &access, Method::DELETE, path, None)
        .await
        .assert_refused(409, "role-in-use");
    let impact = get(&pair.one, &access, &format!("{path}/deletion-impact"))
        .await
        .expect(200);
    assert_eq!(
        impact["editableReferences"],
        json!([{"kind": "User", "id": id, "name": "Ann"}])
    );
    let confirmed = json!({"expectedDependencyVersion": impact["dependencyVersion"]});
    let remove = format!("{path}/remove-from-jit-policies-and-delete");
    send(Method::POST, &remove, json!({}))
        .await
        .assert_refused(400, "invalid-field");
    send(Method::POST, &remove, confirmed).await.expect(204);
    wait_until("the role to be gone", async || {
        get(&pair.two, &clerk, "workflow-instances").await.status == 403
    })
    .await;
    // The last administrator stays, also for itself.
    let me = get(&pair.one, &access, "identity/me").await.expect(200);
    let path = format!("identity/users/{}", me["id"].as_str().unwrap());
    send(Method::PUT, &path, json!({"isDisabled": true}))
        .await
        .assert_refused(409, "last-administrator");
    with(&pair.one, &access, Method::DELETE, &path, None)
        .await
        .assert_refused(409, "last-administrator");
    let path = format!("identity/users/{id}");
    send(Method::PUT, &path, json!({"isDisabled": true})).await.expect(200);
    get(&pair.one, &clerk, "identity/me")
        .await
        .assert_refused(401, "unauthorized");
    with(&pair.one, &access, Method::DELETE, &path, None).await.expect(204);
    with(&pair.one, &access, Method::DELETE, &path, None)
        .await
        .assert_refused(404, "user-not-found");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_demoted_while_its_request_comes_in_changes_nothing() {
    let pair = Pair::start().await;
    let (access, _) = pair.tokens("root").await;
    let send = async |method, path: &str, body: Value| with(&pair.one, &access, method, path, Some(&body)).await;
    let user = json!({"name": "ann", "password": PASSWORD, "roles": ["admin"]});
    let made = send(Method::POST, "identity/users", user).await.expect(200);
    let (ann, _) = pair.tokens("ann").await;
    let body = json!({"name": "accomplice", "password": PASSWORD, "roles": ["admin"]}).to_string();
    let mut stream = TcpStream::connect(pair.two.address()).await.unwrap();
    let head = format!(
        "POST /elsa/api/identity/users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {ann}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut continues = [0; 25];
    stream.read_exact(&mut continues).await.unwrap();
    assert_eq!(&continues, b"HTTP/1.1 100 Continue\r\n\r\n", "it is admitted");

    let path = format!("identity/users/{}", made["id"].as_str().unwrap());
    send(Method::PUT, &path, json!({"roles": ["reader"]})).await.expect(200);
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("\"caller-changed\""),
        "{answer}"
    );
    let users = get(&pair.one, &access, "identity/users").await.expect(200);
    assert_eq!(users["users"].as_array().unwrap().len(), 2, "{users}");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_refused_and_the_commands_help() {
    let pair = Pair::start().await;
    let mut last = None;
    for number in 0..11 {
        let login = json!({"username": "root", "password": format!("guess {number}")});
        last = Some(pair.two.post("identity/login", &login).await);
    }
    let last = last.unwrap();
    last.assert_refused(429, "too-many-logins");
    let seconds: u64 = last.header("retry-after").parse().unwrap();
    assert!((1..=901).contains(&seconds), "{seconds}");
    // The key of a program is not a login.
    let key = done(
        &pair.database,
        &["key", "add", "rescue", "--role", "admin", "--expires", "1h"],
        "",
    );
    let rescue = pair.one.clone().with_key(&key);
    wait_until("the key to be known", async || {
        rescue.get("identity/users").await.status == 200
    })
    .await;
    assert!(done(&pair.database, &["key", "list"], "").starts_with("rescue (admin, until "));
    done(
        &pair.database,
        &["user", "add", "ann", "--role", "reader,operator", "--password-stdin"],
        PASSWORD,
    );
    assert_eq!(
        done(&pair.database, &["user", "list"], ""),
        "ann (reader, operator)\nroot (admin)"
    );
    let (access, _) = pair.tokens("ann").await;
    done(&pair.database, &["user", "disable", "ANN"], "");
    wait_until("the session to end", async || {
        get(&pair.one, &access, "identity/me").await.status == 401
    })
    .await;
    assert_eq!(
        done(&pair.database, &["user", "enable", "ann"], ""),
        "ann (reader, operator)"
    );
    done(&pair.database, &["user", "password", "ann"], "another password");
    tokens(&pair.sign_in("ann", "another password").await);
    done(&pair.database, &["key", "revoke", "RESCUE"], "");
    wait_until("the key to be revoked", async || {
        rescue.get("identity/users").await.status == 401
    })
    .await;
    for (arguments, input, exit, part) in [
        (&["user", "disable", "root"][..], "", 1, "no user who may do everything"),
        (&["user", "add", "ann"], "", 1, "already"),
        (&["user", "add", "bob", "--role", "nobody"], "", 2, "no role \"nobody\""),
        (&["user", "password", "ann"], "short", 2, "at least 8 characters"),
        (&["user", "password", "cid"], PASSWORD, 1, "no user \"cid\""),
        (&["key", "revoke", "rescue"], "", 1, "no key \"rescue\""),
    ] {
        let (code, _, errors) = command(&pair.database, arguments, input);
        assert!(
            code == Some(exit) && errors.contains(part),
            "{arguments:?}: {code:?} {errors}"
        );
    }
    let (code, ..) = command(&pair.database, &["user", "password", "ann"], "");
    assert_eq!(code, Some(2));
    // The audit has what they changed, and no list.
    let client = pair.database.connect().await;
    let query =
        "SELECT route || ' ' || target AS words FROM mainspring.audit WHERE caller_kind = 'command' ORDER BY id";
    let noted: Vec<String> = client
        .query(query, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get("words"))
        .collect();
    let changes = [
        "user add root",
        "key add rescue",
        "user add ann",
        "user disable ANN",
        "user enable ann",
        "user password ann",
        "key revoke RESCUE",
    ];
    assert_eq!(noted, changes.map(|change| format!("mainspring {change}")));
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_add_the_first_administrator_and_a_public_address_needs_one() {
    let database = TestDatabase::create().await;
    let file = std::env::temp_dir().join(format!("mainspring-admin-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let public = ["serve", "--listen", "0.0.0.0:0"];
    let (code, _, errors) = command(&database, &public, "");
    assert!(code == Some(2) && errors.contains("--admin-password-file"), "{errors}");
    let settings = ["--listen", "0.0.0.0:0", "--admin-password-file", file.to_str().unwrap()];
    let with_key = [&settings[..], &["--api-key", "0123456789abcdef"]].concat();
    let node = Node::start_with(&database, "one", &with_key, "");
    let warning = "the --api-key permits everything";
    let http = node.http.clone().unwrap();
    let login = json!({"username": "admin", "password": PASSWORD});
    let (access, _) = tokens(&http.post("identity/login", &login).await.expect(200));
    assert!(!node.child.logs(warning));
    get(&http, &access, "identity/me").await.expect(200);
    wait_until("the warning", async || node.child.logs(warning)).await;
    // Another start changes nothing, and adds no second one.
    std::fs::write(&file, "another password").unwrap();
    let other = Node::start_with(&database, "two", &settings, "");
    assert!(!other.child.logs(warning));
    let http = other.http.clone().unwrap();
    assert_eq!(
        get(&http, &access, "identity/users").await.expect(200)["users"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    tokens(&http.post("identity/login", &login).await.expect(200));
    std::fs::remove_file(&file).unwrap();
    assert_invariants(&database).await;
}

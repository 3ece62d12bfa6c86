//! Users and applications at two nodes of one cluster: tokens that every node takes, and rights that no caller gives away without
//! having them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::definition::WorkflowDefinition;
use crate::id::DefinitionId;
use crate::identity::{Caller, CallerKind, Permissions};
use crate::runtime::context::request::StartRequest;
use crate::runtime::context::settings::TokenLifetimes;
use crate::runtime::engine::Engine;
use crate::runtime::engine::identity::applications::NewKey;
use crate::runtime::engine::identity::roles::NewRole;
use crate::runtime::engine::identity::sign_in::{SignInRequest, SignedInOutcome, TokenPair};
use crate::runtime::engine::identity::tokens::TokenRefusal;
use crate::runtime::engine::identity::users::{NewUser, UserChange};
use crate::testing::TestDatabase;
use crate::{Error, Result};

const PASSWORD: &str = "correct horse battery";
const DEADLINE: Duration = Duration::from_secs(30);

struct Nodes {
    one: Engine,
    two: Engine,
    database: TestDatabase,
}

fn all() -> Permissions {
    Permissions::everything()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

impl Nodes {
    async fn start() -> Self {
        let database = TestDatabase::create().await;
        let mut nodes = Vec::new();
        for name in ["one", "two"] {
            let builder = Engine::builder(database.url())
                .node_id(name)
                .check_in(Duration::from_millis(100));
            nodes.push(builder.admin_password(PASSWORD).start().await.unwrap());
        }
        let (two, one) = (nodes.pop().unwrap(), nodes.pop().unwrap());
        Self { one, two, database }
    }

    async fn end(self) {
        self.one.shutdown().await;
        self.two.shutdown().await;
        let violations = crate::check(&self.database.url(), "mainspring").await.unwrap();
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// Adds a user with a role of these permissions, and signs it in.
    async fn user(&self, name: &str, permissions: &[&str]) -> Caller {
        let identity = self.one.identity().unwrap();
        let role = NewRole {
            id: Some(format!("role-{name}")),
            name: name.to_owned(),
            permissions: texts(permissions),
        };
        let role = identity.add_role(&all(), role).await.unwrap();
        let new = NewUser {
            name: name.to_owned(),
            password: Some(PASSWORD.to_owned()),
            roles: vec![role.id],
        };
        identity.add_user(&all(), new).await.unwrap();
        let pair = signed_in(&self.one, name).await;
        self.one.caller_of_token(&pair.access).await.unwrap().unwrap()
    }
}

async fn sign_in(engine: &Engine, name: &str, password: &str) -> SignedInOutcome {
    let request = SignInRequest {
        name: name.to_owned(),
        password: password.to_owned(),
        client: Some("192.0.2.1".to_owned()),
    };
    engine.sign_in(request).await.unwrap()
}

async fn signed_in(engine: &Engine, name: &str) -> TokenPair {
    match sign_in(engine, name, PASSWORD).await {
        SignedInOutcome::Tokens(pair) => pair,
        SignedInOutcome::Wrong => panic!("the password of {name} is wrong"),
        SignedInOutcome::TooMany(left) => panic!("too many attempts, for {left:?}"),
    }
}

async fn who(engine: &Engine, access: &str) -> Result<String, TokenRefusal> {
    engine.caller_of_token(access).await.unwrap().map(|caller| caller.name)
}

/// Waits until a node says this of a token: at the latest when it has checked in.
async fn becomes(engine: &Engine, access: &str, expected: Result<String, TokenRefusal>) {
    let deadline = Instant::now() + DEADLINE;
    while who(engine, access).await != expected {
        assert!(Instant::now() < deadline, "{:?}", who(engine, access).await);
        tokio::task::yield_now().await;
    }
}

fn code<T>(done: Result<T>) -> &'static str {
    done.map_or_else(|error: Error| error.code(), |_| "done")
}

#[tokio::test]
async fn a_token_is_good_at_every_node_until_its_session_ends() {
    let nodes = Nodes::start().await;
    // Both nodes have begun with the password of the first administrator, and one has added it.
    let pair = signed_in(&nodes.one, " ADMIN ").await;
    let caller = nodes.two.caller_of_token(&pair.access).await.unwrap().unwrap();
    assert_eq!((caller.kind, caller.name.as_str()), (CallerKind::User, "admin"));
    assert!(caller.permissions.is_everything());
    assert_eq!(who(&nodes.two, &pair.refresh).await, Err(TokenRefusal::WrongUse));
    let refresh = async |engine: &Engine, token: &str| engine.refresh_tokens(token, None).await.unwrap();
    assert_eq!(
        refresh(&nodes.two, &pair.access).await.err(),
        Some(TokenRefusal::WrongUse)
    );
    let next = refresh(&nodes.two, &pair.refresh).await.ok().unwrap();
    assert_ne!((&next.access, &next.refresh), (&pair.access, &pair.refresh));
    // The answer was lost, and the client asks another node: the same pair, byte for byte.
    let again = refresh(&nodes.one, &pair.refresh).await.ok().unwrap();
    assert_eq!((&again.access, &again.refresh), (&next.access, &next.refresh));
    let last = refresh(&nodes.one, &next.refresh).await.ok().unwrap();
    assert_eq!(who(&nodes.two, &last.access).await.unwrap(), "admin");
    // A copy of the first one ends the session, with all that it has issued.
    assert_eq!(
        refresh(&nodes.two, &pair.refresh).await.err(),
        Some(TokenRefusal::Reused)
    );
    assert_eq!(who(&nodes.two, &last.access).await, Err(TokenRefusal::Wrong));
    becomes(&nodes.one, &last.access, Err(TokenRefusal::Wrong)).await;
    assert_eq!(
        refresh(&nodes.one, &last.refresh).await.err(),
        Some(TokenRefusal::Wrong)
    );
    // So does signing out.
    let pair = signed_in(&nodes.two, "admin").await;
    let caller = nodes.one.caller_of_token(&pair.access).await.unwrap().unwrap();
    nodes.two.sign_out(caller.session.as_deref().unwrap()).await.unwrap();
    becomes(&nodes.one, &pair.access, Err(TokenRefusal::Wrong)).await;
    nodes.end().await;
}

#[tokio::test]
async fn a_disabled_user_and_a_changed_role_are_known_at_the_next_check_in() {
    let nodes = Nodes::start().await;
    let ann = nodes.user("ann", &["read:user"]).await;
    let pair = signed_in(&nodes.two, "ann").await;
    assert_eq!(who(&nodes.two, &pair.access).await.unwrap(), "ann");
    let identity = nodes.one.identity().unwrap();
    identity
        .change_role(&all(), "role-ann", None, Some(texts(&["read:role"])))
        .await
        .unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let caller = nodes.two.caller_of_token(&pair.access).await.unwrap().unwrap();
        if caller.permissions.has("read:role") && !caller.permissions.has("read:user") {
            break;
        }
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let disabled = |is_disabled| UserChange {
        is_disabled: Some(is_disabled),
        ..UserChange::default()
    };
    let admin = Caller::static_key();
    identity.change_user(&admin, &ann.id, disabled(true)).await.unwrap();
    assert_eq!(who(&nodes.one, &pair.access).await, Err(TokenRefusal::Wrong));
    becomes(&nodes.two, &pair.access, Err(TokenRefusal::Wrong)).await;
    assert!(matches!(
        sign_in(&nodes.two, "ann", PASSWORD).await,
        SignedInOutcome::Wrong
    ));
    // Enabled again it signs in again; its former tokens stay as dead as they are.
    identity.change_user(&admin, &ann.id, disabled(false)).await.unwrap();
    let after = signed_in(&nodes.two, "ann").await;
    assert_eq!(who(&nodes.one, &after.access).await.unwrap(), "ann");
    assert_eq!(who(&nodes.one, &pair.access).await, Err(TokenRefusal::Wrong));
    nodes.end().await;
}

#[tokio::test]
async fn a_token_dies_with_its_key_and_a_forged_one_asks_no_database() {
    let nodes = Nodes::start().await;
    let pair = signed_in(&nodes.one, "admin").await;
    let key = nodes.one.rotate_link_key().await.unwrap();
    let admin = nodes.database.connect().await;
    let aged = "UPDATE mainspring.token_key SET created_at = created_at - interval '1 hour'";
    admin.batch_execute(aged).await.unwrap();
    assert_eq!(code(nodes.one.retire_link_key(key.id - 1, false).await), "key-in-use");
    nodes.one.retire_link_key(key.id - 1, true).await.unwrap();
    assert_eq!(who(&nodes.one, &pair.access).await, Err(TokenRefusal::Wrong));
    assert_eq!(
        nodes.one.refresh_tokens(&pair.refresh, None).await.unwrap().err(),
        Some(TokenRefusal::Wrong)
    );
    let after = signed_in(&nodes.one, "admin").await;
    assert_eq!(who(&nodes.one, &after.access).await.unwrap(), "admin");
    for foreign in ["", "x", "a.b.c", &"a".repeat(1 << 20), &format!("{}x", after.access)] {
        assert!(who(&nodes.one, foreign).await.is_err());
    }
    nodes.end().await;
}

#[tokio::test]
async fn a_key_of_an_application_is_good_at_every_node_until_it_is_revoked_or_expires() {
    let nodes = Nodes::start().await;
    let identity = nodes.one.identity().unwrap();
    let new = |name: &str, lifetime| NewKey {
        name: name.to_owned(),
        roles: texts(&["reader"]),
        lifetime,
    };
    let made = identity.add_application(&all(), new("Billing", None)).await.unwrap();
    assert_eq!(
        code(identity.add_application(&all(), new("BILLING", None)).await),
        "application-exists"
    );
    assert!(made.api_key.ends_with(&made.client_secret) && made.api_key.len() == 76);
    let caller_at = async |engine: &Engine, key: &str| engine.caller_of_key(key).await.unwrap();
    // A node that has not heard of it reads once more, whatever else is tried beside it.
    let deadline = Instant::now() + DEADLINE;
    let caller = loop {
        let wrong = format!("{}-{}", "AB".repeat(16), "x".repeat(43));
        assert!(caller_at(&nodes.two, &wrong).await.is_none());
        if let Some(caller) = caller_at(&nodes.two, &made.api_key).await {
            break caller;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(
        (caller.kind, caller.name.as_str()),
        (CallerKind::Application, "Billing")
    );
    assert!(
        caller.permissions.has("read:workflow-definitions") && !caller.permissions.has("write:workflow-definitions")
    );
    let listed = identity.applications().await.unwrap();
    assert!(!serde_json::to_string(&listed).unwrap().contains(&made.client_secret));
    let short = identity
        .add_application(&all(), new("Short", Some(Duration::from_millis(300))))
        .await
        .unwrap();
    assert!(caller_at(&nodes.one, &short.api_key).await.is_some());
    let deadline = Instant::now() + DEADLINE;
    while caller_at(&nodes.one, &short.api_key).await.is_some() {
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    identity.delete_application(&all(), &made.application.id).await.unwrap();
    assert!(caller_at(&nodes.one, &made.api_key).await.is_none());
    let deadline = Instant::now() + DEADLINE;
    while caller_at(&nodes.two, &made.api_key).await.is_some() {
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    nodes.end().await;
}

#[tokio::test]
async fn nobody_gives_away_what_they_lack_by_whatever_way() {
    let nodes = Nodes::start().await;
    let identity = nodes.one.identity().unwrap();
    let clerk = nodes
        .user(
            "clerk",
            &[
                "read:*",
                "create:user",
                "update:user",
                "delete:user",
                "create:role",
                "update:role",
                "delete:role",
            ],
        )
        .await;
    let by = &clerk.permissions;
    let admin = identity.user_named("admin").await.unwrap();
    let user = |name: &str, roles: &[&str]| NewUser {
        name: name.to_owned(),
        password: None,
        roles: texts(roles),
    };
    let role = |id: &str, permissions: &[&str]| NewRole {
        id: Some(id.to_owned()),
        name: id.to_owned(),
        permissions: texts(permissions),
    };
    let with_roles = |roles: &[&str]| UserChange {
        roles: Some(texts(roles)),
        ..UserChange::default()
    };
    let with_password = || UserChange {
        password: Some("another password".to_owned()),
        ..UserChange::default()
    };
    let key = |roles: &[&str]| NewKey {
        name: "k".to_owned(),
        roles: texts(roles),
        lifetime: None,
    };
    let refused = "more-than-own-permissions";
    // A new user, application or role that may do more.
    assert_eq!(code(identity.add_user(by, user("eve", &["admin"])).await), refused);
    assert_eq!(code(identity.add_application(by, key(&["admin"])).await), refused);
    assert_eq!(code(identity.add_role(by, role("mine", &["*"])).await), refused);
    assert_eq!(code(identity.add_role(by, role("mine", &["write:*"])).await), refused);
    // A role whose id exists is not replaced.
    assert_eq!(
        code(identity.add_role(by, role("reader", &["read:*"])).await),
        "role-exists"
    );
    // An edit of one's own, and of what one has.
    assert_eq!(
        code(
            identity
                .change_user(&clerk, &clerk.id, with_roles(&["role-clerk", "admin"]))
                .await
        ),
        refused
    );
    assert_eq!(
        code(identity.change_role(by, "role-clerk", None, Some(texts(&["*"]))).await),
        refused
    );
    // A greater user: its password, its roles, its end.
    assert_eq!(
        code(identity.change_user(&clerk, &admin.id, with_password()).await),
        refused
    );
    assert_eq!(
        code(identity.change_user(&clerk, &admin.id, with_roles(&["reader"])).await),
        refused
    );
    assert_eq!(code(identity.delete_user(by, &admin.id).await), refused);
    // A greater role: its permissions, its name, its end.
    assert_eq!(
        code(identity.change_role(by, "admin", None, Some(texts(&["read:*"]))).await),
        refused
    );
    assert_eq!(
        code(identity.change_role(by, "operator", Some("Mine"), None).await),
        refused
    );
    assert_eq!(code(identity.delete_role(by, "operator", None).await), refused);
    let impact = identity.role_impact("admin").await.unwrap();
    assert_eq!(
        code(
            identity
                .delete_role(by, "admin", Some(&impact.dependency_version))
                .await
        ),
        refused
    );
    // What is within one's own goes.
    let added = identity.add_user(by, user("dan", &["reader"])).await.unwrap();
    assert!(added.password.unwrap().len() >= 20);
    identity
        .change_user(&clerk, &added.user.id, with_password())
        .await
        .unwrap();
    assert_eq!(
        code(
            identity
                .add_role(by, role("lesser", &["read:user", "create:user"]))
                .await
        ),
        "done"
    );
    assert_eq!(
        code(
            identity
                .change_user(&clerk, &added.user.id, with_roles(&["lesser"]))
                .await
        ),
        "done"
    );
    assert_eq!(code(identity.delete_role(by, "lesser", None).await), "role-in-use");
    let impact = identity.role_impact("lesser").await.unwrap();
    assert_eq!((impact.can_delete, impact.editable_references.len()), (false, 1));
    assert_eq!(
        code(identity.delete_role(by, "lesser", Some("another")).await),
        "role-references-changed"
    );
    assert_eq!(
        code(
            identity
                .delete_role(by, "lesser", Some(&impact.dependency_version))
                .await
        ),
        "done"
    );
    assert_eq!(code(identity.delete_user(by, &added.user.id).await), "done");
    assert_eq!(
        code(identity.add_user(by, user("fay", &["nobody"])).await),
        "role-not-found"
    );
    assert_eq!(code(identity.add_user(by, user("ADMIN", &[])).await), "user-exists");
    assert_eq!(
        code(identity.delete_user(&all(), &admin.id).await),
        "last-administrator"
    );
    nodes.end().await;
}

#[tokio::test]
async fn a_user_changes_its_own_password_with_the_one_that_is_good() {
    let nodes = Nodes::start().await;
    let ann = nodes.user("ann", &[]).await;
    let other = signed_in(&nodes.two, "ann").await;
    let change = async |current: &str, new: &str| nodes.one.change_own_password(&ann, current, new).await;
    assert_eq!(code(change("wrong one", "another password").await), "wrong-password");
    assert_eq!(code(change(PASSWORD, "short").await), "invalid-identity");
    assert_eq!(change(PASSWORD, "another password").await.unwrap(), None);
    // Its own session stays.
    let session = ann.session.as_deref().unwrap();
    becomes(&nodes.two, &other.access, Err(TokenRefusal::Wrong)).await;
    assert!(matches!(
        sign_in(&nodes.two, "ann", PASSWORD).await,
        SignedInOutcome::Wrong
    ));
    assert!(matches!(
        sign_in(&nodes.two, "ann", "another password").await,
        SignedInOutcome::Tokens(_)
    ));
    nodes.one.sign_out(session).await.unwrap();
    nodes.end().await;
}

#[tokio::test]
async fn a_flood_of_logins_is_refused_and_delays_no_check_in() {
    let nodes = Nodes::start().await;
    let pair = signed_in(&nodes.one, "admin").await;
    // The node is full of work meanwhile.
    let hello = json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "say", "text": "Hello"}});
    let hello = WorkflowDefinition::from_value(hello).unwrap();
    nodes.one.save(hello, true).await.unwrap();
    let (enough, starter) = (Arc::new(AtomicBool::new(false)), nodes.one.clone());
    let load = tokio::spawn({
        let enough = Arc::clone(&enough);
        async move {
            let mut started = 0;
            while !enough.load(Relaxed) {
                let start = StartRequest {
                    definition_id: DefinitionId::new("hello"),
                    ..StartRequest::default()
                };
                started += starter.dispatch_many(start, 100).await.unwrap().len();
            }
            started
        }
    });
    let flood: Vec<_> = (0..200)
        .map(|number| {
            let engine = nodes.one.clone();
            tokio::spawn(async move {
                let request = SignInRequest {
                    name: "admin".to_owned(),
                    password: format!("guess {number}"),
                    // From many addresses.
                    client: Some(format!("198.51.100.{number}")),
                };
                engine.sign_in(request).await
            })
        })
        .collect();
    let (mut wrong, mut refused) = (0, 0);
    for attempt in flood {
        match attempt.await.unwrap() {
            Ok(SignedInOutcome::Wrong) => wrong += 1,
            Ok(SignedInOutcome::TooMany(_)) => refused += 1,
            Ok(SignedInOutcome::Tokens(_)) => panic!("a guess was right"),
            Err(error) => {
                assert_eq!(error.code(), "logins-busy");
                refused += 1;
            }
        }
        // Half of the tolerance, in which a check-in comes every 100 ms.
        assert!(nodes.one.readiness().registered && nodes.one.readiness().database);
    }
    assert!(wrong > 0 && refused >= 100, "{wrong} wrong, {refused} refused");
    enough.store(true, Relaxed);
    assert!(load.await.unwrap() > 0);
    // Who was here before is not locked out, and other requests go on.
    assert_eq!(who(&nodes.one, &pair.access).await.unwrap(), "admin");
    signed_in(&nodes.two, "admin").await;
    nodes.end().await;
}

#[tokio::test]
async fn lifetimes_are_checked_and_a_session_lasts_no_longer_than_they_say() {
    let database = TestDatabase::create().await;
    let start = async |access: u64, refresh: u64| {
        let builder = Engine::builder(database.url()).admin_password(PASSWORD);
        let builder = builder.access_token_lifetime(Duration::from_secs(access));
        builder
            .refresh_token_lifetime(Duration::from_secs(refresh))
            .start()
            .await
    };
    for (access, refresh) in [(0, 10), (10, 9), (10, 91 * 24 * 3600)] {
        assert_eq!(code(start(access, refresh).await), "invalid-settings");
    }
    let engine = start(1, 2).await.unwrap();
    let pair = signed_in(&engine, "admin").await;
    becomes(&engine, &pair.access, Err(TokenRefusal::Expired)).await;
    let next = engine.refresh_tokens(&pair.refresh, None).await.unwrap();
    if let Ok(next) = next {
        becomes(&engine, &next.access, Err(TokenRefusal::Expired)).await;
    }
    let TokenLifetimes { access, refresh } = TokenLifetimes::default();
    assert_eq!((access.as_secs(), refresh.as_secs()), (3600, 7200));
    engine.shutdown().await;
}

//! Users, roles, applications and sessions: changes one after the other, and tokens that are good once.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::db::Pool;
use crate::id::TenantId;
use crate::store::identity::application::{self, NewApplication};
use crate::store::identity::attempt::{LoginAttempt, MOST_OF_ONE, MOST_OF_PAIR};
use crate::store::identity::role::RoleRow;
use crate::store::identity::session::{self, NewTokens, RefreshUse};
use crate::store::identity::user::{self, UserUpdate};
use crate::store::identity::{Added, IdentityChange};
use crate::store::token::{self, Retired};
use crate::testing::store::Fixture;

const GRACE: Duration = Duration::from_secs(30);
const TWO_HOURS: Duration = Duration::from_secs(7200);

struct Users {
    fixture: Fixture,
    pool: Pool,
    tenant: TenantId,
}

fn roles(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

impl Users {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let pool = Pool::new(&fixture.base, 6).unwrap();
        let tenant = TenantId::default();
        Self { fixture, pool, tenant }
    }

    async fn begin(&self) -> IdentityChange {
        IdentityChange::begin(&self.pool, &self.tenant).await.unwrap()
    }

    async fn add(&self, name: &str, ids: &[&str]) -> Added {
        let change = self.begin().await;
        let added = change.add_user(name, name, &roles(ids), "hash").await.unwrap();
        change.commit().await.unwrap();
        added
    }

    async fn update(&self, id: &str, update: UserUpdate) -> crate::Result<bool> {
        let change = self.begin().await;
        let is_changed = change.update_user(id, &update).await?;
        change.commit().await.map(|_| is_changed)
    }

    async fn open(&self, user: &str, session: u128, refresh: u128) -> bool {
        let new = new_tokens(session, refresh);
        session::open(&self.pool, user, "hash", new).await.unwrap().is_some()
    }

    async fn rotate(&self, session: u128, used: u128, next: u128) -> String {
        verdict(
            session::rotate(&self.pool, Uuid::from_u128(used), new_tokens(session, next), GRACE)
                .await
                .unwrap(),
        )
    }

    async fn user_of(&self, session: u128) -> Option<String> {
        let (_, found) = session::find(&self.pool, Uuid::from_u128(session)).await.unwrap();
        found.map(|signed_in| signed_in.user)
    }
}

fn new_tokens(session: u128, refresh: u128) -> NewTokens {
    NewTokens {
        session: Uuid::from_u128(session),
        refresh: Uuid::from_u128(refresh),
        signed_by: 1,
        lifetime: TWO_HOURS,
    }
}

/// In a word, with the number of the refresh token that is good.
fn verdict(refreshed: RefreshUse) -> String {
    match refreshed {
        RefreshUse::Issued { tokens, is_repeat } => {
            let how = if is_repeat { "repeated" } else { "rotated" };
            format!("{how} {}", tokens.refresh.as_u128())
        }
        RefreshUse::Expired => "expired".to_owned(),
        RefreshUse::Reused { user, .. } => format!("reused {user}"),
        RefreshUse::Ended => "ended".to_owned(),
    }
}

#[tokio::test]
async fn a_name_is_taken_whatever_its_case_and_in_every_tenant() {
    let users = Users::new().await;
    assert!(!application::known(&users.pool).await.unwrap().is_in_use);
    assert_eq!(users.add("Ann", &["admin"]).await, Added::Now);
    assert_eq!(users.add("ANN", &[]).await, Added::Taken);
    let other = TenantId::new("t");
    let change = IdentityChange::begin(&users.pool, &other).await.unwrap();
    assert_eq!(
        change.add_user("other", "ann", &[], "hash").await.unwrap(),
        Added::Taken
    );
    change.roll_back().await.unwrap();
    let found = user::find_for_sign_in(&users.pool, "aNN").await.unwrap().unwrap();
    assert_eq!(found.password_hash, "hash");
    assert!(user::list(&users.pool, &other, Some("Ann")).await.unwrap().is_empty());
    assert!(application::known(&users.pool).await.unwrap().is_in_use);
    // For ever: who deletes the last one does not open the server.
    users.fixture.execute("DELETE FROM identity_user").await;
    assert!(application::known(&users.pool).await.unwrap().is_in_use);
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn the_last_administrator_stays_by_whatever_way() {
    let users = Users::new().await;
    users.add("Ann", &["admin", "reader"]).await;
    users.add("Bob", &["reader"]).await;
    let code = |done: crate::Result<bool>| done.map_or_else(|error| error.code(), |_| "done");
    let demoted = UserUpdate {
        roles: Some(roles(&["reader"])),
        ..UserUpdate::default()
    };
    let disabled = UserUpdate {
        disabled: Some(true),
        ..UserUpdate::default()
    };
    assert_eq!(code(users.update("Ann", demoted).await), "last-administrator");
    assert_eq!(code(users.update("Ann", disabled.clone()).await), "last-administrator");
    let change = users.begin().await;
    assert!(change.delete_user("Ann").await.unwrap());
    assert_eq!(change.commit().await.unwrap_err().code(), "last-administrator");
    let change = users.begin().await;
    change
        .update_role("admin", None, Some(&roles(&["read:*"])))
        .await
        .unwrap();
    assert_eq!(change.commit().await.unwrap_err().code(), "last-administrator");
    let change = users.begin().await;
    change.delete_role("admin").await.unwrap();
    assert_eq!(change.commit().await.unwrap_err().code(), "last-administrator");
    // Nothing was changed; with a second one each of them can go.
    assert_eq!(
        user::list(&users.pool, &users.tenant, Some("Ann")).await.unwrap()[0].roles,
        ["admin", "reader"]
    );
    assert_eq!(
        code(
            users
                .update(
                    "Bob",
                    UserUpdate {
                        roles: Some(roles(&["admin"])),
                        ..UserUpdate::default()
                    }
                )
                .await
        ),
        "done"
    );
    assert_eq!(code(users.update("Ann", disabled).await), "done");
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn two_changes_at_once_do_not_both_remove_an_administrator() {
    let users = Arc::new(Users::new().await);
    users.add("Ann", &["admin"]).await;
    users.add("Bob", &["admin"]).await;
    let gate = users.fixture.begin("SELECT 1 FROM revision FOR UPDATE").await;
    let deletes: Vec<_> = ["Ann", "Bob"]
        .into_iter()
        .map(|id| {
            let users = Arc::clone(&users);
            tokio::spawn(async move {
                let change = IdentityChange::begin(&users.pool, &users.tenant).await?;
                change.delete_user(id).await?;
                change.commit().await
            })
        })
        .collect();
    users.fixture.so_many_wait(2).await;
    crate::testing::store::execute(&gate, "ROLLBACK").await;
    let mut refused = 0;
    for delete in deletes {
        if let Err(error) = delete.await.unwrap() {
            assert_eq!(error.code(), "last-administrator");
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(users.fixture.count("SELECT count(*) FROM identity_user").await, 1);
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn a_role_that_exists_is_not_replaced_and_is_taken_from_all_with_its_end() {
    let users = Users::new().await;
    users.add("Ann", &["admin", "author"]).await;
    let change = users.begin().await;
    let author = RoleRow {
        id: "author".to_owned(),
        name: "Mine".to_owned(),
        permissions: vec!["*".to_owned()],
    };
    assert_eq!(change.add_role(&author).await.unwrap(), Added::Taken);
    let found = change.permissions_of(&roles(&["reader", "nobody"])).await.unwrap();
    assert_eq!(
        (found.permissions, found.unknown),
        (roles(&["read:*"]), roles(&["nobody"]))
    );
    let new = NewApplication {
        id: "a".to_owned(),
        name: "App".to_owned(),
        roles: roles(&["author"]),
        client_id: "c".to_owned(),
        key_hash: [7; 32],
        lifetime: None,
    };
    assert_eq!(change.add_application(&new).await.unwrap(), Added::Now);
    change.commit().await.unwrap();
    let permissions = || async {
        application::known(&users.pool).await.unwrap().applications[0]
            .permissions
            .clone()
    };
    assert!(permissions().await.contains(&"publish:workflow-definitions".to_owned()));
    let change = users.begin().await;
    assert_eq!(change.references_of("author").await.unwrap().len(), 2);
    change.delete_role("author").await.unwrap();
    change.commit().await.unwrap();
    assert!(permissions().await.is_empty());
    assert_eq!(
        user::list(&users.pool, &users.tenant, None).await.unwrap()[0].roles,
        ["admin"]
    );
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_its_reuse_is_seen() {
    let users = Users::new().await;
    users.add("Ann", &["admin"]).await;
    assert!(users.open("Ann", 1, 10).await);
    assert_eq!(users.rotate(1, 10, 11).await, "rotated 11");
    // Its answer was lost: the same one again, at any node, and nothing of what that node has proposed.
    assert_eq!(users.rotate(1, 10, 12).await, "repeated 11");
    assert_eq!(users.rotate(1, 11, 13).await, "rotated 13");
    // The one before the last one is a copy.
    assert_eq!(users.rotate(1, 10, 14).await, "reused Ann");
    // No refresh token of the session is good any more, before the session is ended.
    assert_eq!(users.rotate(1, 13, 15).await, "expired");
    let lasts = "UPDATE identity_session SET expires_at = clock_timestamp() + interval '1 hour'";
    users.fixture.execute(lasts).await;
    assert_eq!(users.rotate(1, 13, 15).await, "rotated 15");
    users
        .fixture
        .execute("UPDATE identity_session SET issued_at = issued_at - interval '31 seconds'")
        .await;
    assert_eq!(users.rotate(1, 13, 16).await, "reused Ann");
    assert_eq!(users.rotate(1, 15, 17).await, "expired");
    assert_eq!(users.rotate(2, 15, 18).await, "ended");
    let change = users.begin().await;
    assert!(change.end_session(Uuid::from_u128(1)).await.unwrap());
    change.commit().await.unwrap();
    assert_eq!(users.rotate(1, 15, 19).await, "ended");
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn one_of_two_uses_at_once_repeats_the_other() {
    let users = Arc::new(Users::new().await);
    users.add("Ann", &["admin"]).await;
    users.open("Ann", 1, 10).await;
    let gate = users.fixture.begin("SELECT 1 FROM identity_session FOR UPDATE").await;
    let uses: Vec<_> = [11, 12]
        .into_iter()
        .map(|next| {
            let users = Arc::clone(&users);
            tokio::spawn(async move { users.rotate(1, 10, next).await })
        })
        .collect();
    users.fixture.so_many_wait(2).await;
    crate::testing::store::execute(&gate, "ROLLBACK").await;
    let mut words = Vec::new();
    for one in uses {
        words.push(one.await.unwrap());
    }
    words.sort();
    let good: i64 = words[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(words, [format!("repeated {good}"), format!("rotated {good}")]);
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn a_session_ends_with_the_right_to_sign_in() {
    let users = Users::new().await;
    users.add("Ann", &["admin"]).await;
    users.add("Bob", &["reader"]).await;
    for session in [1, 2, 3] {
        assert!(users.open("Bob", session, session).await);
    }
    assert_eq!(users.user_of(1).await.as_deref(), Some("Bob"));
    // Another password ends all but the session of who changes it.
    let update = UserUpdate {
        password_hash: Some("other".to_owned()),
        kept_session: Some(Uuid::from_u128(2)),
        ..UserUpdate::default()
    };
    assert!(users.update("Bob", update).await.unwrap());
    assert_eq!((users.user_of(1).await, users.user_of(2).await.is_some()), (None, true));
    // The password that was verified is not that of the user any more.
    assert!(!users.open("Bob", 4, 4).await);
    let disabled = UserUpdate {
        disabled: Some(true),
        ..UserUpdate::default()
    };
    assert!(users.update("Bob", disabled).await.unwrap());
    assert_eq!(users.user_of(2).await, None);
    assert_eq!(users.fixture.count("SELECT count(*) FROM identity_session").await, 0);
    assert!(users.open("Ann", 5, 5).await);
    let change = users.begin().await;
    change.add_user("Cid", "Cid", &roles(&["admin"]), "hash").await.unwrap();
    assert!(change.delete_user("Ann").await.unwrap());
    change.commit().await.unwrap();
    assert_eq!(users.user_of(5).await, None);
    users.fixture.is_sound().await;
}

#[tokio::test]
async fn a_change_is_a_revision_that_every_read_shows() {
    let users = Users::new().await;
    let read = || async {
        let known = application::known(&users.pool).await.unwrap().revision;
        let (of_session, _) = session::find(&users.pool, Uuid::from_u128(1)).await.unwrap();
        assert_eq!(known, of_session);
        known
    };
    let before = read().await;
    users.add("Ann", &["admin"]).await;
    assert_eq!(read().await, before + 1);
    // Neither a login nor the use of a refresh token changes what others may remember.
    users.open("Ann", 1, 1).await;
    users.rotate(1, 1, 2).await;
    assert_eq!(read().await, before + 1);
}

#[tokio::test]
async fn attempts_count_for_the_cluster_and_lock_out_no_one_else() {
    let users = Users::new().await;
    let pool = &users.pool;
    let fails = async |name: &str, client: &str| LoginAttempt::new(name, Some(client)).count(pool).await.unwrap();
    // Ann has signed in from here before.
    let ann = LoginAttempt::new("Ann", Some("192.0.2.1"));
    assert!(ann.count(pool).await.unwrap().is_none());
    ann.succeeded(pool).await.unwrap();
    // One client guesses one password after another.
    for _ in 0..MOST_OF_PAIR {
        assert!(fails("ANN", "192.0.2.66").await.is_none());
    }
    let left = fails("Ann", "192.0.2.66").await.unwrap();
    assert!(
        left > Duration::from_secs(800) && left <= Duration::from_secs(900),
        "{left:?}"
    );
    // What is refused counts no further: one client locks no name.
    for _ in 0..2 * MOST_OF_ONE {
        assert!(fails("Ann", "192.0.2.66").await.is_some());
    }
    assert!(fails("Ann", "203.0.113.8").await.is_none());
    // A flood from many clients: beyond the limit of the name none passes but the one from where she has signed in.
    let mut refused = 0;
    for client in 0..MOST_OF_ONE {
        refused += i32::from(fails("Ann", &format!("198.51.100.{client}")).await.is_some());
    }
    assert_eq!(refused, MOST_OF_PAIR + 1);
    assert!(fails("Ann", "203.0.113.9").await.is_some());
    assert!(ann.count(pool).await.unwrap().is_none());
    // Another name is free, from elsewhere; one client that tries many names is not.
    assert!(fails("Bob", "203.0.113.9").await.is_none());
    for number in 0..MOST_OF_ONE {
        fails(&format!("user-{number}"), "192.0.2.77").await;
    }
    assert!(fails("Cid", "192.0.2.77").await.is_some());
    // A client has all addresses of its IPv6 network.
    for number in 0..MOST_OF_ONE {
        fails(&format!("user-{number}"), &format!("2001:db8:0:7::{number:x}")).await;
    }
    assert!(fails("Dan", "2001:db8:0:7:8::1").await.is_some());
    assert!(fails("Dan", "2001:db8:0:8::1").await.is_none());
    // Neither a name nor a client is kept.
    assert_eq!(
        users
            .fixture
            .count("SELECT count(*) FROM login_attempt WHERE length(key) <> 16")
            .await,
        0
    );
    users
        .fixture
        .execute("UPDATE login_attempt SET until = clock_timestamp()")
        .await;
    assert!(fails("Ann", "192.0.2.66").await.is_none());
    users
        .fixture
        .execute("UPDATE login_attempt SET until = clock_timestamp()")
        .await;
    session::purge(pool).await.unwrap();
    assert_eq!(users.fixture.count("SELECT count(*) FROM login_attempt").await, 0);
}

#[tokio::test]
async fn attempts_at_once_do_not_exceed_the_limit() {
    let users = Arc::new(Users::new().await);
    let attempts: Vec<_> = (0..40)
        .map(|_| {
            let users = Arc::clone(&users);
            tokio::spawn(async move {
                LoginAttempt::new("Ann", Some("192.0.2.1"))
                    .count(&users.pool)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut admitted = 0;
    for attempt in attempts {
        admitted += i32::from(attempt.await.unwrap().is_none());
    }
    assert_eq!(admitted, MOST_OF_PAIR);
}

#[tokio::test]
async fn a_key_with_sessions_is_not_retired_by_accident() {
    let users = Users::new().await;
    users.add("Ann", &["admin"]).await;
    users.open("Ann", 1, 1).await;
    token::rotate(&users.pool).await.unwrap();
    users
        .fixture
        .execute("UPDATE token_key SET created_at = created_at - interval '1 hour'")
        .await;
    let retire = async |is_forced| {
        token::retire(&users.pool, 1, Duration::from_secs(120), is_forced)
            .await
            .unwrap()
    };
    assert_eq!(retire(false).await, Retired::InUse { links: 0, sessions: 1 });
    users
        .fixture
        .execute("UPDATE identity_session SET expires_at = clock_timestamp()")
        .await;
    assert_eq!(retire(false).await, Retired::Now);
}

#[tokio::test]
async fn what_breaks_an_invariant_is_named() {
    let users = Users::new().await;
    users.add("Ann", &["admin"]).await;
    users.open("Ann", 1, 1).await;
    for (change, invariant) in [
        ("UPDATE identity_user SET roles = '{nothing}'", "user-with-unknown-role"),
        (
            "UPDATE identity_user SET roles = '{admin}', disabled_at = now()",
            "session-without-user",
        ),
    ] {
        users.fixture.execute(change).await;
        let violations = crate::store::check::check(&users.fixture.admin.client).await.unwrap();
        let names: Vec<&str> = violations
            .iter()
            .map(|violation| violation.invariant.as_str())
            .collect();
        assert_eq!(names, [invariant]);
    }
}

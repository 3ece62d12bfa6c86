//! Resume links: rows of the commit that makes them, counted down with what they are used for.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use serde_json::json;
use uuid::Uuid;

use crate::assert_outcome;
use crate::id::{BookmarkId, InstanceId, LinkId, TenantId};
use crate::store::audit::{self, AuditFilter};
use crate::store::code::AuditOutcome;
use crate::store::commit::{CommitOutcome, CommitRequest, LinkRow};
use crate::store::event::{self, NewEvent};
use crate::store::instance::Generation;
use crate::store::instance::delete;
use crate::store::link::{self, Created, LinkUse, NewLink, ResumeLinkTarget};
use crate::store::request::IdempotencyKey;
use crate::store::work::{self, AcceptedResume};
use crate::store::{maintenance, token};
use crate::testing::store::{Fixture, Writer, burst, event as published, idempotency_key, waiting};
use crate::{Error, Result};

const DAY: i64 = 24 * 3600 * 1_000_000;

/// Makes a burst make a link to the bookmark `b`, or to an event.
fn linking(mut request: CommitRequest, id: u128, uses: i32, event: Option<&str>) -> CommitRequest {
    request.effects.links.push(LinkRow {
        id: Uuid::from_u128(id),
        bookmark_id: event.is_none().then(|| "b".to_owned()),
        event: event.map(str::to_owned),
        uses,
        signed_by: 1,
        lifetime: Some(DAY),
        expires_at: None,
    });
    request
}

/// An instance that waits at the bookmark `b`, and its links.
async fn with_links(writer: &Writer, instance: &str, links: &[(u128, i32)]) {
    let mut request = waiting(burst(instance, None), "b", 7);
    for (id, uses) in links {
        request = linking(request, *id, *uses, None);
    }
    writer.commits(request).await;
}

fn a_use(id: u128) -> LinkUse {
    LinkUse {
        id: LinkId(Uuid::from_u128(id)),
        key: 1,
        client: Some("192.0.2.7".to_owned()),
    }
}

async fn resume(writer: &Writer, id: u128, key: Option<&IdempotencyKey>) -> Result<AcceptedResume> {
    let (tenant, instance) = (TenantId::default(), InstanceId::new("i"));
    work::accept_resume(&writer.pool, &tenant, &instance, &json!({}), key, Some(&a_use(id))).await
}

fn refusal(used: Result<AcceptedResume>) -> AuditOutcome {
    link::refusal(&used.unwrap_err()).expect("a refusal of the link")
}

/// Why a link cannot be used, as its page says it.
async fn shown(writer: &Writer, id: u128) -> Option<AuditOutcome> {
    let found = link::find(&writer.pool, LinkId(Uuid::from_u128(id)), 1).await;
    found
        .unwrap()
        .map_or(Some(AuditOutcome::Unknown), |found| found.refusal)
}

#[tokio::test]
async fn a_commit_makes_its_links_and_a_lost_one_none() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let mut request = linking(waiting(burst("i", None), "b", 7), 1, 2, None);
    request = linking(request, 2, 1, Some("Approved"));
    request.effects.links[1].expires_at = Some(Utc::now() + Duration::from_secs(60));
    let commit = writer.commits(request).await;
    let lost = linking(waiting(burst("i", Some(7)), "c", 7), 3, 1, None);
    assert_outcome!(writer.write(lost).await, CommitOutcome::VersionConflict);
    let (tenant, instance) = (TenantId::default(), InstanceId::new("i"));
    let list = async |before, limit| {
        link::list(&writer.pool, &tenant, &instance, before, limit)
            .await
            .unwrap()
    };
    // Those of one commit in the order of their ids, the last one first.
    let mut links = list(None, 10).await;
    assert_eq!(links.len(), 2);
    let (first, second) = (list(None, 1).await, list(Some(links[0].id), 9).await);
    assert_eq!((first[0].id, second.len(), second[0].id), (links[0].id, 1, links[1].id));
    assert_eq!(list(Some(links[1].id), 9).await.len(), 0);
    links.reverse();
    assert_eq!(
        links[0].expires_at,
        commit.committed_at + Duration::from_micros(DAY as u64)
    );
    assert_eq!((links[0].uses, links[0].uses_left, links[0].refusal), (2, 2, None));
    assert_eq!(links[1].target, ResumeLinkTarget::Event("Approved".to_owned()));
    // A later burst that makes the same link, as a retry does, leaves it as it is.
    let again = linking(waiting(burst("i", Some(1)), "c", 7), 1, 9, None);
    writer.commits(again).await;
    let links = list(None, 10).await;
    assert_eq!((links.len(), links[1].uses), (2, 2));
    fixture.is_sound().await;
}

#[tokio::test]
async fn two_uses_at_once_do_not_exceed_the_uses_of_a_link() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    with_links(&writer, "i", &[(1, 2)]).await;
    // Both nodes have read the link and wait for its row.
    let gate = fixture.begin("SELECT 1 FROM resume_link FOR UPDATE").await;
    let uses: Vec<_> = (0..3)
        .map(|_| {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move { resume(&writer, 1, None).await })
        })
        .collect();
    fixture.so_many_wait(3).await;
    crate::testing::store::execute(&gate, "ROLLBACK").await;
    let mut refused = 0;
    for used in uses {
        match used.await.unwrap() {
            Ok(AcceptedResume::New(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(link::refusal(&error), Some(AuditOutcome::Used), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM audit WHERE outcome = 0").await, 2);
    assert_eq!(shown(&writer, 1).await, Some(AuditOutcome::Used));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_link_that_cannot_be_used_says_why_and_changes_nothing() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for (change, back, outcome) in [
        (
            "UPDATE resume_link SET expires_at = clock_timestamp()",
            "UPDATE resume_link SET expires_at = now() + interval '1 day'",
            AuditOutcome::Expired,
        ),
        (
            "UPDATE resume_link SET revoked_at = now()",
            "UPDATE resume_link SET revoked_at = NULL",
            AuditOutcome::Revoked,
        ),
        (
            "UPDATE token_key SET id = 2",
            "UPDATE token_key SET id = 1",
            AuditOutcome::Revoked,
        ),
        (
            "UPDATE resume_link SET uses_left = 0",
            "UPDATE resume_link SET uses_left = 1",
            AuditOutcome::Used,
        ),
        (
            "UPDATE instance SET status = 1",
            "UPDATE instance SET status = 0",
            AuditOutcome::Ended,
        ),
        (
            "UPDATE bookmark SET id = 'c'",
            "UPDATE bookmark SET id = 'b'",
            AuditOutcome::Ended,
        ),
        (
            "UPDATE resume_link SET generation = generation + 1",
            "UPDATE resume_link SET generation = generation - 1",
            AuditOutcome::Ended,
        ),
    ] {
        if fixture.count("SELECT count(*) FROM resume_link").await == 0 {
            with_links(&writer, "i", &[(1, 1)]).await;
        }
        fixture.execute(change).await;
        assert_eq!(refusal(resume(&writer, 1, None).await), outcome, "{change}");
        assert_eq!(shown(&writer, 1).await, Some(outcome), "{change}");
        fixture.execute(back).await;
    }
    // A link of another tenant is found, as nothing but its id is known before; it does nothing in this one.
    fixture.execute("UPDATE resume_link SET tenant_id = 't'").await;
    assert_eq!(refusal(resume(&writer, 1, None).await), AuditOutcome::Unknown);
    assert_eq!(shown(&writer, 1).await, Some(AuditOutcome::Ended));
    fixture.execute("UPDATE resume_link SET tenant_id = ''").await;
    assert_eq!(shown(&writer, 1).await, None);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    assert_eq!(refusal(resume(&writer, 9, None).await), AuditOutcome::Unknown);
    assert!(
        link::revoke(&writer.pool, &TenantId::default(), &"i".into(), a_use(1).id)
            .await
            .unwrap()
    );
    assert!(
        !link::revoke(&writer.pool, &TenantId::default(), &"j".into(), a_use(1).id)
            .await
            .unwrap()
    );
    assert_eq!(refusal(resume(&writer, 1, None).await), AuditOutcome::Revoked);
    assert_eq!(
        fixture.count("SELECT count(*) FROM audit").await,
        0,
        "the engine notes these"
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn what_is_not_accepted_costs_no_use() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    with_links(&writer, "i", &[(1, 3)]).await;
    let left = "SELECT uses_left::bigint FROM resume_link";
    fixture.execute("UPDATE cluster_pause SET mode = 1").await;
    assert!(resume(&writer, 1, None).await.unwrap_err().is_paused());
    fixture.execute("UPDATE cluster_pause SET mode = 0").await;
    assert_eq!(fixture.count(left).await, 3);
    // The same request again.
    let key = idempotency_key("link", "k");
    let first = resume(&writer, 1, Some(&key)).await.unwrap();
    let AcceptedResume::New(work) = first else {
        panic!("{first:?}")
    };
    let again = resume(&writer, 1, Some(&key)).await.unwrap();
    assert_eq!(again, AcceptedResume::Existing(Some(work)));
    assert_eq!(fixture.count(left).await, 2);
    // Also when it has used the link up.
    fixture.execute("UPDATE resume_link SET uses_left = 0, uses = 1").await;
    let again = resume(&writer, 1, Some(&key)).await.unwrap();
    assert_eq!(again, AcceptedResume::Existing(Some(work)));
    assert_eq!(
        refusal(resume(&writer, 1, Some(&idempotency_key("link", "l"))).await),
        AuditOutcome::Used
    );
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_by_a_link_is_published_once() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer
        .commits(linking(waiting(burst("i", None), "b", 7), 1, 1, Some("E")))
        .await;
    let by_link = |key: &str, may_keep: bool, hash: u8| NewEvent {
        instance: Some(InstanceId::new("i")),
        link: Some(a_use(1)),
        may_keep,
        ..published(key, hash)
    };
    let class = writer.connector.schema().lock_class();
    let left = "SELECT uses_left::bigint FROM resume_link";
    // Nothing waits for it, and the inbox has no room.
    assert!(
        event::publish(&writer.pool, class, &by_link("a", false, 8))
            .await
            .unwrap()
            .no_room
    );
    assert_eq!(fixture.count(left).await, 1);
    let met = event::publish(&writer.pool, class, &by_link("b", true, 7))
        .await
        .unwrap();
    assert_eq!((met.resumed, fixture.count(left).await), (1, 0));
    assert!(!met.is_repeated);
    // Under its key it was published before; under another one the link is used up.
    let again = event::publish(&writer.pool, class, &by_link("b", true, 7))
        .await
        .unwrap();
    assert!(again.is_repeated);
    let used = event::publish(&writer.pool, class, &by_link("c", true, 7))
        .await
        .unwrap_err();
    assert_eq!(link::refusal(&used), Some(AuditOutcome::Used), "{used}");
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    let entries = audit::list(&writer.pool, &TenantId::default(), &AuditFilter::default(), 10)
        .await
        .unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].outcome, entries[0].client.as_deref()),
        (Some(AuditOutcome::Accepted), Some("192.0.2.7"))
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_by_a_link_does_not_outlive_its_instance() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer
        .commits(linking(waiting(burst("i", None), "b", 7), 1, 1, Some("E")))
        .await;
    // The event is between the use of its link and its commit.
    let publishing = fixture.begin("SELECT 1").await;
    let spend = include_str!("../../../sql/queries/link/spend.sql");
    let client: Option<&str> = None;
    publishing
        .client
        .query(spend, &[&Uuid::from_u128(1), &"", &1i32, &client])
        .await
        .unwrap();
    let (pool, tenant) = (writer.pool.clone(), TenantId::default());
    let deleting = tokio::spawn(async move { delete::delete(&pool, &tenant, &"i".into()).await });
    fixture.a_session_waits().await;
    let keep = "INSERT INTO inbox (tenant_id, hash, name, instance_id, expires_at)
                VALUES ('', sha256('E'), 'Elsa.Event', 'i', now() + interval '1 hour'); COMMIT";
    crate::testing::store::execute(&publishing, keep).await;
    deleting.await.unwrap().unwrap().unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 0);
    // After a delete there is no link.
    let used = resume(&writer, 1, None).await;
    assert_eq!(refusal(used), AuditOutcome::Unknown);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_delete_takes_links_along_and_a_purge_what_is_old() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let tenant = TenantId::default();
    with_links(&writer, "i", &[(1, 1)]).await;
    with_links(&writer, "j", &[(2, 1), (3, 1)]).await;
    resume(&writer, 1, None).await.unwrap();
    delete::delete(&writer.pool, &tenant, &"i".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(shown(&writer, 1).await, Some(AuditOutcome::Unknown));
    assert_eq!(shown(&writer, 2).await, None);
    // The same id again: another generation, and another link.
    with_links(&writer, "i", &[(4, 1)]).await;
    assert_eq!(shown(&writer, 1).await, Some(AuditOutcome::Unknown));
    let day = Duration::from_secs(24 * 3600);
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(day))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM audit").await, 1);
    fixture
        .execute("UPDATE audit SET at = now() - interval '25 hours'")
        .await;
    fixture
        .execute("UPDATE resume_link SET expires_at = now() - interval '31 days' WHERE instance_id = 'j' AND id::text LIKE '%2'")
        .await;
    fixture
        .execute("UPDATE resume_link SET expires_at = now() - interval '29 days' WHERE instance_id = 'j' AND id::text LIKE '%3'")
        .await;
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(day))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM audit").await, 0);
    assert_eq!(shown(&writer, 2).await, Some(AuditOutcome::Unknown));
    assert_eq!(
        shown(&writer, 3).await,
        Some(AuditOutcome::Expired),
        "the answer says why"
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn keys_are_added_one_by_one_and_the_one_that_signs_stays() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let pool = &writer.pool;
    let day = Duration::from_secs(24 * 3600);
    let retire = async |id, is_forced| token::retire(pool, id, day, is_forced).await.unwrap();
    assert_eq!(retire(1, true).await, token::Retired::Signs);
    assert_eq!(token::rotate(pool).await.unwrap(), Some(2));
    assert_eq!(
        retire(1, true).await,
        token::Retired::Signs,
        "the next one is too young"
    );
    fixture
        .execute("UPDATE token_key SET created_at = created_at - interval '2 days'")
        .await;
    assert_eq!(retire(2, true).await, token::Retired::Signs, "the newest one");
    // Links that can be used keep it, unless an operator says so.
    with_links(&writer, "i", &[(1, 1), (2, 1), (3, 1)]).await;
    fixture
        .execute("UPDATE resume_link SET uses_left = 0 WHERE id::text LIKE '%3'")
        .await;
    assert_eq!(retire(1, false).await, token::Retired::InUse { links: 2, sessions: 0 });
    assert_eq!(retire(1, true).await, token::Retired::Now);
    let listed = link::list(pool, &TenantId::default(), &"i".into(), None, 9)
        .await
        .unwrap();
    assert!(
        listed.iter().all(|link| link.refusal == Some(AuditOutcome::Revoked)),
        "{listed:?}"
    );
    assert_eq!(retire(1, false).await, token::Retired::Unknown);
    for id in 3..=17 {
        assert_eq!(token::rotate(pool).await.unwrap(), Some(id));
    }
    assert_eq!(token::rotate(pool).await.unwrap(), None);
    let keys = token::keys(pool).await.unwrap();
    let ids: Vec<i32> = keys.iter().map(|key| key.id).collect();
    assert_eq!(ids, (2..=17).rev().collect::<Vec<_>>());
    let distinct: std::collections::HashSet<_> = keys.iter().map(|key| key.key.clone()).collect();
    assert_eq!(distinct.len(), 16);
    // Each of several at once is made, or refused as one that exists.
    fixture.execute("DELETE FROM token_key WHERE id > 3").await;
    let at_once = futures_util::future::join_all((0..4).map(|_| token::rotate(pool))).await;
    let mut made: Vec<i32> = at_once.iter().flatten().copied().flatten().collect();
    made.sort_unstable();
    assert_eq!(made, (4..4 + made.len() as i32).collect::<Vec<_>>());
    let refused = at_once
        .iter()
        .filter(|outcome| outcome.as_ref().is_err_and(Error::is_conflict));
    assert_eq!((made.is_empty(), refused.count()), (false, 4 - made.len()));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_request_makes_links_where_the_instance_waits_up_to_a_bound() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let commit = writer.commits(waiting(burst("i", None), "b", 7)).await;
    let new = |id: u128, bookmark: &str| NewLink {
        id: LinkId(Uuid::from_u128(id)),
        instance: InstanceId::new("i"),
        generation: Generation::of(commit.created_at),
        bookmark: BookmarkId::new(bookmark),
        lifetime: Duration::from_secs(60),
        uses: 1,
        signed_by: 1,
    };
    let create = async |link: NewLink| link::create(&writer.pool, &TenantId::default(), &link).await.unwrap();
    assert!(matches!(create(new(1, "b")).await, Created::Until(_)));
    assert_eq!(create(new(2, "c")).await, Created::NotWaiting);
    let many = "INSERT INTO resume_link (id, tenant_id, instance_id, generation, event, uses, uses_left, expires_at, signed_by)
                SELECT gen_random_uuid(), '', 'i', l.generation, 'E', 1, 1, now(), 1 FROM resume_link l, generate_series(1, 9999)";
    fixture.execute(many).await;
    assert_eq!(create(new(3, "b")).await, Created::TooMany);
    fixture.is_sound().await;
}

//! Routes of HTTP endpoints: one owner each, starts only where they are, rows for those of bookmarks.

use serde_json::{Value, json};

use super::definitions::{definition, start};
use super::keys::acceptor;
use crate::db::Pool;
use crate::id::{ActivityId, DefinitionId, NodeId, StimulusHash, TenantId};
use crate::store::commit::BookmarkRow;
use crate::store::definition::retract::retract;
use crate::store::definition::{self, NewDefinition, PublishOutcome, Saved, StartSources, TriggerRow};
use crate::store::route::{self, BookmarkRoute, Requested, anchor_key};
use crate::store::start::{Acceptor, NewStart, StartRoute};
use crate::store::stimulus_key::StimulusKey;
use crate::testing::Proxy;
use crate::testing::store::{Fixture, burst, waiting};
use crate::{Error, Result};

/// A route, as the trigger of an endpoint keeps it.
fn endpoint(hash: u8, path: &str) -> TriggerRow {
    TriggerRow {
        activity_id: "endpoint".to_owned(),
        hash: StimulusHash([hash; 32]),
        name: "Elsa.HttpEndpoint".to_owned(),
        payload: json!({"path": path, "method": "get"}),
        pattern_bytes: 0,
        outline: None,
    }
}

fn named(id: &str, name: &str) -> NewDefinition {
    NewDefinition {
        definition_id: DefinitionId::new(id),
        ..definition(name)
    }
}

async fn publish(fixture: &Fixture, pool: &Pool, new: &NewDefinition, triggers: &[TriggerRow]) -> Result<Saved> {
    let class = fixture.base.schema().lock_class();
    definition::save(pool, class, new, Some(StartSources::by(triggers))).await
}

fn is_taken(error: &Error, owner: &str) {
    assert_eq!(error.code(), "route-taken");
    for part in [owner, "orders/{id}", "GET"] {
        assert!(error.message().contains(part), "{part}: {}", error.message());
    }
}

#[tokio::test]
async fn a_route_belongs_to_one_definition() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let class = fixture.base.schema().lock_class();
    let tenant = TenantId::default();
    let route = [endpoint(7, "orders/{id}"), endpoint(8, "orders")];
    publish(&fixture, &pool, &named("d", "Orders"), &route).await.unwrap();
    let error = publish(&fixture, &pool, &named("e", "Others"), &route)
        .await
        .unwrap_err();
    is_taken(&error, "\"d\" (Orders)");
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM definition WHERE definition_id = 'e'")
            .await,
        0
    );
    // A draft has no route; its publish is refused, too.
    let draft = definition::save(&pool, class, &named("e", "Others"), None)
        .await
        .unwrap();
    let error = definition::publish(&pool, class, &tenant, &draft.row, StartSources::by(&route)).await;
    is_taken(&error.unwrap_err(), "\"d\" (Orders)");
    // It keeps its own, and gives up one.
    publish(&fixture, &pool, &named("d", "Orders 2"), &route[1..])
        .await
        .unwrap();
    let published = definition::publish(&pool, class, &tenant, &draft.row, StartSources::by(&route[..1])).await;
    assert_eq!(published.unwrap(), PublishOutcome::Published);
    let error = publish(&fixture, &pool, &named("f", "Third"), &route[..1])
        .await
        .unwrap_err();
    is_taken(&error, "\"e\" (Others)");
    retract(&pool, class, &tenant, &DefinitionId::new("e"), false)
        .await
        .unwrap();
    publish(&fixture, &pool, &named("f", "Third"), &route[..1])
        .await
        .unwrap();
    // Events are for any number of definitions.
    let event = TriggerRow {
        name: "Elsa.Event".to_owned(),
        ..endpoint(9, "")
    };
    for id in ["g", "h"] {
        publish(&fixture, &pool, &named(id, id), std::slice::from_ref(&event))
            .await
            .unwrap();
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn of_two_publishes_of_a_route_at_once_one_is_refused() {
    let fixture = Fixture::new().await;
    let pools = [
        Pool::new(&fixture.base, 2).unwrap(),
        Pool::new(&fixture.base, 2).unwrap(),
    ];
    for round in 0..20_u8 {
        let route = [endpoint(round, "orders/{id}")];
        let ids = ["one", "other"].map(|id| format!("{id}{round}"));
        let news = ids.each_ref().map(|id| named(id, id));
        let (one, other) = tokio::join!(
            publish(&fixture, &pools[0], &news[0], &route),
            publish(&fixture, &pools[1], &news[1], &route),
        );
        match (one, other) {
            (Ok(_), Err(error)) => is_taken(&error, &ids[0]),
            (Err(error), Ok(_)) => is_taken(&error, &ids[1]),
            both => panic!("{both:?}"),
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 20);
    fixture.is_sound().await;
}

/// Their keys differ, so that only the counter of revisions orders the publishes.
#[tokio::test]
async fn of_two_publishes_that_match_a_path_in_common_one_is_refused() {
    let fixture = Fixture::new().await;
    let pools = [
        Pool::new(&fixture.base, 2).unwrap(),
        Pool::new(&fixture.base, 2).unwrap(),
    ];
    for round in 0..20_u8 {
        let outline = Some(route::outline_key(&format!("get orders{round}/{{:}}")));
        let of = |hash, path: &str| {
            [TriggerRow {
                outline: outline.clone(),
                ..endpoint(hash, path)
            }]
        };
        let routes = ["int", "min(1)"].map(|constraint| format!("orders{round}/{{id:{constraint}}}"));
        let routes = [of(round, &routes[0]), of(100 + round, &routes[1])];
        let ids = ["one", "other"].map(|id| format!("{id}{round}"));
        let news = ids.each_ref().map(|id| named(id, id));
        let (one, other) = tokio::join!(
            publish(&fixture, &pools[0], &news[0], &routes[0]),
            publish(&fixture, &pools[1], &news[1], &routes[1]),
        );
        let (error, owner) = match (one, other) {
            (Ok(_), Err(error)) => (error, &ids[0]),
            (Err(error), Ok(_)) => (error, &ids[1]),
            both => panic!("{both:?}"),
        };
        assert_eq!(error.code(), "route-taken");
        for part in [owner.as_str(), &format!("/orders{round}/1"), "{id:", "GET"] {
            assert!(error.message().contains(part), "{part}: {}", error.message());
        }
        let apart = of(200 + round, &format!("orders{round}/{{id:guid}}"));
        let third = format!("third{round}");
        publish(&fixture, &pools[0], &named(&third, &third), &apart)
            .await
            .unwrap();
    }
    assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 40);
    fixture.is_sound().await;
}

#[tokio::test]
async fn regular_expressions_of_all_routes_have_a_limit() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let most = i32::try_from(route::MOST_PATTERN_BYTES).unwrap();
    let with = |hash, pattern_bytes| {
        [TriggerRow {
            pattern_bytes,
            ..endpoint(hash, "orders/{id:regex(^a$)}")
        }]
    };
    publish(&fixture, &pool, &named("d", "1"), &with(1, most - 10))
        .await
        .unwrap();
    // Its own ones of before do not count.
    publish(&fixture, &pool, &named("d", "2"), &with(1, most - 9))
        .await
        .unwrap();
    publish(&fixture, &pool, &named("e", "1"), &with(2, 9)).await.unwrap();
    let error = publish(&fixture, &pool, &named("f", "1"), &with(3, 1))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "too-many-route-patterns");
    publish(&fixture, &pool, &named("f", "1"), &with(3, 0)).await.unwrap();
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_whose_route_has_moved_is_refused_in_each_form() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 2).unwrap();
    let (acceptor, _task, _writer) = acceptor(&fixture).await;
    publish(&fixture, &pool, &named("d", "1"), &[endpoint(7, "orders/{id}")])
        .await
        .unwrap();
    let published = fixture.count("SELECT revision FROM revision").await;
    let routed = |start: NewStart, (hash, activity, revision): (u8, &str, i64)| NewStart {
        route: Some(StartRoute {
            activity_id: ActivityId::new(activity),
            hash: StimulusHash([hash; 32]),
            revision,
        }),
        ..start
    };
    let forms = |name: &str| {
        let of = |form: &str, key: Option<&str>| start(&format!("{name}-{form}"), key);
        let key = format!("key-{name}");
        [
            of("claimed", None),
            NewStart {
                claimed: false,
                ..of("unclaimed", None)
            },
            of("keyed", Some(&key)),
            NewStart {
                claimed: false,
                has_chosen_id: true,
                ..of("chosen", None)
            },
        ]
    };
    for start in forms("there") {
        acceptor
            .accept(routed(start, (7, "endpoint", published)))
            .await
            .unwrap();
    }
    for (name, route) in [
        ("path", (8, "endpoint", published)),
        ("activity", (7, "another", published)),
        ("publish", (7, "endpoint", published - 1)),
    ] {
        for start in forms(name) {
            let error = acceptor.accept(routed(start, route)).await.unwrap_err();
            assert_eq!(error.code(), "route-moved", "{name}");
        }
    }
    // Others of one batch are accepted, and those without a route.
    let mixed = forms("mixed").into_iter().enumerate().map(|(no, start)| {
        let start = if no % 2 == 0 {
            start
        } else {
            routed(start, (8, "endpoint", published))
        };
        acceptor.accept(start)
    });
    let accepted = futures_util::future::join_all(mixed).await;
    assert_eq!(
        accepted.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true, false]
    );
    let class = fixture.base.schema().lock_class();
    retract(&pool, class, &TenantId::default(), &DefinitionId::new("d"), false)
        .await
        .unwrap();
    for start in forms("retracted") {
        let error = acceptor
            .accept(routed(start, (7, "endpoint", published)))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "route-moved");
    }
    // An accepted key has its first answer, wherever the route is now.
    let [_, _, keyed, _] = forms("there");
    acceptor
        .accept(routed(keyed, (7, "endpoint", published)))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 6);
    assert_eq!(fixture.count("SELECT count(*) FROM idempotency_key").await, 2);
    // Its claims have no bursts here.
    fixture.execute("UPDATE work SET claimed_by = NULL").await;
    fixture.is_sound().await;
}

/// The first attempt waits when its connection is lost, and the second one finds the route moved: the first may yet be
/// committed, so that its client must not be sent to the new route.
#[tokio::test]
async fn a_start_that_may_be_accepted_yet_is_unknown_and_has_not_moved() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    publish(&fixture, &writer.pool, &named("d", "1"), &[endpoint(7, "orders")])
        .await
        .unwrap();
    let proxy = Proxy::start(fixture.server_port()).await;
    let far = fixture.through(proxy.port).of(writer.incarnation, &NodeId::new("test"));
    let (acceptor, _task) = Acceptor::start(&far, &writer.pool, writer.incarnation, true);
    acceptor.accept(start("before", None)).await.unwrap();
    let revision = fixture.count("SELECT revision FROM revision").await;
    let holder = fixture
        .begin("INSERT INTO work (tenant_id, instance_id, kind, definition_id, body) VALUES ('', 'lost', 0, 'd', '{}')")
        .await;
    let accepts = tokio::spawn(async move {
        let routed = NewStart {
            route: Some(StartRoute {
                activity_id: ActivityId::new("endpoint"),
                hash: StimulusHash([7; 32]),
                revision,
            }),
            ..start("lost", None)
        };
        acceptor.accept(routed).await.map(drop)
    });
    fixture.so_many_wait(1).await;
    publish(&fixture, &writer.pool, &named("d", "2"), &[endpoint(7, "orders")])
        .await
        .unwrap();
    proxy.cut();
    let error = accepts.await.unwrap().unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
    assert_eq!(error.instance_id(), Some("lost"));
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    fixture.so_many_wait(0).await;
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM work WHERE instance_id = 'lost'")
            .await,
        1
    );
    // Its claims have no bursts here.
    fixture.execute("UPDATE work SET claimed_by = NULL").await;
    fixture.is_sound().await;
}

fn with_route(mut request: crate::store::commit::CommitRequest, template: &str) -> crate::store::commit::CommitRequest {
    let effects = &mut request.effects;
    for BookmarkRow { name, payload, .. } in &mut effects.bookmarks_made {
        *name = "Elsa.HttpEndpoint".to_owned();
        *payload = json!({"path": template, "method": "get"});
    }
    let Some(bookmark) = effects.bookmarks_made.first() else {
        return request;
    };
    let mut hash = [0; 32];
    hash.copy_from_slice(&bookmark.hash);
    effects.routes_made.push(BookmarkRoute {
        anchor: anchor_key("0/orders"),
        hash: StimulusHash(hash),
        template: template.to_owned(),
        method: "get".to_owned(),
    });
    request
}

const ROUTES: &str = "SELECT count(*) FROM bookmark_route";

#[tokio::test]
async fn routes_of_bookmarks_are_found_until_the_last_has_ended() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    for (instance, template) in [("i1", "orders/{id}"), ("i2", "orders/{id}"), ("i3", "orders/{number?}")] {
        writer
            .commits(with_route(waiting(burst(instance, None), "b", 7), template))
            .await;
    }
    assert_eq!(fixture.count(ROUTES).await, 2);
    let tenant = TenantId::default();
    let instance = "i2".into();
    let (hashes, anchors) = ([StimulusHash([7; 32])], [anchor_key("0/orders"), anchor_key("")]);
    let all = Requested {
        hashes: &hashes,
        anchors: &anchors,
        instance: None,
        correlation_id: None,
    };
    let found = route::find(&writer.pool, &tenant, &all).await.unwrap();
    assert_eq!((found.waiting.len(), found.routes.len()), (3, 2));
    let one = Requested {
        instance: Some(&instance),
        ..all
    };
    let found = route::find(&writer.pool, &tenant, &one).await.unwrap();
    let instances: Vec<&str> = found.waiting.iter().map(|it| it.instance_id.as_str()).collect();
    assert_eq!(instances, ["i2"]);
    assert_eq!(found.waiting[0].options["path"], "orders/{id}");
    let none = Requested {
        correlation_id: Some("c"),
        anchors: &[],
        ..all
    };
    let found = route::find(&writer.pool, &tenant, &none).await.unwrap();
    assert!(found.waiting.is_empty() && found.routes.is_empty());
    route::purge(&writer.pool, class).await.unwrap();
    assert_eq!(fixture.count(ROUTES).await, 2, "the bookmarks wait");
    fixture.is_sound().await;
    fixture.execute("DELETE FROM bookmark; DELETE FROM instance").await;
    route::purge(&writer.pool, class).await.unwrap();
    assert_eq!(fixture.count(ROUTES).await, 0);
    fixture.is_sound().await;
}

/// A purge that has looked for bookmarks before the commit of one would delete its route.
#[tokio::test]
async fn a_purge_beside_a_commit_leaves_its_route() {
    let fixture = Fixture::new().await;
    let writer = std::sync::Arc::new(fixture.writer().await);
    let class = fixture.base.schema().lock_class();
    let orphan = "INSERT INTO bookmark_route SELECT id, tenant_id, anchor, hash, template, method FROM kept";
    writer
        .commits(with_route(waiting(burst("i0", None), "b", 7), "orders/{id}"))
        .await;
    fixture
        .execute("CREATE TABLE kept AS SELECT * FROM bookmark_route; DELETE FROM bookmark_route; DELETE FROM bookmark; DELETE FROM instance")
        .await;
    for (round, commit_first) in [(1, true), (2, false), (3, true), (4, false)] {
        fixture.execute(orphan).await;
        let key = StimulusKey::Any.number(&StimulusHash([7; 32]));
        let lock = if commit_first {
            "pg_advisory_xact_lock"
        } else {
            "pg_advisory_xact_lock_shared"
        };
        // Both wait for the key, in either order: the other side of the lock.
        let held = fixture.begin(&format!("SELECT {lock}({class}, {key})")).await;
        let commits = {
            let writer = std::sync::Arc::clone(&writer);
            async move {
                let request = with_route(waiting(burst(&format!("i{round}"), None), "b", 7), "orders/{id}");
                writer.commits(request).await
            }
        };
        let purges = {
            let pool = writer.pool.clone();
            async move { route::purge(&pool, class).await }
        };
        if commit_first {
            let commits = tokio::spawn(commits);
            fixture.so_many_wait(1).await;
            let purges = tokio::spawn(purges);
            fixture.so_many_wait(2).await;
            held.client.batch_execute("ROLLBACK").await.unwrap();
            commits.await.unwrap();
            purges.await.unwrap().unwrap();
        } else {
            let purges = tokio::spawn(purges);
            fixture.so_many_wait(1).await;
            let commits = tokio::spawn(commits);
            fixture.so_many_wait(2).await;
            held.client.batch_execute("ROLLBACK").await.unwrap();
            purges.await.unwrap().unwrap();
            commits.await.unwrap();
        }
        fixture.is_sound().await;
        assert_eq!(fixture.count(ROUTES).await, 1, "round {round}");
        fixture
            .execute("DELETE FROM bookmark; DELETE FROM instance; DELETE FROM bookmark_route")
            .await;
    }
}

#[tokio::test]
async fn what_was_published_since_a_revision_is_read_and_what_is_gone_is_not_listed() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 2).unwrap();
    let (tenant, class) = (TenantId::default(), fixture.base.schema().lock_class());
    let none = route::read(&pool, &tenant, 0).await.unwrap();
    assert_eq!((none.routes.len(), none.total), (0, 0));
    publish(&fixture, &pool, &named("d", "1"), &[endpoint(1, "a"), endpoint(2, "b")])
        .await
        .unwrap();
    let first = route::read(&pool, &tenant, none.revision).await.unwrap();
    assert_eq!((first.routes.len(), first.total), (2, 2));
    publish(&fixture, &pool, &named("e", "1"), &[endpoint(3, "c")])
        .await
        .unwrap();
    let second = route::read(&pool, &tenant, first.revision).await.unwrap();
    let paths: Vec<&Value> = second.routes.iter().map(|route| &route.options["path"]).collect();
    assert_eq!((paths, second.total), (vec![&json!("c")], 3));
    assert!(second.revision > first.revision);
    retract(&pool, class, &tenant, &DefinitionId::new("d"), false)
        .await
        .unwrap();
    let third = route::read(&pool, &tenant, second.revision).await.unwrap();
    assert_eq!((third.routes.len(), third.total), (0, 1));
    let left = route::list(&pool, &tenant).await.unwrap();
    assert_eq!(
        left.into_iter().collect::<Vec<_>>(),
        [(DefinitionId::new("e"), StimulusHash([3; 32]))]
    );
    fixture.is_sound().await;
}

//! A start whose values were checked for another version than the one it would run is not accepted.

use super::definitions::{definition, start};
use crate::id::{DefinitionId, VersionId};
use crate::store::definition::{self, StartSources};
use crate::store::start::{AcceptedStart, Acceptor, Attempt, NewStart};
use crate::testing::store::Fixture;

fn checked(start: NewStart, version: &VersionId) -> NewStart {
    NewStart {
        checked_version: Some(version.clone()),
        ..start
    }
}

/// A start of each form of the statement.
fn forms(number: usize, version: &VersionId) -> [NewStart; 5] {
    let of = |form: &str, key: Option<&str>| start(&format!("{form}-{number}"), key);
    let key = format!("key-{number}");
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
        // It names its version, which is no reason to leave the comparison out.
        NewStart {
            version_id: Some(version.clone()),
            ..of("version", None)
        },
    ]
}

#[tokio::test]
async fn a_start_that_was_checked_for_another_version_writes_nothing() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    let mut versions = Vec::new();
    for name in ["one", "two"] {
        let draft = definition(name);
        let saved = definition::save(&writer.pool, class, &draft, Some(StartSources::by(&[])));
        versions.push(saved.await.unwrap().row.version_id);
    }
    let (old, new) = (&versions[0], &versions[1]);
    assert_ne!(old, new);
    let (acceptor, _task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, false);
    for old in [old, &VersionId::default()] {
        for start in forms(1, new) {
            let instance = start.instance.clone();
            match acceptor.try_accept(checked(start, old)).await.unwrap() {
                Attempt::Moved { start, to } => assert_eq!((&to, &start.instance), (new, &instance)),
                Attempt::Accepted(accepted) => panic!("{instance}: {accepted:?}"),
            }
        }
    }
    let written = "SELECT (SELECT count(*) FROM work) + (SELECT count(*) FROM idempotency_key)";
    assert_eq!(fixture.count(written).await, 0);
    // Checked for the one that is published, each is accepted; in a batch with others, too.
    let of_old = checked(start("old", None), old);
    let rest = forms(1, new).map(|start| checked(start, new));
    let all = std::iter::once(of_old)
        .chain(rest)
        .map(|start| acceptor.try_accept(start));
    let mut attempts = futures_util::future::join_all(all).await.into_iter();
    assert!(matches!(attempts.next(), Some(Ok(Attempt::Moved { .. }))));
    for attempt in attempts {
        let Ok(Attempt::Accepted(AcceptedStart::New { definition, .. })) = attempt else {
            panic!("{attempt:?}")
        };
        assert_eq!(definition.version_id, *new);
    }
    // A retry under its key is the first start, whatever was published since.
    let retried = acceptor
        .try_accept(checked(start("other", Some("key-1")), old))
        .await
        .unwrap();
    let Attempt::Accepted(AcceptedStart::Existing { instance }) = retried else {
        panic!("{retried:?}")
    };
    assert_eq!(instance.as_str(), "keyed-1");
    // Without a definition there is nothing to compare.
    let missing = NewStart {
        definition_id: DefinitionId::new("none"),
        ..checked(start("none", None), &VersionId::default())
    };
    assert!(acceptor.try_accept(missing).await.unwrap_err().is_not_found());
    fixture.is_sound().await;
}

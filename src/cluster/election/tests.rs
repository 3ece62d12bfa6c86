//! Who is elected, who follows, and for how long a term is trusted.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Election, FiringMode, Term, start};
use crate::cluster::{CheckInReport, Membership, MembershipOptions};
use crate::db::Pool;
use crate::id::NodeId;
use crate::store::commit::tests::fixture::Fixture;
use crate::store::node;

const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    scheduler: Election,
    resigns: CancellationToken,
    _candidate: AbortOnDropHandle<()>,
    _membership: Membership,
}

async fn node(fixture: &Fixture, name: &str, mode: FiringMode) -> Node {
    let options = MembershipOptions {
        node_id: NodeId::new(name),
        check_in: Duration::from_millis(50),
        tolerance: Duration::from_secs(5),
        dead_letter_lifetime: Duration::from_secs(3600),
    };
    let membership = Membership::join(&fixture.base, &options, None).await.unwrap();
    let (pool, resigns) = (Pool::new(&fixture.base, 1).unwrap(), CancellationToken::new());
    let (scheduler, candidate) = start(&membership, &pool, mode, resigns.clone());
    Node {
        scheduler,
        resigns,
        _candidate: candidate,
        _membership: membership,
    }
}

/// Waits until one of them may fire; never more than one.
async fn elected(nodes: &[Node]) -> (usize, Term) {
    let began = Instant::now();
    loop {
        let mut may: Vec<(usize, Term)> = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            may.extend(node.scheduler.may_fire().map(|term| (place, term)));
        }
        assert!(may.len() < 2, "{may:?}");
        if let Some(one) = may.pop() {
            return one;
        }
        assert!(began.elapsed() < PATIENCE, "nobody was elected");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_candidates_one_is_elected_and_each_that_follows_has_a_greater_term() {
    let fixture = Fixture::new().await;
    let mut nodes = Vec::new();
    for n in 0..4 {
        nodes.push(node(&fixture, &format!("n{n}"), FiringMode::Leader).await);
    }
    let mut last = Term(0);
    for round in 0..3 {
        let (place, term) = elected(&nodes).await;
        assert!(term > last, "round {round}: {term:?} after {last:?}");
        last = term;
        let shown = "SELECT count(*) FROM node WHERE scheduler_term IS NOT NULL";
        fixture.until(1, shown).await;
        if round == 1 {
            // It resigns, and lives on.
            nodes[place].resigns.cancel();
            let began = Instant::now();
            while nodes[place].scheduler.may_fire().is_some() {
                assert!(began.elapsed() < PATIENCE);
                tokio::task::yield_now().await;
            }
        } else {
            // It goes with its session.
            drop(nodes.remove(place));
        }
    }
    assert!(elected(&nodes).await.1 > last);
}

#[tokio::test]
async fn a_killed_one_whose_row_still_stands_is_not_shown_beside_the_next() {
    let fixture = Fixture::new().await;
    let both = [
        node(&fixture, "killed", FiringMode::Off).await,
        node(&fixture, "next", FiringMode::Off).await,
    ];
    let told = "UPDATE node SET scheduler_term = CASE node_id WHEN 'killed' THEN 4 ELSE 5 END";
    fixture.admin.client.batch_execute(told).await.unwrap();
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let shown = node::list(&pool).await.unwrap();
    let shown: Vec<_> = shown.iter().map(|row| row.scheduler_term).collect();
    assert_eq!(shown, [None, Some(5)]);
    drop(both);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_everybody_fires_nobody_is_elected_and_without_the_role_nobody_fires() {
    let fixture = Fixture::new().await;
    let all = [
        node(&fixture, "a", FiringMode::EveryNode).await,
        node(&fixture, "b", FiringMode::EveryNode).await,
        node(&fixture, "c", FiringMode::Off).await,
    ];
    let may: Vec<_> = all.iter().map(|node| node.scheduler.may_fire()).collect();
    assert_eq!(may, [Some(Term(0)), Some(Term(0)), None]);
}

#[tokio::test]
async fn a_term_is_trusted_from_the_sending_of_a_check_in_and_no_longer_than_the_tolerance() {
    let tolerance = Duration::from_secs(5);
    let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    let (reports, seen) = watch::channel(CheckInReport::of(ago(4), tolerance));
    let (elections, elected) = watch::channel(Some(Term(7)));
    let scheduler = Election {
        mode: FiringMode::Leader,
        reports: seen,
        elected,
    };
    assert_eq!(scheduler.may_fire(), Some(Term(7)));
    // The answer to a check-in has just come; it was sent too long ago.
    reports.send_replace(CheckInReport::of(ago(6), tolerance));
    assert_eq!(scheduler.may_fire(), None);
    reports.send_replace(CheckInReport::of(ago(0), tolerance));
    assert_eq!(scheduler.may_fire(), Some(Term(7)));
    elections.send_replace(None);
    assert_eq!(scheduler.may_fire(), None);
    elections.send_replace(Some(Term(9)));
    assert_eq!(scheduler.may_fire(), Some(Term(9)));
    let mut dead = CheckInReport::of(ago(0), tolerance);
    dead.declared_dead = true;
    reports.send_replace(dead);
    assert_eq!(scheduler.may_fire(), None);
}

//! Which candidate is elected, its successors, and for how long a term is valid.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Election, FiringMode, Term, start};
use crate::cluster::tests::options;
use crate::cluster::{CheckInReport, Membership, MembershipOptions};
use crate::db::Pool;
use crate::store::node;
use crate::testing::store::Fixture;

const TIMEOUT: Duration = Duration::from_secs(20);

struct Node {
    election: Election,
    resign: CancellationToken,
    _candidate: AbortOnDropHandle<()>,
    _membership: Membership,
}

async fn node(fixture: &Fixture, name: &str, mode: FiringMode) -> Node {
    let options = MembershipOptions {
        tolerance: Duration::from_secs(5),
        ..options(name)
    };
    let membership = Membership::join(&fixture.base, &options, None).await.unwrap();
    let (pool, resign) = (Pool::new(&fixture.base, 1).unwrap(), CancellationToken::new());
    let (election, candidate) = start(&membership, &pool, mode, resign.clone());
    Node {
        election,
        resign,
        _candidate: candidate,
        _membership: membership,
    }
}

/// Waits until one node may fire; never more than one.
async fn elected(nodes: &[Node]) -> (usize, Term) {
    let began = Instant::now();
    loop {
        let mut leaders: Vec<(usize, Term)> = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            leaders.extend(node.election.may_fire().map(|term| (place, term)));
        }
        assert!(leaders.len() < 2, "{leaders:?}");
        if let Some(one) = leaders.pop() {
            return one;
        }
        assert!(began.elapsed() < TIMEOUT, "no leader was elected");
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
            // It resigns, and stays a member.
            nodes[place].resign.cancel();
            let began = Instant::now();
            while nodes[place].election.may_fire().is_some() {
                assert!(began.elapsed() < TIMEOUT);
                tokio::task::yield_now().await;
            }
        } else {
            // Its session ends.
            drop(nodes.remove(place));
        }
    }
    assert!(elected(&nodes).await.1 > last);
}

#[tokio::test]
async fn a_killed_leader_with_a_remaining_row_is_not_shown_beside_the_next() {
    let fixture = Fixture::new().await;
    let both = [
        node(&fixture, "killed", FiringMode::Off).await,
        node(&fixture, "next", FiringMode::Off).await,
    ];
    let record_terms = "UPDATE node SET scheduler_term = CASE node_id WHEN 'killed' THEN 4 ELSE 5 END";
    fixture.admin.client.batch_execute(record_terms).await.unwrap();
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let shown = node::list(&pool).await.unwrap();
    let shown: Vec<_> = shown.iter().map(|row| row.scheduler_term).collect();
    assert_eq!(shown, [None, Some(5)]);
    drop(both);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_every_node_fires_none_is_elected_and_without_the_role_none_fires() {
    let fixture = Fixture::new().await;
    let all = [
        node(&fixture, "a", FiringMode::EveryNode).await,
        node(&fixture, "b", FiringMode::EveryNode).await,
        node(&fixture, "c", FiringMode::Off).await,
    ];
    let may: Vec<_> = all.iter().map(|node| node.election.may_fire()).collect();
    assert_eq!(may, [Some(Term(0)), Some(Term(0)), None]);
}

#[tokio::test]
async fn a_term_is_valid_from_the_sending_of_a_check_in_and_no_longer_than_the_tolerance() {
    let tolerance = Duration::from_secs(5);
    let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    let (reports, seen) = watch::channel(CheckInReport::of(ago(4), tolerance));
    let (elections, elected) = watch::channel(Some(Term(7)));
    let election = Election {
        mode: FiringMode::Leader,
        reports: seen,
        elected,
    };
    assert_eq!(election.may_fire(), Some(Term(7)));
    // The check-in was sent too long ago, though its answer has just come.
    reports.send_replace(CheckInReport::of(ago(6), tolerance));
    assert_eq!(election.may_fire(), None);
    reports.send_replace(CheckInReport::of(ago(0), tolerance));
    assert_eq!(election.may_fire(), Some(Term(7)));
    elections.send_replace(None);
    assert_eq!(election.may_fire(), None);
    elections.send_replace(Some(Term(9)));
    assert_eq!(election.may_fire(), Some(Term(9)));
    let mut removed = CheckInReport::of(ago(0), tolerance);
    removed.is_removed = true;
    reports.send_replace(removed);
    assert_eq!(election.may_fire(), None);
}

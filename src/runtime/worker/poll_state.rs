//! The state of a poller from one poll to the next: how far it has come in a backlog, and what it excludes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::store::claim::{ClaimBounds, InstanceKey, PolledWork, Shard};

/// The most instances that one poll claims.
pub(super) const BATCH: usize = 256;

/// A row may become visible after younger ones, by as long as its transaction took.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// Each node polls its shard of a backlog, and continues where its last poll ended. After so many polls it polls the whole
/// backlog from the beginning: the node of another shard may have no room, and locked instances may be free now.
const WHOLE: u32 = 8;

/// The least time between two polls of the whole backlog: most of what they show is just being claimed by other nodes.
const WHOLE_REST: Duration = Duration::from_secs(1);

/// After a poll that showed many instances in flight on this node, the database excludes those from so many polls.
const EXCLUDING: u32 = 8;

/// What is kept from one poll to the next.
#[derive(Default)]
pub(super) struct PollState {
    /// The last poll has not shown all work that is due.
    pub(super) full: bool,
    /// The next poll is for recent work.
    pub(super) recent: bool,
    /// The polls of a shard since the last one of the whole backlog.
    shard_polls: u32,
    /// How many more polls are of the whole backlog, as nothing was left in the shard.
    whole_polls: u32,
    /// How far the polls of a backlog have come: older rows were shown, and are claimed or could not be. Claimed rows stay in
    /// the indexes for some time, and a poll from the beginning passes over all of them.
    position: Option<DateTime<Utc>>,
    /// The polls since the last one from the beginning.
    steps: u32,
    /// When the whole backlog was polled last.
    whole: Option<Instant>,
    /// How long the last poll took that claimed something.
    pub(super) took: Duration,
    /// How many more polls exclude in the database what is in flight. That makes them slower, and is seldom needed: most
    /// of it is claimed.
    excluding: u32,
    pub(super) size: ClaimSize,
}

/// How much one claim takes: half as much after one that timed out, and slowly more after each that passed.
pub(super) struct ClaimSize(usize);

impl Default for ClaimSize {
    fn default() -> Self {
        Self(BATCH)
    }
}

impl ClaimSize {
    pub(super) fn instances(&self) -> usize {
        self.0
    }

    /// The bytes of such a claim: in proportion, so that a single large row passes as well.
    pub(super) fn bound(&self, bounds: ClaimBounds) -> ClaimBounds {
        ClaimBounds {
            room: bounds.room / BATCH * self.0,
            ..bounds
        }
    }

    /// A claim of so many instances timed out.
    pub(super) fn timed_out(&mut self, tried: usize) {
        self.0 = (tried.min(self.0) / 2).max(1);
    }

    pub(super) fn passed(&mut self) {
        self.0 = (self.0 + (self.0 / 8).max(1)).min(BATCH);
    }
}

impl PollState {
    /// The shard of the next poll. Nodes that work off the same backlog would otherwise all try to claim the same rows.
    pub(super) fn shard(&mut self, peers: i64, rank: i64, now: Instant) -> Shard {
        let of = i32::try_from(peers + 1).unwrap_or(1);
        if !self.full || of == 1 {
            (self.shard_polls, self.whole_polls) = (0, 0);
            return Shard::WHOLE;
        }
        let is_rested = self.whole.is_none_or(|at| now.duration_since(at) >= WHOLE_REST);
        if (self.shard_polls >= WHOLE && is_rested) || self.whole_polls > 0 {
            if self.whole_polls == 0 {
                // Recent work can wait for one poll, and this one is rare.
                self.recent = false;
            }
            self.shard_polls = 0;
            self.whole_polls = self.whole_polls.saturating_sub(1);
            self.whole = Some(now);
            return Shard::WHOLE;
        }
        self.shard_polls += 1;
        let number = i32::try_from(rank).unwrap_or(0);
        Shard {
            count: of,
            index: number,
        }
    }

    /// Where the next poll of the oldest work begins, with so many other nodes that work.
    pub(super) fn since(&mut self, head: DateTime<Utc>, shard: Shard, peers: i64) -> DateTime<Utc> {
        let is_alone = peers == 0;
        if shard == Shard::WHOLE && !is_alone {
            self.position = None;
        }
        let on = self
            .position
            .filter(|position| self.full && *position > head && self.steps < WHOLE);
        self.steps = if on.is_some() { self.steps + 1 } else { 0 };
        on.unwrap_or(head)
    }

    /// Notes how far a poll of the oldest work has come. Returns true if there may be more.
    pub(super) fn advance(&mut self, found: &PolledWork, shard: Shard) -> bool {
        let has_skipped = self.steps > 0;
        self.position = found.last.filter(|_| found.full);
        // Only a poll from the beginning shows the end of a backlog.
        let may_have_more = found.full || has_skipped;
        self.recent = may_have_more;
        if !found.full && shard != Shard::WHOLE {
            self.own_shard_is_done();
            return true;
        }
        may_have_more
    }

    /// The instances that the database excludes from the next poll.
    pub(super) fn excluded_by_database<'a>(&self, excluded: &'a [InstanceKey]) -> &'a [InstanceKey] {
        if self.excluding > 0 { excluded } else { &[] }
    }

    /// Removes excluded instances from what a poll of `limit` rows has found, unless the database has excluded them. Where
    /// they have many of the rows, the database excludes them from the next polls, as they may hide others.
    pub(super) fn exclude(&mut self, found: &mut PolledWork, excluded: &[InstanceKey], limit: usize) {
        if self.excluding > 0 {
            self.excluding -= 1;
            return;
        }
        let excluded: HashSet<&InstanceKey> = excluded.iter().collect();
        let shown = std::mem::take(&mut found.instances)
            .into_iter()
            .zip(std::mem::take(&mut found.rows));
        let mut in_flight = 0;
        for (key, rows) in shown {
            if excluded.contains(&key) {
                in_flight += rows;
            } else {
                found.instances.push(key);
                found.rows.push(rows);
            }
        }
        // Of a limit for each of two queues.
        if found.full && in_flight * 4 > limit as i64 {
            self.excluding = EXCLUDING;
        }
    }

    /// No work is left in the shard of this node, or its position is far behind: for some time it polls the whole backlog.
    fn own_shard_is_done(&mut self) {
        self.whole_polls = WHOLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_polled_from_the_last_position_and_sometimes_from_the_beginning() {
        let head = Utc::now();
        let at = |seconds| head + chrono::TimeDelta::seconds(seconds);
        let seen = |full, last| PolledWork {
            full,
            last: Some(last),
            ..PolledWork::empty()
        };
        let mut state = PollState::default();
        assert_eq!(state.since(head, Shard::WHOLE, 0), head);
        assert!(state.advance(&seen(true, at(1)), Shard::WHOLE));
        state.full = true;
        for step in 1..=i64::from(WHOLE) {
            assert_eq!(state.since(head, Shard::WHOLE, 0), at(step));
            assert!(state.advance(&seen(true, at(step + 1)), Shard::WHOLE));
        }
        assert_eq!(state.since(head, Shard::WHOLE, 0), head, "what was passed over");
        assert!(state.advance(&seen(true, at(1)), Shard::WHOLE));
        assert_eq!(state.since(head, Shard::WHOLE, 0), at(1));
        assert!(
            state.advance(&seen(false, at(2)), Shard::WHOLE),
            "there may be something behind"
        );
        assert_eq!(state.since(head, Shard::WHOLE, 0), head);
        assert!(!state.advance(&seen(false, at(2)), Shard::WHOLE));
        state.full = false;
        assert_eq!(state.since(head, Shard::WHOLE, 0), head);
        // A position before the head is not needed.
        state.full = true;
        state.position = Some(at(-1));
        assert_eq!(state.since(head, Shard::WHOLE, 0), head);
    }

    #[test]
    fn a_backlog_is_sharded_and_sometimes_polled_as_a_whole() {
        let mut state = PollState::default();
        let mut now = Instant::now();
        assert_eq!(state.shard(2, 1, now), Shard::WHOLE, "it may be a lone row");
        state.full = true;
        assert_eq!(state.shard(0, 0, now), Shard::WHOLE, "it is alone");
        for _ in 0..WHOLE {
            assert_eq!(state.shard(2, 1, now), Shard { count: 3, index: 1 });
        }
        assert_eq!(state.shard(2, 1, now), Shard::WHOLE);
        for _ in 0..=WHOLE {
            assert_eq!(state.shard(2, 1, now), Shard { count: 3, index: 1 }, "too soon");
        }
        now += WHOLE_REST;
        state.recent = true;
        assert_eq!(state.shard(2, 1, now), Shard::WHOLE);
        assert!(!state.recent, "old rows of another shard would never be polled");
        assert_eq!(state.shard(2, 1, now), Shard { count: 3, index: 1 });
        state.own_shard_is_done();
        for _ in 0..WHOLE {
            assert_eq!(state.shard(2, 1, now), Shard::WHOLE);
        }
        assert_eq!(state.shard(2, 1, now), Shard { count: 3, index: 1 });
        state.full = false;
        assert_eq!(state.shard(2, 1, now), Shard::WHOLE);
    }

    #[test]
    fn a_shard_without_more_work_is_followed_by_polls_of_the_whole_backlog() {
        let head = Utc::now();
        let own = Shard { count: 3, index: 1 };
        let seen = |full| PolledWork {
            full,
            last: Some(head + chrono::TimeDelta::seconds(1)),
            ..PolledWork::empty()
        };
        // The shard, whether the poll was full; whether there may be more, whether recent work is next, the polls of the
        // whole backlog that follow.
        for (shard, full, expected) in [
            (own, true, (true, true, 0)),
            (own, false, (true, false, WHOLE)),
            (Shard::WHOLE, true, (true, true, 0)),
            (Shard::WHOLE, false, (false, false, 0)),
        ] {
            let mut state = PollState::default();
            let may_have_more = state.advance(&seen(full), shard);
            assert_eq!((may_have_more, state.recent, state.whole_polls), expected);
            // Among other nodes a poll of the whole backlog is one from the beginning.
            state.full = true;
            let begins_anew = state.since(head, Shard::WHOLE, 2) == head;
            assert!(begins_anew && state.position.is_none());
        }
    }

    #[test]
    fn a_claim_that_timed_out_is_halved_until_it_passes_and_then_grows_slowly() {
        let bounds = ClaimBounds {
            share: 100,
            room: 256_000,
            is_idle: true,
        };
        let mut size = ClaimSize::default();
        assert_eq!((size.instances(), size.bound(bounds).room), (BATCH, 256_000));
        size.timed_out(40);
        assert_eq!((size.instances(), size.bound(bounds).room), (20, 20_000));
        for half in [10, 5, 2, 1, 1] {
            size.timed_out(BATCH);
            assert_eq!(size.instances(), half);
        }
        let mut steps = 0;
        while size.instances() < BATCH {
            size.passed();
            steps += 1;
        }
        assert!((20..60).contains(&steps), "{steps}");
        size.passed();
        assert_eq!(size.instances(), BATCH);
    }

    #[test]
    fn the_database_excludes_what_is_in_flight_once_it_hides_the_rest() {
        let key = |no: u32| {
            (
                crate::id::TenantId::default(),
                crate::id::InstanceId::new(format!("i{no}")),
            )
        };
        let seen = |full| PolledWork {
            instances: (0..8).map(key).collect(),
            rows: vec![1; 8],
            full,
            ..PolledWork::empty()
        };
        let mut state = PollState::default();
        let (few, many) = ([key(0), key(7), key(9)], [key(1), key(2), key(3)]);
        let mut shown = seen(true);
        state.exclude(&mut shown, &few, 8);
        assert_eq!(shown.instances, (1..7).map(key).collect::<Vec<_>>());
        assert_eq!(state.excluding, 0, "most of it was new");
        state.exclude(&mut seen(false), &many, 8);
        assert_eq!(state.excluding, 0, "there is no rest");
        state.exclude(&mut seen(true), &many, 8);
        for left in (0..EXCLUDING).rev() {
            // The database excludes them; what it shows was claimed since.
            let mut shown = seen(true);
            state.exclude(&mut shown, &many, 8);
            assert_eq!((shown.instances.len(), state.excluding), (8, left));
        }
        // One instance, but as many rows as there may be.
        let busy = PolledWork {
            rows: vec![8, 1, 1, 1, 1, 1, 1, 1],
            ..seen(true)
        };
        state.exclude(&mut busy.clone(), &[key(0)], 8);
        assert_eq!(state.excluding, EXCLUDING);
    }
}

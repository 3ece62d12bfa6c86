//! What the looks of a node remember of a backlog: how far they have come, and what they leave out.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::store::claim::{InstanceKey, PolledWork, Shard};

/// Of a backlog each node looks at its share, and goes on where its last look ended. But after so many looks comes one at
/// all of it, from the beginning: whose share it is may have no room, and what could not be had then may be free now.
const WHOLE: u32 = 8;

/// The least time between two of those: most of what they show is just being claimed by the node whose share it is.
const WHOLE_REST: Duration = Duration::from_secs(1);

/// After a look that showed much of what this node has in its hands, so many leave that out in the database.
const LEAVING_OUT: u32 = 8;

/// What is remembered from one look to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// The last look has not shown all.
    pub(crate) full: bool,
    /// The next one is for what is fresh.
    pub(crate) fresh: bool,
    /// When it asked for what is due next, among what it can run.
    pub(crate) asked: Option<Instant>,
    /// The looks at shares since the last one at all that waits.
    shares: u32,
    /// How many more looks are at all that waits, as nothing was left in the share.
    wholes: u32,
    /// How far the looks at a backlog have come: what waits for longer was shown, and is in somebody's hands or could not be
    /// had. Claimed rows stand in the indexes for some time, and a look from the beginning walks over all of them.
    pub(crate) place: Option<DateTime<Utc>>,
    /// The looks since the last one from the beginning.
    steps: u32,
    /// When all that waits was looked at last, of a backlog.
    whole: Option<Instant>,
    /// How long the last round took that claimed something.
    pub(crate) took: Duration,
    /// How many more looks leave out in the database what is in hands. It makes them dearer, for what is hardly ever shown:
    /// most of it is claimed.
    pub(crate) leaving_out: u32,
}

impl Memory {
    /// What the next look is at. Nodes that work off the same backlog would else all try to get the same.
    pub(crate) fn share(&mut self, peers: i64, before: i64, now: Instant) -> Shard {
        let of = i32::try_from(peers + 1).unwrap_or(1);
        if !self.full || of == 1 {
            (self.shares, self.wholes) = (0, 0);
            return Shard::WHOLE;
        }
        let is_rested = self.whole.is_none_or(|at| now.duration_since(at) >= WHOLE_REST);
        if (self.shares >= WHOLE && is_rested) || self.wholes > 0 {
            if self.wholes == 0 {
                // What is fresh can wait for one look, and this one is rare.
                self.fresh = false;
            }
            self.shares = 0;
            self.wholes = self.wholes.saturating_sub(1);
            self.whole = Some(now);
            return Shard::WHOLE;
        }
        self.shares += 1;
        let number = i32::try_from(before).unwrap_or(0);
        Shard {
            count: of,
            index: number,
        }
    }

    /// From where the next look goes on.
    pub(crate) fn since(&mut self, head: DateTime<Utc>) -> DateTime<Utc> {
        let on = self
            .place
            .filter(|place| self.full && *place > head && self.steps < WHOLE);
        self.steps = if on.is_some() { self.steps + 1 } else { 0 };
        on.unwrap_or(head)
    }

    /// What a look since then has shown. True: there may be more.
    pub(crate) fn came_to(&mut self, seen: &PolledWork) -> bool {
        let has_skipped = self.steps > 0;
        self.place = seen.last.filter(|_| seen.full);
        // The end of a backlog is told by a look from the beginning.
        seen.full || has_skipped
    }

    /// What a look at so many rows has shown without what is in hands, if the database has not left that out. Where that has
    /// many of the rows, the next looks have it left out, as it may hide others.
    pub(crate) fn leave_out(&mut self, seen: &mut PolledWork, hidden: &[InstanceKey], limit: usize) {
        if self.leaving_out > 0 {
            self.leaving_out -= 1;
            return;
        }
        let hidden: HashSet<&InstanceKey> = hidden.iter().collect();
        let shown = std::mem::take(&mut seen.instances)
            .into_iter()
            .zip(std::mem::take(&mut seen.rows));
        let mut in_hands = 0;
        for (key, rows) in shown {
            if hidden.contains(&key) {
                in_hands += rows;
            } else {
                seen.instances.push(key);
                seen.rows.push(rows);
            }
        }
        // Of a limit for each of two queues.
        if seen.full && in_hands * 4 > limit as i64 {
            self.leaving_out = LEAVING_OUT;
        }
    }

    /// Nothing more waits in the share of this node, or it is far behind: for some time all of it is looked at.
    pub(crate) fn own_is_done(&mut self) {
        self.wholes = WHOLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_walked_on_from_where_the_last_look_ended_and_now_and_then_from_the_beginning() {
        let head = Utc::now();
        let at = |seconds| head + chrono::TimeDelta::seconds(seconds);
        let seen = |full, last| PolledWork {
            full,
            last: Some(last),
            ..PolledWork::empty()
        };
        let mut memory = Memory::default();
        assert_eq!(memory.since(head), head);
        assert!(memory.came_to(&seen(true, at(1))));
        memory.full = true;
        for step in 1..=i64::from(WHOLE) {
            assert_eq!(memory.since(head), at(step));
            assert!(memory.came_to(&seen(true, at(step + 1))));
        }
        assert_eq!(memory.since(head), head, "what was passed over");
        assert!(memory.came_to(&seen(true, at(1))));
        assert_eq!(memory.since(head), at(1));
        assert!(memory.came_to(&seen(false, at(2))), "there may be something behind");
        assert_eq!(memory.since(head), head);
        assert!(!memory.came_to(&seen(false, at(2))));
        memory.full = false;
        assert_eq!(memory.since(head), head);
        // What is old by now needs no place.
        memory.full = true;
        memory.place = Some(at(-1));
        assert_eq!(memory.since(head), head);
    }

    #[test]
    fn a_backlog_is_shared_and_now_and_then_looked_at_as_a_whole() {
        let mut memory = Memory::default();
        let mut now = Instant::now();
        let share = |memory: &mut Memory, others, before, now| memory.share(others, before, now);
        assert_eq!(share(&mut memory, 2, 1, now), Shard::WHOLE, "it may be a lone row");
        memory.full = true;
        assert_eq!(share(&mut memory, 0, 0, now), Shard::WHOLE, "it is alone");
        for _ in 0..WHOLE {
            assert_eq!(share(&mut memory, 2, 1, now), Shard { count: 3, index: 1 });
        }
        assert_eq!(share(&mut memory, 2, 1, now), Shard::WHOLE);
        for _ in 0..=WHOLE {
            assert_eq!(share(&mut memory, 2, 1, now), Shard { count: 3, index: 1 }, "too soon");
        }
        now += WHOLE_REST;
        memory.fresh = true;
        assert_eq!(share(&mut memory, 2, 1, now), Shard::WHOLE);
        assert!(!memory.fresh, "what is old of another share would never have its turn");
        assert_eq!(share(&mut memory, 2, 1, now), Shard { count: 3, index: 1 });
        memory.own_is_done();
        for _ in 0..WHOLE {
            assert_eq!(share(&mut memory, 2, 1, now), Shard::WHOLE);
        }
        assert_eq!(share(&mut memory, 2, 1, now), Shard { count: 3, index: 1 });
        memory.full = false;
        assert_eq!(share(&mut memory, 2, 1, now), Shard::WHOLE);
    }

    #[test]
    fn what_is_in_hands_is_left_out_in_the_database_once_it_hides_the_rest() {
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
        let mut memory = Memory::default();
        let (few, many) = ([key(0), key(7), key(9)], [key(1), key(2), key(3)]);
        let mut shown = seen(true);
        memory.leave_out(&mut shown, &few, 8);
        assert_eq!(shown.instances, (1..7).map(key).collect::<Vec<_>>());
        assert_eq!(memory.leaving_out, 0, "most of it was news");
        memory.leave_out(&mut seen(false), &many, 8);
        assert_eq!(memory.leaving_out, 0, "there is no rest");
        memory.leave_out(&mut seen(true), &many, 8);
        for left in (0..LEAVING_OUT).rev() {
            // The database was told; what it shows has come into hands since.
            let mut shown = seen(true);
            memory.leave_out(&mut shown, &many, 8);
            assert_eq!((shown.instances.len(), memory.leaving_out), (8, left));
        }
        // One instance, but as many rows as there may be.
        let busy = PolledWork {
            rows: vec![8, 1, 1, 1, 1, 1, 1, 1],
            ..seen(true)
        };
        memory.leave_out(&mut busy.clone(), &[key(0)], 8);
        assert_eq!(memory.leaving_out, LEAVING_OUT);
    }
}

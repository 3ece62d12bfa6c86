//! Schedules compared with Cronos's documentation, a simple reference implementation, and the `croner` crate.

mod croner_comparison;
mod cronos;
mod daylight_saving;
mod inputs;
mod misfires;
mod random_text;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{ClockChangeRules, Gap, OverlapTime, Schedule};

/// An instant as RFC 3339 writes it.
fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn schedule(inputs: Value) -> Schedule {
    Schedule::from_inputs(inputs.as_object().unwrap()).unwrap_or_else(|error| panic!("{inputs}: {error}"))
}

const GAPS: [Gap; 3] = [Gap::FireAtEnd, Gap::Shift, Gap::Skip];
const OVERLAPS: [OverlapTime; 3] = [OverlapTime::First, OverlapTime::Second, OverlapTime::Both];

fn all_rules() -> impl Iterator<Item = ClockChangeRules> {
    GAPS.into_iter().flat_map(|gap| {
        OVERLAPS
            .into_iter()
            .map(move |overlap| ClockChangeRules { gap, overlap })
    })
}

/// A generator of pseudo-random numbers with a fixed seed.
struct TestRng(u64);

impl TestRng {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// From 0 to below the bound.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

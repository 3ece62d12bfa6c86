//! What to do when an occurrence fires while what an earlier one started is still running.

/// Whether instances of one schedule may run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// Each occurrence starts.
    #[default]
    Allow,
    /// It is dropped.
    Skip,
    /// It waits, if nothing waits yet, else it is dropped.
    QueueOne,
}

/// What becomes of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapDecision {
    /// Start it.
    Start,
    /// Keep it until what runs has ended.
    Queue,
    /// Drop it; it counts as fired.
    Drop,
}

impl OverlapPolicy {
    /// Decides by how many of the schedule run and wait.
    pub fn decide(self, running: u64, waiting: u64) -> OverlapDecision {
        match self {
            Self::Allow => OverlapDecision::Start,
            Self::Skip | Self::QueueOne if running == 0 && waiting == 0 => OverlapDecision::Start,
            Self::QueueOne if waiting == 0 => OverlapDecision::Queue,
            Self::Skip | Self::QueueOne => OverlapDecision::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OverlapDecision::{Drop, Queue, Start};

    #[test]
    fn every_case_is_decided() {
        let decide =
            |overlap: OverlapPolicy| [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(run, wait)| overlap.decide(run, wait));
        assert_eq!(decide(OverlapPolicy::Allow), [Start; 4]);
        assert_eq!(decide(OverlapPolicy::Skip), [Start, Drop, Drop, Drop]);
        assert_eq!(decide(OverlapPolicy::QueueOne), [Start, Queue, Drop, Drop]);
    }
}

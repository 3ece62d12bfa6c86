//! Logs and counts activities that failed: a warning with the ids, and exact counters.
//!
//! A fault is final, and the client that started the instance may be disconnected. Warnings are bounded, because a
//! definition may fault at each start.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::execution::{Incident, InstanceState, SubStatus};

/// The most warnings of one [`WINDOW`], for the whole process.
const WARNINGS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// The most characters of a message in a warning.
const LONGEST: usize = 500;

/// Bounds the warnings.
struct Throttle {
    began: Option<Instant>,
    warned: u32,
    left_out: u32,
}

static THROTTLE: Mutex<Throttle> = Mutex::new(Throttle::new());

impl Throttle {
    const fn new() -> Self {
        Self {
            began: None,
            warned: 0,
            left_out: 0,
        }
    }

    /// Whether one more may be logged, with how many were left out before.
    fn admit(&mut self, now: Instant) -> Option<u32> {
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            (self.began, self.warned) = (Some(now), 0);
        }
        if self.warned == WARNINGS {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.warned += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Reports the incidents that a committed burst added to its instance.
pub(super) fn report(state: &InstanceState, before: usize) {
    let new = state.incidents().get(before..).unwrap_or_default();
    if new.is_empty() {
        return;
    }
    let is_final = state.sub_status() == SubStatus::Faulted;
    metrics::counter!("mainspring_incidents_total").increment(new.len() as u64);
    if is_final {
        metrics::counter!("mainspring_instances_faulted_total").increment(1);
    }
    for incident in new {
        let admitted = THROTTLE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admit(Instant::now());
        if let Some(left_out) = admitted {
            warn(state, incident, is_final, left_out);
        }
    }
}

fn warn(state: &InstanceState, incident: &Incident, is_final: bool, left_out: u32) {
    let fault: String = incident.message.chars().take(LONGEST).collect();
    // Ids and messages come from outside: quoted and escaped, they cannot add log lines.
    tracing::warn!(
        instance = ?state.instance_id().as_str(),
        definition = ?state.definition_id().as_str(),
        version = state.version(),
        activity = ?incident.activity_id.as_str(),
        activity_type = ?incident.activity_type,
        execution = ?incident.activity_instance_id.as_str(),
        ?fault,
        left_out,
        "{}",
        if is_final {
            "an activity failed; its instance is faulted and does not continue"
        } else {
            "an activity failed; other branches continue"
        },
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Map, json};

    use super::*;
    use crate::activity::Catalogue;
    use crate::definition::WorkflowDefinition;
    use crate::execution::{Burst, Instruction, Interpreter, InterpreterOptions};
    use crate::testing::metrics::Recorded;

    #[tokio::test]
    async fn incidents_of_a_burst_are_counted_once() {
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let model = json!({"root": {"id": "f", "type": "Elsa.Fault", "message": "no"}});
        let model = WorkflowDefinition::from_value(model).unwrap();
        let program = Arc::new(interpreter.compile(&model).unwrap());
        let burst = Burst {
            instance_id: "i".into(),
            state: None,
            instructions: vec![Instruction::Start {
                correlation_id: None,
                name: None,
                input: Map::new(),
                variables: Map::new(),
                trigger_activity_id: None,
                payload: None,
                parent: None,
                request: None,
            }],
            attempt: 1,
            is_followed: false,
            trace: None,
            now: chrono::Utc::now(),
            child_seed: 0,
            origins: Vec::new(),
        };
        let state = interpreter.run(&program, burst).await.state;
        let counted = Recorded::default();
        metrics::with_local_recorder(&counted, || {
            report(&state, 0);
            report(&state, 1);
        });
        let counts = [
            ("mainspring_incidents_total", 1),
            ("mainspring_instances_faulted_total", 1),
        ];
        assert_eq!(counted.counters(), counts.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn warnings_are_bounded_and_omitted_ones_are_counted() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let admitted = (0..50).filter(|_| throttle.admit(now).is_some()).count();
        assert_eq!(admitted, 20);
        assert_eq!(throttle.admit(now + WINDOW), Some(30));
        assert_eq!(throttle.admit(now + WINDOW), Some(0));
    }
}

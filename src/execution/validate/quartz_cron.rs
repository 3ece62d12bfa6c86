//! Cron expressions that seem to be written for Quartz, which reads some in another way than Cronos, Elsa's own parser, which this
//! engine follows.

use chrono::Utc;
use serde_json::{Map, Value};

use crate::activity::ActivityNode;
use crate::definition::ValidationError;
use crate::schedule::Schedule;

/// How many occurrences a warning names.
const NAMED: usize = 3;

pub(super) fn warn(node: &ActivityNode) -> Option<ValidationError> {
    if node.type_name != "Elsa.Cron" {
        return None;
    }
    let literals = node.inputs.iter().filter_map(|input| {
        let expression = input.expression.as_ref()?;
        (expression.kind == "Literal").then(|| (input.name.clone(), expression.value.clone()))
    });
    let inputs: Map<String, Value> = literals.collect();
    let schedule = Schedule::from_inputs(&inputs).ok()?;
    let (cron, next) = schedule.next_of_cron(Utc::now(), NAMED)?;
    if !cron.may_be_for_quartz() {
        return None;
    }
    let next: Vec<String> = next
        .iter()
        .map(|at| at.format("%A %-d %B %Y %H:%M:%S %:z").to_string())
        .collect();
    let message = format!(
        "The cron expression {cron} of the activity {} is read as Elsa's own scheduler reads it, where 0 and 7 are Sunday and ? is *; \
         in Quartz 1 is Sunday: it fires next on {}; write weekdays by name, as MON-FRI, to mean the same in both",
        node.title(),
        next.join(", ")
    );
    Some(ValidationError::of(&node.id, message))
}

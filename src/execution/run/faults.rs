//! Faults and guards: a fault goes from its execution outwards to the first guard that catches it or has a last part to
//! run. Without such a guard it becomes an incident, and the incident strategy decides what ends.
//!
//! A guard learns of the fault from a work item, not from a notification: a work item is in the state, so it outlives a
//! yield. Everything below the guard is cancelled first.

use serde_json::{Map, Value, json};

use super::BurstRun;
use crate::activity::{Fault, Guarding, guards};
use crate::execution::cause::Cause;
use crate::execution::incident::Incident;
use crate::execution::incident_strategy::IncidentStrategy;
use crate::execution::journal::EntryDetails;
use crate::execution::state::{ContextStatus, Interruption, WorkItem};
use crate::execution::status::SubStatus;
use crate::id::ActivityId;

impl BurstRun<'_> {
    /// Faults an execution. A guard around it may take over.
    pub(super) fn fault(&mut self, number: u64, fault: Fault) {
        let fault = self.without_secret(number, fault);
        let Some(incident) = self.incident(number, &fault) else {
            return self.finish(SubStatus::Faulted);
        };
        self.end_as_faulted(number, &incident);
        self.raise(number, incident);
    }

    /// Faults an execution because of a bound of the engine: no guard takes over, because a loop around it would never
    /// end.
    pub(super) fn fault_beyond_guards(&mut self, number: u64, fault: Fault) {
        let Some(incident) = self.incident(number, &fault) else {
            return self.finish(SubStatus::Faulted);
        };
        self.end_as_faulted(number, &incident);
        self.count(self.state.chain(number));
        self.keep(number, incident);
    }

    /// Goes on with a fault that a guard has held up for its last part.
    pub(super) fn fault_again(&mut self, guard: u64, mut incident: Incident) {
        // What has faulted inside is gone: a retry executes the guard.
        if let Some(context) = self.state.contexts.get(&guard) {
            incident.guard_instance_id = Some(context.id.clone());
        }
        self.end_as_faulted(guard, &incident);
        self.raise(guard, incident);
    }

    fn incident(&self, number: u64, fault: &Fault) -> Option<Incident> {
        let context = self.state.contexts.get(&number)?;
        let node = self.program.tree.find(&context.node_id)?;
        Some(Incident {
            activity_id: ActivityId::new(node.id.clone()),
            activity_node_id: node.node_id.clone(),
            activity_type: node.type_name.clone(),
            activity_instance_id: context.id.clone(),
            message: storable(&fault.message),
            exception: exception(fault),
            guard_instance_id: None,
        })
    }

    fn end_as_faulted(&mut self, number: u64, incident: &Incident) {
        let cause = self.cause.filter(|_| number > self.state.numbered_keys);
        let link_key = self.link_key(number);
        if let Some(context) = self.state.contexts.get_mut(&number) {
            context.status = ContextStatus::Faulted;
            context.attempts = context.attempts.saturating_add(self.attempt);
            // A retry has the same ones.
            context.key = context.key.or(cause.map(Cause::key));
            context.link_key.get_or_insert(link_key);
            if let (true, Some(trigger)) = (context.is_triggered, &mut self.state.trigger) {
                trigger.is_consumed = true;
            }
        }
        let details = EntryDetails {
            message: Some(incident.message.clone()),
            payload: Some(incident.exception.clone()),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Faulted", details);
        // Its children and bookmarks can no longer reach it.
        self.cancel_below(number);
        self.clear_waiting(number);
        self.recorder.copy_values(self.program, &self.state, number);
        if let Some(execution) = self.recorder.update(self.program, &self.state, number) {
            execution.exception = Some(incident.exception.clone());
        }
    }

    /// Takes a fault outwards from an execution that has ended with it.
    fn raise(&mut self, number: u64, incident: Incident) {
        let chain = self.state.chain(number);
        let mut around = chain.iter().enumerate().skip(1);
        let taken = around.find_map(|(at, guard)| Some((at, *guard, self.guarding(*guard, &incident.exception)?)));
        let Some((at, guard, guarding)) = taken else {
            self.count(chain);
            return self.keep(number, incident);
        };
        self.count(chain.into_iter().take(at).collect());
        self.recorder.record_end(self.program, &self.state, number, None);
        let payload = json!({
            "message": incident.message,
            "code": incident.exception.get("code"),
            "category": incident.exception.get("category"),
            "faultType": incident.exception.get("faultType"),
            "activityId": incident.activity_id,
            "activityNodeId": incident.activity_node_id,
            "activityType": incident.activity_type,
            "activityInstanceId": incident.activity_instance_id,
        });
        let held = match guarding {
            Guarding::Catches => None,
            Guarding::Holds => Some(Interruption::Fault(Box::new(incident))),
        };
        self.interrupt(guard, held, payload);
    }

    /// Counts a fault at each of these executions.
    fn count(&mut self, executions: Vec<u64>) {
        for number in executions {
            if let Some(context) = self.state.contexts.get_mut(&number) {
                context.faults = context.faults.saturating_add(1);
            }
            self.recorder.update(self.program, &self.state, number);
        }
    }

    /// Adds an incident, and ends what the incident strategy says.
    fn keep(&mut self, number: u64, incident: Incident) {
        let continues = self.incident_strategy(&incident.activity_node_id) == IncidentStrategy::Continue;
        self.state.incidents.push(incident);
        if !continues || self.state.root() == Some(number) {
            self.finish(SubStatus::Faulted);
        }
    }

    /// The strategy of the activity, or of the innermost one around it that has one, or of the workflow.
    fn incident_strategy(&self, node_id: &str) -> IncidentStrategy {
        let ends = node_id.match_indices(':').map(|(end, _)| end);
        let mut paths = ends.chain([node_id.len()]).filter_map(|end| node_id.get(..end)).rev();
        let own = paths.find_map(|path| IncidentStrategy::of_activity(self.program.tree.find(path)?));
        own.unwrap_or(self.program.incident_strategy)
    }

    /// Whether a running guard takes over a fault or, with null, a break or the end of the workflow.
    pub(super) fn guarding(&self, number: u64, fault: &Value) -> Option<Guarding> {
        let context = self.state.contexts.get(&number)?;
        let node = self.program.tree.find(&context.node_id)?;
        let is_running = context.status == ContextStatus::Running;
        if !node.is_guard || !is_running {
            return None;
        }
        guards(node, &context.inputs, &context.properties, fault)
    }

    /// Cancels all that is below a guard, and lets it go on with its next part.
    pub(super) fn interrupt(&mut self, guard: u64, held: Option<Interruption>, payload: Value) {
        self.cancel_below(guard);
        self.clear_waiting(guard);
        self.notifications.retain(|notification| notification.to != guard);
        let Some(context) = self.state.contexts.get_mut(&guard) else {
            return;
        };
        context.interruption = held;
        let node_id = context.node_id.clone();
        let cause = self.next_cause();
        self.state.queue.push_front(WorkItem {
            node_id,
            cause,
            owner: None,
            scheduled_after: None,
            context: Some(guard),
            variables: Map::new(),
            invalid: None,
            tag: None,
            payload: Some(payload),
            input: Map::new(),
        });
    }
}

/// A text that can be stored: without U+0000, and cut after 4,000 characters, with `…` for the rest.
fn storable(text: &str) -> String {
    let mut characters = text.chars().filter(|character| *character != '\0');
    let mut stored: String = characters.by_ref().take(4000).collect();
    if characters.next().is_some() {
        stored.push('…');
    }
    stored
}

/// A fault as an incident shows it.
pub(super) fn exception(fault: &Fault) -> Value {
    json!({
        "type": "Fault",
        "message": storable(&fault.message),
        "code": storable(&fault.code),
        "category": storable(&fault.category),
        "faultType": storable(&fault.fault_type),
    })
}

/// The fault that an incident would show so.
pub(super) fn fault_of(exception: &Value) -> Fault {
    let text = |name: &str| exception.get(name).and_then(Value::as_str).unwrap_or_default();
    Fault::new(text("message"))
        .code(text("code"))
        .category(text("category"))
        .fault_type(text("faultType"))
}

//! No message quotes a value that was derived from a secret.
//!
//! An execution knows which of its inputs were derived from a secret. Its message may quote them, and so may the
//! messages of what it contains: the body of a loop over secrets, or the activities of a workflow that received one.

use serde_json::Value;

use super::BurstRun;
use crate::activity::{ActivityCommands, Fault, SentFailure};
use crate::execution::journal::EntryDetails;
use crate::execution::state::InstanceState;

impl BurstRun<'_> {
    /// Records that these inputs or outputs of an execution were derived from a secret.
    pub(super) fn note_secrets(&mut self, number: u64, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        self.state.reads_secrets = true;
        if let Some(context) = self.state.contexts.get_mut(&number) {
            for name in names {
                if !context.unrecorded.contains(&name) {
                    context.unrecorded.push(name);
                }
            }
        }
    }

    /// Faults an execution whose call has failed: its message may also quote what the call itself has evaluated.
    pub(super) fn fault_of_call(&mut self, number: u64, commands: ActivityCommands, fault: Fault) {
        self.note_secrets(number, commands.unrecorded);
        self.fault(number, fault);
    }

    /// Records a request that had no answer, without what may quote a secret.
    pub(super) fn record_sent_failure(&mut self, number: u64, failure: SentFailure) {
        let SentFailure { reason, was_cancelled } = failure;
        let message = self.without_secret(number, reason).message;
        let data = match was_cancelled {
            true => ("Cancelled", Value::Bool(true)),
            false => ("Error", Value::String(message.clone())),
        };
        self.recorder.note_for_end(number, data);
        let details = EntryDetails {
            message: Some(message),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Error", details);
    }

    /// Removes the message of a fault if it may quote a secret. The classification stays, unless it is the secret.
    pub(super) fn without_secret(&self, number: u64, fault: Fault) -> Fault {
        if fault.quotes_nothing {
            return fault;
        }
        let Some((source, name)) = self.state.secret_behind(number) else {
            return fault;
        };
        let node_of = |number: u64| {
            let context = self.state.contexts.get(&number)?;
            self.program.tree.find(&context.node_id)
        };
        let (Some(node), Some(origin)) = (node_of(number), node_of(source)) else {
            return fault;
        };
        let kept = |text: String, default: &str| match self.state.is_secret_text(number, &text) {
            true => default.to_owned(),
            false => text,
        };
        let message = format!(
            "The activity {} failed; its message is withheld, as {name} of the activity {} is derived from a secret",
            node.title(),
            origin.title().with_id()
        );
        Fault {
            code: kept(fault.code, "0"),
            category: kept(fault.category, "General"),
            fault_type: kept(fault.fault_type, "System"),
            message,
            ..fault
        }
    }
}

impl InstanceState {
    /// The execution, or the innermost one around it, with an input or output derived from a secret, and the name of
    /// that.
    pub(in crate::execution) fn secret_behind(&self, number: u64) -> Option<(u64, &str)> {
        let own = self.contexts.get(&number)?.unrecorded.first();
        match own {
            Some(name) => Some((number, name)),
            None => self.secret_above(number),
        }
    }

    /// The execution around this one that has a secret for what it contains. A boolean, such as the condition of a
    /// loop, discloses nothing.
    pub(in crate::execution) fn secret_above(&self, number: u64) -> Option<(u64, &str)> {
        let around = self.chain(number).into_iter().skip(1);
        around.into_iter().find_map(|number| {
            let context = self.contexts.get(&number)?;
            let mut names = context.unrecorded.iter();
            let is_given = |name: &&String| context.inputs.get(*name).is_some_and(|value| !value.is_boolean());
            Some((number, names.find(is_given)?.as_str()))
        })
    }

    /// Whether what this execution reads may be a secret of one around it. States of former versions do not record
    /// this.
    pub(in crate::execution) fn is_below_secret(&self, number: u64) -> bool {
        self.reads_secrets && self.secret_above(number).is_some()
    }

    /// Whether this input or output of an execution was derived from a secret.
    pub(super) fn is_made_of_secret(&self, number: u64, name: &str) -> bool {
        let context = self.contexts.get(&number).filter(|_| self.reads_secrets);
        context.is_some_and(|context| context.unrecorded.iter().any(|of_secret| of_secret == name))
    }

    /// Whether a text contains a part of an input that was derived from a secret, of this execution or one around it.
    /// Below such an execution any input of its own counts, because it may be derived from the secret in turn.
    fn is_secret_text(&self, number: u64, text: &str) -> bool {
        let of_secret = self
            .chain(number)
            .into_iter()
            .filter_map(|number| self.contexts.get(&number))
            .flat_map(|context| context.unrecorded.iter().filter_map(|name| context.inputs.get(name)));
        let own = self
            .contexts
            .get(&number)
            .filter(|_| self.secret_above(number).is_some());
        let own = own.into_iter().flat_map(|context| context.inputs.values());
        of_secret.chain(own).any(|value| has_part(text, value))
    }

    /// Whether a living execution holds a value that was derived from a secret, or such a value of an ended execution
    /// is kept.
    pub(crate) fn holds_secret(&self) -> bool {
        self.keeps_secrets || self.contexts.values().any(|context| !context.unrecorded.is_empty())
    }
}

/// Whether a text contains a text or a number of this value. The recursion is as deep as JSON may be.
fn has_part(text: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => text.contains(&number.to_string()),
        Value::String(part) => !part.is_empty() && text.contains(part.as_str()),
        Value::Array(items) => items.iter().any(|item| has_part(text, item)),
        Value::Object(fields) => fields.values().any(|field| has_part(text, field)),
    }
}

//! Carries out the commands of an activity in a fixed order: values first, then control flow.

use std::collections::{HashMap, HashSet};

use chrono::{Datelike, TimeDelta};
use serde_json::{Map, Value};

use super::BurstRun;
use super::outputs::OutputWrite;
use crate::activity::{
    ActivityCommands, BookmarkRequest, BreakBehavior, ChildRequest, ChildWait, EventPublication, Fault, NodeIndex,
    ScheduledChild, safe_name,
};
use crate::execution::bookmark::{Bookmark, stimulus_hash};
use crate::execution::bounds::{admit, admit_name};
use crate::execution::cause::Cause;
use crate::execution::child::{ChildStart, ParentLink, StartedBy};
use crate::execution::scope;
use crate::execution::state::{Interruption, Scheduled, WorkItem};
use crate::expression::{ScriptChanges, TypeName, coerce};
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId};
use crate::weight;

/// The last year until which an activity can wait: neither clients nor the database can write much later ones.
const LAST_YEAR: i32 = 9999;

/// Checks a name, if there is one.
fn check_name(what: &str, name: Option<&str>) -> Result<(), Fault> {
    name.map_or(Ok(()), |name| admit_name(what, name))
}

/// The commands of a call that were checked, with what they change.
struct CheckedCommands<'p> {
    outputs: Vec<OutputWrite<'p>>,
    workflow_outputs: Vec<OutputWrite<'p>>,
    bookmarks: Vec<Bookmark>,
    children: Vec<ChildStart>,
}

impl<'p> BurstRun<'p> {
    /// Carries out the commands of a call, or none of them.
    pub(super) fn apply_commands(&mut self, number: u64, mut commands: ActivityCommands) -> Result<(), Fault> {
        // Also of a call that fails: the journal shows the execution.
        self.note_secrets(number, std::mem::take(&mut commands.unrecorded));
        let checked = self.check_commands(number, &mut commands)?;
        self.check_links(number, &commands, checked.bookmarks.len())?;
        if commands.complete_definition.is_some() && self.state.is_made_of_secret(number, "Outcomes") {
            let message = "outcomes are recorded and shown, so none may be derived from a secret";
            return Err(Fault::new(message).code("script-error").quoting_nothing(true));
        }
        for changes in commands.script {
            self.write_script(number, changes);
        }
        if let Some(context) = self.state.contexts.get_mut(&number) {
            // Later calls make other links.
            context.link_key = None;
            context.inputs.extend(commands.inputs);
        }
        for write in checked.outputs {
            self.write_output(write);
        }
        for (key, value) in commands.variables {
            if let Some(location) = scope::find(self.program, &self.state, number, &key) {
                self.write(&location, value);
            }
        }
        for write in checked.workflow_outputs {
            self.write_output(write);
        }
        // The inputs of the instance are shown, and those that repeat an input of a trigger may be made of a secret.
        if self.program.reads_inputs && !commands.workflow_inputs.is_empty() {
            let inputs = commands.workflow_inputs.into_iter();
            let inputs = inputs.filter(|(name, _)| !self.state.is_made_of_secret(number, name));
            let inputs = inputs.map(|(name, value)| (name.to_owned(), value)).collect();
            let inputs = self.program.given_inputs(inputs);
            self.state.input.extend(inputs);
        }
        if let Some(id) = commands.correlation_id {
            self.state.correlation_id = id.filter(|id| !id.is_empty());
        }
        if let Some(name) = commands.name {
            self.state.name = name.filter(|name| !name.is_empty());
        }
        if commands.breaks {
            self.break_loop(number);
        }
        self.cancel_children(number, &commands.cancel);
        self.unschedule_children(number, &commands.unschedule);
        for (child, reason) in commands.skipped {
            self.skip(number, child, reason);
        }
        if commands.burns
            && let Some(context) = self.state.contexts.get(&number)
        {
            let id = &context.id;
            let bookmarks = &mut self.state.bookmarks;
            bookmarks.retain(|bookmark| bookmark.activity_execution_id != *id);
        }
        let bookmarks = checked.bookmarks.into_iter();
        let bookmarks: Vec<BookmarkId> = bookmarks.map(|bookmark| self.add_bookmark(bookmark)).collect();
        self.add_links(number, commands.links);
        self.bind_links(number, &bookmarks);
        self.files.extend(commands.sent.files);
        for failure in commands.sent.failures {
            self.record_sent_failure(number, failure);
        }
        for event in commands.events {
            // The commit writes it, too.
            self.recorder.bytes += event.payload.as_ref().map_or(0, weight::json);
            self.events.push(event);
        }
        if let Some(answer) = commands.answer {
            self.answer_request(answer);
        }
        for child in checked.children {
            self.start_child(number, child);
        }
        for schedule in commands.schedule {
            self.schedule(number, schedule);
        }
        if let Some(outcomes) = commands.complete_definition {
            self.complete_definition(number, outcomes);
        }
        if let Some(outcomes) = commands.complete_workflow {
            self.complete_workflow(number, outcomes);
        }
        Ok(())
    }

    /// Checks all commands, so that none is carried out if one of them cannot be.
    fn check_commands(&self, number: u64, commands: &mut ActivityCommands) -> Result<CheckedCommands<'p>, Fault> {
        let limit = self.options.max_value_bytes;
        commands
            .script
            .iter_mut()
            .try_for_each(|changes| self.check_script(number, changes))?;
        for (name, value) in &commands.inputs {
            admit(&format!("The input {name}"), value, limit)?;
        }
        for (name, value) in &commands.workflow_inputs {
            admit(&format!("The input {name} of the workflow"), value, limit)?;
        }
        let mut outputs = Vec::new();
        for (name, value) in std::mem::take(&mut commands.outputs) {
            self.add_output(number, name, value, &mut outputs)?;
        }
        for (key, value) in &mut commands.variables {
            let is_made = |changes: &ScriptChanges| changes.variables.iter().any(|(name, _)| name == key);
            match scope::find(self.program, &self.state, number, key) {
                Some(location) => self.check_variable(number, &location, value)?,
                None if commands.script.iter().any(is_made) => {
                    admit(&format!("The variable {key}"), value, limit)?;
                }
                None => {
                    return Err(Fault::new(format!(
                        "There is no variable {key} in the scope of this activity"
                    )));
                }
            }
        }
        let mut workflow_outputs = Vec::new();
        for (name, value) in std::mem::take(&mut commands.workflow_outputs) {
            admit(&format!("The output {name}"), &value, limit)?;
            match scope::nested_in(self.program, &self.state, number) {
                Some(activity) => self.add_output(activity, safe_name(&name), value, &mut workflow_outputs)?,
                None => workflow_outputs.push(OutputWrite::Workflow(name, value)),
            }
        }
        if let Some(id) = &commands.correlation_id {
            check_name("The correlation id", id.as_deref())?;
        }
        if let Some(name) = &commands.name {
            check_name("The name of the instance", name.as_deref())?;
        }
        let bookmarks = std::mem::take(&mut commands.bookmarks).into_iter();
        let bookmarks = bookmarks.filter_map(|request| self.checked_bookmark(number, request).transpose());
        let bookmarks = bookmarks.collect::<Result<_, Fault>>()?;
        commands.events.iter().try_for_each(|event| self.check_event(event))?;
        let children = std::mem::take(&mut commands.children).into_iter();
        let children = children.map(|(id, request)| self.child_start(number, id, request));
        let children = children.collect::<Result<_, Fault>>()?;
        for schedule in &commands.schedule {
            for (name, value) in &schedule.variables {
                admit(&format!("The variable {name}"), value, limit)?;
            }
            if let Some(tag) = &schedule.tag {
                admit("The tag of the child", tag, limit)?;
            }
        }
        Ok(CheckedCommands {
            outputs,
            workflow_outputs,
            bookmarks,
            children,
        })
    }

    pub(super) fn apply_script(&mut self, number: u64, mut changes: ScriptChanges) -> Result<(), Fault> {
        self.check_script(number, &mut changes)?;
        self.write_script(number, changes);
        Ok(())
    }

    fn check_script(&self, number: u64, changes: &mut ScriptChanges) -> Result<(), Fault> {
        for (name, value) in &mut changes.variables {
            match scope::find(self.program, &self.state, number, name) {
                Some(location) => self.check_variable(number, &location, value)?,
                None => drop(admit(
                    &format!("The variable {name}"),
                    value,
                    self.options.max_value_bytes,
                )?),
            }
        }
        if let Some(id) = &changes.correlation_id {
            check_name("The correlation id", id.as_deref())?;
        }
        if let Some(name) = &changes.name {
            check_name("The name of the instance", name.as_deref())?;
        }
        Ok(())
    }

    /// Converts a value to the type of its variable.
    ///
    /// # Errors
    /// It does not fit, or is too large.
    fn check_variable(
        &self,
        number: u64,
        location: &scope::VariableLocation<'_>,
        value: &mut Value,
    ) -> Result<(), Fault> {
        let name = &location.name;
        admit(&format!("The variable {name}"), value, self.options.max_value_bytes)?;
        let Some(declared) = location.declared else {
            return Ok(());
        };
        let to = TypeName::parse(&declared.type_name, declared.is_array);
        *value = coerce(std::mem::take(value), &to).map_err(|mismatch| {
            let problem = match self.state.secret_behind(number) {
                Some(_) => "what was derived from a secret does not have its type".to_owned(),
                None => format!("{mismatch}; its type is {}", declared.full_type_name()),
            };
            Fault::new(format!("The variable {name} cannot be set: {problem}"))
        })?;
        Ok(())
    }

    fn write_script(&mut self, number: u64, changes: ScriptChanges) {
        for (name, value) in changes.variables {
            match scope::find(self.program, &self.state, number, &name) {
                Some(location) => self.write(&location, value),
                // A script may set undeclared variables, as in Elsa; here they belong to the workflow and outlive a wait.
                None => {
                    let root = scope::workflow(self.program, &self.state, number).unwrap_or(number);
                    if let Some(context) = self.state.contexts.get_mut(&root) {
                        context.variables.insert(name, value);
                    }
                }
            }
        }
        if let Some(id) = changes.correlation_id {
            self.state.correlation_id = id.filter(|id| !id.is_empty());
        }
        if let Some(name) = changes.name {
            self.state.name = name.filter(|name| !name.is_empty());
        }
        self.add_links(number, changes.links);
    }

    /// Sets a variable to a value that has its type, or to an output, which keeps its own.
    pub(super) fn write(&mut self, location: &scope::VariableLocation<'_>, value: Value) {
        if let Some(context) = self.state.contexts.get_mut(&location.context) {
            context.variables.insert(location.name.clone(), value);
        }
    }

    /// Marks the containers of an execution, out to its innermost loop. A guard with a last part holds the break up
    /// until then.
    pub(super) fn break_loop(&mut self, number: u64) {
        for ancestor in self.state.chain(number).into_iter().skip(1) {
            let is_held = self.guarding(ancestor, &Value::Null).is_some();
            let Some(context) = self.state.contexts.get_mut(&ancestor) else {
                return;
            };
            if is_held {
                context.is_breaking = true;
                context.interruption = Some(Interruption::Break);
                return;
            }
            let node = self.program.tree.find(&context.node_id);
            match node.map(|node| node.on_break).unwrap_or_default() {
                BreakBehavior::Ignore => {}
                BreakBehavior::Mark => context.is_breaking = true,
                BreakBehavior::Stop => {
                    context.is_breaking = true;
                    return;
                }
            }
        }
    }

    /// Cancels the executions of these children, in their order.
    fn cancel_children(&mut self, parent: u64, children: &[NodeIndex]) {
        if children.is_empty() {
            return;
        }
        let mut running: HashMap<&str, Vec<u64>> = HashMap::new();
        for (number, context) in self.state.contexts.range(parent.saturating_add(1)..) {
            if context.parent == Some(parent) {
                running.entry(&context.node_id).or_default().push(*number);
            }
        }
        let nodes = children.iter().filter_map(|child| self.program.tree.get(*child));
        let executions: Vec<u64> = nodes
            .filter_map(|node| running.remove(node.node_id.as_str()))
            .flatten()
            .collect();
        for number in executions {
            self.cancel(number, true);
        }
    }

    fn unschedule_children(&mut self, parent: u64, children: &[NodeIndex]) {
        let nodes = children.iter().filter_map(|child| self.program.tree.get(*child));
        let meant: HashSet<&str> = nodes.map(|node| node.node_id.as_str()).collect();
        if !meant.is_empty() {
            let is_meant = |item: &WorkItem| {
                item.context.is_none() && item.owner == Some(parent) && meant.contains(item.node_id.as_str())
            };
            self.state.queue.retain(|item| !is_meant(item));
        }
    }

    pub(super) fn make_bookmark(&mut self, number: u64, request: BookmarkRequest) -> Result<(), Fault> {
        if let Some(bookmark) = self.checked_bookmark(number, request)? {
            self.add_bookmark(bookmark);
        }
        Ok(())
    }

    /// Returns the requested bookmark without its id, or `None` when its execution no longer exists.
    fn checked_bookmark(&self, number: u64, request: BookmarkRequest) -> Result<Option<Bookmark>, Fault> {
        admit(
            "The payload of the bookmark",
            &request.payload,
            self.options.max_value_bytes,
        )?;
        if let Some(key) = &request.key {
            admit("The key of the bookmark", key, self.options.max_value_bytes)?;
        }
        check_name("The name of the bookmark", request.name.as_deref())?;
        let ends = |delay| self.now().checked_add_signed(TimeDelta::from_std(delay).ok()?);
        let ends = request.delay.map(ends).into_iter().chain(request.due.map(Some));
        if ends.into_iter().any(|end| end.is_none_or(|end| end.year() > LAST_YEAR)) {
            let message = format!("The activity would wait until after the year {LAST_YEAR}; give it an earlier end");
            return Err(Fault::new(message).code("wait-too-long"));
        }
        let Some(context) = self.state.contexts.get(&number) else {
            return Ok(None);
        };
        let Some(node) = self.program.tree.find(&context.node_id) else {
            return Ok(None);
        };
        let execution = context.id.clone();
        let given_name = request.name.filter(|name| !name.is_empty());
        let name = given_name.unwrap_or_else(|| node.type_name.clone());
        let own = (!request.publishable).then_some(&execution);
        Ok(Some(Bookmark {
            id: BookmarkId::default(),
            activity_id: ActivityId::new(node.id.clone()),
            node_id: node.node_id.clone(),
            hash: stimulus_hash(&name, request.key.as_ref().unwrap_or(&request.payload), own),
            activity_execution_id: execution,
            name,
            payload: request.payload,
            key: request.key,
            publishable: request.publishable,
            delay: request.delay,
            due: request.due,
            auto_burn: request.auto_burn,
        }))
    }

    fn add_bookmark(&mut self, bookmark: Bookmark) -> BookmarkId {
        let id = self.state.next_bookmark();
        self.state.bookmarks.push(Bookmark {
            id: id.clone(),
            ..bookmark
        });
        id
    }

    fn check_event(&self, event: &EventPublication) -> Result<(), Fault> {
        for (what, text) in [
            ("name", Some(&event.name)),
            ("correlation id", event.correlation_id.as_ref()),
        ] {
            // As for an event of a client: both appear in logs and on terminals.
            if text.is_some_and(|text| text.chars().any(char::is_control)) {
                return Err(Fault::new(format!("The {what} of the event has control characters")));
            }
        }
        check_name("The name of the event", Some(&event.name))?;
        check_name("The correlation id of the event", event.correlation_id.as_deref())?;
        if let Some(payload) = &event.payload {
            admit("The payload of the event", payload, self.options.max_value_bytes)?;
        }
        Ok(())
    }

    /// Starts a child instance with the commit of the burst.
    fn start_child(&mut self, number: u64, child: ChildStart) {
        // The commit writes them, too.
        let bytes = child.input.iter().map(|(name, value)| name.len() + weight::json(value));
        self.recorder.bytes += bytes.sum::<usize>();
        let Some(context) = self.state.contexts.get(&number) else {
            return;
        };
        let mut bookmarks = self.state.bookmarks.iter();
        let bookmark = bookmarks.find(|bookmark| {
            bookmark.activity_execution_id == context.id && bookmark.delay.is_none() && bookmark.due.is_none()
        });
        let bookmark = bookmark.map(|bookmark| bookmark.id.clone());
        self.children.push(ChildStart {
            bookmark_id: bookmark.filter(|_| child.waits),
            ..child
        });
    }

    /// What a child starts with, without the bookmark at which it is waited for.
    pub(super) fn child_start(&self, number: u64, id: InstanceId, request: ChildRequest) -> Result<ChildStart, Fault> {
        self.check_values(&request.input)?;
        let context = self.state.contexts.get(&number);
        let node = context.and_then(|context| self.program.tree.find(&context.node_id));
        let started_by = node.map(|node| StartedBy {
            execution: number,
            activity_id: ActivityId::new(node.id.clone()),
            lineage: None,
            digest: None,
            rested: false,
        });
        check_name("The correlation id of the child", request.correlation_id.as_deref())?;
        let depth = self.state.parent.as_ref().map_or(0, |parent| parent.depth);
        let waits = request.wait != ChildWait::None;
        Ok(ChildStart {
            id,
            definition_id: DefinitionId::new(request.definition_id),
            correlation_id: request.correlation_id.filter(|id| !id.is_empty()),
            input: request.input,
            parent: ParentLink {
                instance_id: self.state.instance_id.clone(),
                started_by: started_by.map(Box::new),
                until_rest: request.wait == ChildWait::Rest,
                depth: if waits { depth + 1 } else { 0 },
            },
            waits,
            bookmark_id: None,
            trace: self.current_trace(),
        })
    }

    fn schedule(&mut self, owner: u64, schedule: ScheduledChild) {
        if let Some(node) = self.program.tree.get(schedule.index) {
            let cause = self.cause_of_child(owner, &node.node_id);
            self.state.queue.push_back(WorkItem {
                node_id: node.node_id.clone(),
                cause,
                owner: Some(owner),
                scheduled_after: self.ended,
                context: None,
                variables: schedule.variables,
                invalid: None,
                tag: schedule.tag,
                payload: None,
                input: Map::new(),
            });
        }
    }

    /// The cause of an activity that its owner schedules, counted.
    fn cause_of_child(&mut self, owner: u64, node_id: &str) -> Option<Cause> {
        let cause = self.cause?;
        let context = self.state.contexts.get_mut(&owner)?;
        let scheduled = context.scheduled.get_or_insert_with(|| Scheduled::at(cause.place()));
        Some(cause.of_child(scheduled.place, node_id, scheduled.count(node_id)))
    }
}

//! `Elsa.StateMachine`: one state at a time, and transitions that triggers take.
//!
//! A state is entered by its entry activity. Then the triggers of all transitions that leave it wait side by side. The
//! first that completes while the condition of its transition holds wins: the others are cancelled, the action of the
//! transition runs, then the exit activity of the state, and the next state is entered. A trigger whose condition does
//! not hold waits again. A state that no transition leaves completes the state machine, and so does a missing initial
//! state.
//!
//! The current state is a property of the execution. The tag of a child says which part it is, and names a transition
//! by the id of its trigger.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::descriptor::{item_port, transition_condition};
use super::{
    Activity, ActivityContext, ActivityNode, BreakBehavior, Descriptor, EndedChild, Fault, NodeIndex, STATES, Step,
    TRANSITIONS,
};

/// The property of an execution with the name of its state, as Elsa names it.
const CURRENT_STATE: &str = "CurrentState";

#[derive(Debug)]
pub(super) struct StateMachine;

impl Activity for StateMachine {
    fn descriptor(&self) -> Descriptor {
        // Elsa's has no inputs and no ports: Studio's designer of state machines edits the properties.
        Descriptor::new("Elsa.StateMachine")
            .describe(
                "Flow",
                "Executes a state machine made of named states and trigger-driven transitions.",
            )
            .item_children(STATES, &["entry", "exit"])
            .item_children(TRANSITIONS, &["trigger", "action"])
            .on_break(BreakBehavior::Mark)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let machine = context.node().cached(|| Machine::of(context));
        Ok(match machine.start {
            Some(state) => enter(context, &machine, state),
            None => Step::Done,
        })
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        if context.is_breaking() {
            return Ok(Step::Done);
        }
        let machine = context.node().cached(|| Machine::of(context));
        let current = context.property(CURRENT_STATE).as_str();
        let current = current.and_then(|name| machine.by_name.get(name).copied());
        let part = ChildRole::read(child.tag.as_ref(), &machine);
        let (Some(state), Some(part)) = (current, part) else {
            return Ok(Step::Wait);
        };
        let number = match part {
            ChildRole::Entry => return Ok(wait_for_triggers(context, &machine, state)),
            ChildRole::Trigger(number) | ChildRole::Action(number) | ChildRole::Exit(number) => number,
        };
        // A transition of another state has been overtaken.
        let Some(transition) = machine.leaving(state).find(|transition| transition.number == number) else {
            return Ok(Step::Wait);
        };
        match part {
            ChildRole::Entry => Ok(Step::Wait),
            ChildRole::Trigger(_) if !holds(context, transition).await? => {
                context.schedule_with(child.index, Map::new(), Some(part.tag(&transition.id)));
                Ok(Step::Wait)
            }
            ChildRole::Trigger(_) => {
                for other in machine.leaving(state).filter(|other| other.number != number) {
                    context.cancel(other.trigger);
                    context.unschedule(other.trigger);
                }
                Ok(match transition.action {
                    Some(action) => run(context, action, ChildRole::Action(number).tag(&transition.id)),
                    None => exit(context, &machine, state, transition),
                })
            }
            ChildRole::Action(_) => Ok(exit(context, &machine, state, transition)),
            ChildRole::Exit(_) => Ok(enter(context, &machine, transition.to)),
        }
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        // Of a lost trigger; from outside, the last child.
        let is_busy = context.children().next().is_some() || context.pending_notifications > 0;
        Ok(if is_busy { Step::Wait } else { Step::Done })
    }
}

fn enter(context: &mut ActivityContext<'_>, machine: &Machine, state: usize) -> Step {
    let Some(entered) = machine.states.get(state) else {
        return Step::Done;
    };
    context.set_property(CURRENT_STATE, entered.name.clone());
    match entered.entry {
        Some(entry) => run(context, entry, ChildRole::Entry.tag("")),
        None => wait_for_triggers(context, machine, state),
    }
}

fn wait_for_triggers(context: &mut ActivityContext<'_>, machine: &Machine, state: usize) -> Step {
    let mut step = Step::Done;
    for transition in machine.leaving(state) {
        let tag = ChildRole::Trigger(transition.number).tag(&transition.id);
        step = run(context, transition.trigger, tag);
    }
    step
}

fn exit(context: &mut ActivityContext<'_>, machine: &Machine, state: usize, transition: &Transition) -> Step {
    match machine.states.get(state).and_then(|left| left.exit) {
        Some(exit) => run(context, exit, ChildRole::Exit(transition.number).tag(&transition.id)),
        None => enter(context, machine, transition.to),
    }
}

fn run(context: &mut ActivityContext<'_>, child: NodeIndex, tag: Value) -> Step {
    context.schedule_with(child, Map::new(), Some(tag));
    Step::Wait
}

/// Whether the condition of a transition holds; a missing condition holds.
async fn holds(context: &mut ActivityContext<'_>, transition: &Transition) -> Result<bool, Fault> {
    match &transition.condition {
        Some(input) => Ok(context.evaluate(input).await? == Value::Bool(true)),
        None => Ok(true),
    }
}

/// The role of a child; a number names the transition.
#[derive(Clone, Copy, Debug)]
enum ChildRole {
    Entry,
    Trigger(usize),
    Action(usize),
    Exit(usize),
}

impl ChildRole {
    /// Contains the id of its transition, because an instance may continue with a version that has them in another
    /// order.
    fn tag(self, transition: &str) -> Value {
        match self {
            Self::Entry => json!({"entry": true}),
            Self::Trigger(_) => json!({"trigger": transition}),
            Self::Action(_) => json!({"action": transition}),
            Self::Exit(_) => json!({"exit": transition}),
        }
    }

    fn read(tag: Option<&Value>, machine: &Machine) -> Option<Self> {
        let (part, transition) = tag?.as_object()?.iter().next()?;
        let number = || match transition {
            Value::String(id) => machine.by_id.get(id).copied(),
            // As it was written before: by its place.
            place => usize::try_from(place.as_u64()?).ok(),
        };
        match part.as_str() {
            "entry" => Some(Self::Entry),
            "trigger" => Some(Self::Trigger(number()?)),
            "action" => Some(Self::Action(number()?)),
            "exit" => Some(Self::Exit(number()?)),
            _ => None,
        }
    }
}

/// A state machine, read from its definition once.
#[derive(Debug)]
struct Machine {
    states: Vec<State>,
    by_name: HashMap<String, usize>,
    /// The numbers of the transitions.
    by_id: HashMap<String, usize>,
    /// The state to begin with.
    start: Option<usize>,
}

#[derive(Debug)]
struct State {
    name: String,
    entry: Option<NodeIndex>,
    exit: Option<NodeIndex>,
    leaving: Vec<Transition>,
}

/// A transition that can be taken: it has a trigger, and leads to a state.
#[derive(Debug)]
struct Transition {
    /// Its place in the definition.
    number: usize,
    /// The id of its trigger.
    id: String,
    to: usize,
    trigger: NodeIndex,
    action: Option<NodeIndex>,
    /// The input with its condition.
    condition: Option<String>,
}

impl Machine {
    fn of(context: &ActivityContext<'_>) -> Self {
        let node = context.node();
        let inputs: HashSet<&str> = node.inputs.iter().map(|input| input.name.as_str()).collect();
        let ports: HashMap<&str, NodeIndex> = node.ports.iter().map(|(port, child)| (port.as_str(), *child)).collect();
        let child = |property: &str, number: usize, name: &str| {
            let port = item_port(property, number, name);
            ports.get(port.as_str()).copied()
        };
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let items = |property: &str| node.property(property).and_then(Value::as_array).into_iter().flatten();
        let mut states: Vec<State> = Vec::new();
        let (mut by_name, mut by_id) = (HashMap::new(), HashMap::new());
        for (number, state) in items(STATES).enumerate() {
            let name = text(state, "name").unwrap_or_default();
            // As in Elsa, the first state of a name is the one.
            if !name.trim().is_empty() {
                by_name.entry(name.clone()).or_insert(number);
            }
            states.push(State {
                name,
                entry: child(STATES, number, "entry"),
                exit: child(STATES, number, "exit"),
                leaving: Vec::new(),
            });
        }
        let state = |name: Option<String>| by_name.get(&name?).copied();
        for (number, transition) in items(TRANSITIONS).enumerate() {
            let ends = (state(text(transition, "from")), state(text(transition, "to")));
            let (Some(from), Some(to)) = ends else { continue };
            let Some(trigger) = child(TRANSITIONS, number, "trigger") else {
                continue;
            };
            let condition = transition_condition(number);
            let id = context.find(trigger).map_or("", ActivityNode::id);
            by_id.entry(id.to_owned()).or_insert(number);
            if let Some(from) = states.get_mut(from) {
                from.leaving.push(Transition {
                    number,
                    id: id.to_owned(),
                    to,
                    trigger,
                    action: child(TRANSITIONS, number, "action"),
                    condition: Some(condition).filter(|name| inputs.contains(name.as_str())),
                });
            }
        }
        let given = |property: &str| {
            let name = node.property(property).and_then(Value::as_str);
            name.filter(|name| !name.trim().is_empty()).map(str::to_owned)
        };
        Self {
            start: state(given("currentState").or_else(|| given("initialState"))),
            states,
            by_name,
            by_id,
        }
    }

    /// The transitions that leave a state.
    fn leaving(&self, state: usize) -> impl Iterator<Item = &Transition> {
        self.states.get(state).into_iter().flat_map(|state| &state.leaving)
    }
}

//! `Elsa.DispatchWorkflow`, `Elsa.ExecuteWorkflow` and `Elsa.BulkDispatchWorkflows`: child instances, and waiting for them.
//!
//! An activity names its child, and the commit of the burst starts it and creates the bookmark at which the activity
//! waits. The end of the child, whatever its cause, resumes the bookmark once. `Elsa.ExecuteWorkflow` runs its child
//! within the burst instead, and waits for it only if it has not ended by then.
//!
//! For a list of items, one burst starts at most [`WAVE`] children, or fewer with large inputs. The number of the next
//! item is a property of the execution, and a bookmark that is due at once starts the next wave. Items in the
//! definition are evaluated again; the rest of other items is a property, too, which the journal does not show. One
//! bookmark waits for all children: the end of a child does not burn it, and the activity burns it after the last one.
//! Counters are properties, so the cost of the end of a child does not grow.

use serde_json::{Map, Value, json};

use super::context::{ChildRequest, ChildWait};
use super::{
    Activity, ActivityContext, ActivityKind, BookmarkRequest, Descriptor, EndedChild, Fault, InputDescriptor,
    OutputDescriptor, Resumption, Step, UiHint,
};
use crate::definition::check_json;
use crate::weight;

/// The types whose activities wait for children in ways of their own.
pub(crate) const EXECUTE_WORKFLOW: &str = "Elsa.ExecuteWorkflow";
pub(crate) const BULK_DISPATCH: &str = "Elsa.BulkDispatchWorkflows";

/// The payload of a bookmark at which one child is waited for has its id under this name.
pub(crate) const CHILD_INSTANCE_ID: &str = "childInstanceId";

/// The variables of the activity at a port of a bulk dispatch that are inputs there, too, as in Elsa.
pub(crate) const CHILD_RESULT: [&str; 4] = [
    "WorkflowInstanceId",
    "WorkflowStatus",
    "WorkflowSubStatus",
    "WorkflowOutput",
];

/// Whether an execution with these properties has started children for the items of a list.
pub(crate) fn started_children(properties: &Map<String, Value>) -> bool {
    // Null once all of them were started.
    properties.contains_key(NEXT)
}

/// The maximum number of children that one burst starts.
const WAVE: usize = 1000;

/// The maximum number of items of one activity.
const MAX_ITEMS: usize = 50_000;

/// About this many bytes of inputs end a wave, because one burst holds them in memory and commits them.
const WAVE_BYTES: usize = 4 << 20;

/// The number of the first item that no wave has started yet.
const NEXT: &str = "NextItem";
/// The items from there on, if they cannot be evaluated again.
const LEFT: &str = "MainspringItemsLeft";
/// How many items there are.
const TOTAL: &str = "DispatchedInstancesCount";
/// How many children have ended.
const ENDED: &str = "CompletedInstancesCount";
/// How many children have ended together with the activity at their port.
const HANDLED: &str = "HandledInstancesCount";

/// How many instances, each the parent of the next, may run or wait for their child in `Elsa.ExecuteWorkflow`.
const MAX_DEPTH: u32 = 32;

/// Whether the journal shows a property of an execution.
pub(crate) fn is_recorded(property: &str) -> bool {
    property != LEFT
}

/// Whether a bookmark of this name waits for child instances.
pub(crate) fn waits_for_children(bookmark: &str) -> bool {
    ["Elsa.DispatchWorkflow", BULK_DISPATCH, EXECUTE_WORKFLOW].contains(&bookmark)
}

fn definition_input(description: &str) -> InputDescriptor {
    InputDescriptor::new("WorkflowDefinitionId", "String")
        .display_name("Workflow Definition")
        .describe(description)
        .hint(UiHint::WorkflowDefinitionPicker)
}

fn values_input(description: &str) -> InputDescriptor {
    InputDescriptor::new("Input", "ObjectDictionary")
        .describe(description)
        .hint(UiHint::JsonEditor)
}

fn correlation_input() -> InputDescriptor {
    InputDescriptor::new("CorrelationId", "String")
        .display_name("Correlation ID")
        .describe("The correlation id of the child.")
}

/// What Elsa's clients set, and nothing here reads.
fn trace_input() -> InputDescriptor {
    InputDescriptor::new("StartNewTrace", "Boolean")
        .category("Open Telemetry")
        .describe("Accepted, without an effect: each instance is traced by itself.")
}

/// The same.
fn channel_input() -> InputDescriptor {
    InputDescriptor::new("ChannelName", "String")
        .display_name("Channel")
        .hint(UiHint::Dropdown(Vec::new()))
        .describe("Accepted, without an effect: all nodes of the cluster share one queue.")
}

/// The definition that the activity names.
fn named_definition(context: &ActivityContext<'_>) -> Result<String, Fault> {
    let id = context.text("WorkflowDefinitionId").unwrap_or_default();
    if id.is_empty() {
        let message = "The input WorkflowDefinitionId is empty; give it the definition id of a published workflow";
        return Err(Fault::new(message).code("definition-missing"));
    }
    Ok(id)
}

/// The same, once it is known to be published.
async fn wanted_definition(context: &ActivityContext<'_>) -> Result<String, Fault> {
    let id = named_definition(context)?;
    if context.is_published(&id).await {
        Ok(id)
    } else {
        Err(not_published(&id))
    }
}

/// The fault of an activity that names a definition without a published version.
pub(crate) fn not_published(id: &str) -> Fault {
    let message = format!(
        "The input WorkflowDefinitionId names {id:?}, which has no published version; publish that workflow, or name another one"
    );
    Fault::new(message).code("definition-not-published")
}

fn correlation_of_child(context: &ActivityContext<'_>) -> Option<String> {
    context.text("CorrelationId").filter(|id| !id.is_empty())
}

/// The inputs for a child: an object, to which the id of the parent is added, as in Elsa.
fn child_input(context: &ActivityContext<'_>) -> Result<Map<String, Value>, Fault> {
    let mut input = match json_of(context.input("Input").clone()) {
        Value::Null => Map::new(),
        Value::Object(values) => values,
        other => {
            let message = format!(
                "The input Input is {}; give it an object with a value for each name",
                kind_of(&other)
            );
            return Err(Fault::new(message).code("invalid-input"));
        }
    };
    input.insert("ParentInstanceId".to_owned(), context.instance_id().as_str().into());
    Ok(input)
}

/// Parses a text that is a list or an object in JSON; an empty text is no value. Designers write such texts.
fn json_of(value: Value) -> Value {
    let Value::String(text) = &value else { return value };
    if text.trim().is_empty() {
        return Value::Null;
    }
    let read = serde_json::from_str(text).ok();
    read.filter(|read: &Value| read.is_array() || read.is_object())
        .unwrap_or(value)
}

/// What a value is, for a message.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Starts the one child of an activity.
async fn start(context: &mut ActivityContext<'_>, wait: ChildWait) -> Result<Step, Fault> {
    let request = ChildRequest {
        definition_id: wanted_definition(context).await?,
        correlation_id: correlation_of_child(context),
        input: child_input(context)?,
        wait,
        number: 0,
    };
    let child = context.start_child(request);
    if wait == ChildWait::None {
        return Ok(Step::Done);
    }
    context.bookmark(BookmarkRequest {
        publishable: false,
        ..BookmarkRequest::new(json!({ (CHILD_INSTANCE_ID): child }))
    });
    Ok(Step::Wait)
}

/// Goes on with what the child has given: its outputs by their names, as in Elsa. Beside them stands what is known of the
/// instance, unless an output has that name: in the record's own words, and in Elsa's for an activity whose record Elsa has.
fn go_on(context: &mut ActivityContext<'_>, resumption: Resumption, elsa: &[(&str, &str)]) -> Step {
    let mut record = match resumption.payload.unwrap_or_default() {
        Value::Object(record) => record,
        other => {
            context.set_output("Result", other);
            return Step::Done;
        }
    };
    let mut result = match record.get("output") {
        Some(Value::Object(outputs)) => outputs.clone(),
        _ => Map::new(),
    };
    // What fits once need not fit several times: then it has one name each.
    let copies = 2 + elsa.len().min(1);
    let is_large = weight::map(&record).saturating_mul(copies) > context.max_value_bytes();
    if is_large {
        record.shift_remove("output");
    }
    for (name, own) in elsa {
        if let Some(value) = record.get(*own) {
            result.entry(*name).or_insert(value.clone());
        }
    }
    if !is_large || elsa.is_empty() {
        for (name, value) in record {
            result.entry(name).or_insert(value);
        }
    }
    context.set_output("Result", Value::Object(result));
    Step::Done
}

/// Elsa's names of the record of a child that was executed.
const EXECUTED: [(&str, &str); 4] = [
    ("WorkflowInstanceId", "workflowInstanceId"),
    ("Status", "status"),
    ("SubStatus", "subStatus"),
    ("Output", "output"),
];

#[derive(Debug)]
pub(super) struct DispatchWorkflow;

impl Activity for DispatchWorkflow {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.DispatchWorkflow")
            .describe(
                "Composition",
                "Starts an instance of another workflow, and waits for its end if asked to.",
            )
            .input(definition_input("The workflow to start."))
            .input(correlation_input())
            .input(values_input("The inputs of the child."))
            .input(
                InputDescriptor::new("WaitForCompletion", "Boolean")
                    .describe("Whether this activity completes only once the child has ended."),
            )
            .input(trace_input())
            .input(channel_input())
            .output(
                OutputDescriptor::new("Result", "Object")
                    .describe(
                        "Of a child that was waited for: its outputs by name, and workflowInstanceId, status, subStatus and, unless they are large, output.",
                    ),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let waits = *context.input("WaitForCompletion") == Value::Bool(true);
        start(context, if waits { ChildWait::End } else { ChildWait::None }).await
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        Ok(go_on(context, resumption, &[]))
    }
}

#[derive(Debug)]
pub(super) struct ExecuteWorkflow;

impl Activity for ExecuteWorkflow {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(EXECUTE_WORKFLOW)
            .describe(
                "Composition",
                "Runs an instance of another workflow, until it waits for something or ends.",
            )
            .kind(ActivityKind::Task)
            .input(definition_input("The workflow to run."))
            .input(correlation_input())
            .input(values_input("The inputs of the child."))
            .input(InputDescriptor::new("WaitForCompletion", "Boolean").describe(
                "Whether this activity completes only once the child has ended, not already when the child waits.",
            ))
            .output(
                OutputDescriptor::new("Result", "Object").describe(
                    "Of the child: its outputs by name, and WorkflowInstanceId, Status, SubStatus and, unless they are large, Output.",
                ),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if context.depth() >= MAX_DEPTH {
            let message = format!(
                "{MAX_DEPTH} instances above this one run or wait for their child: does a workflow execute itself? Use DispatchWorkflow without waiting"
            );
            return Err(Fault::new(message).code("nesting-limit"));
        }
        let waits = *context.input("WaitForCompletion") == Value::Bool(true);
        let request = ChildRequest {
            definition_id: named_definition(context)?,
            correlation_id: correlation_of_child(context),
            input: child_input(context)?,
            wait: if waits { ChildWait::End } else { ChildWait::Rest },
            number: 0,
        };
        context.execute_child(request);
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        Ok(go_on(context, resumption, &EXECUTED))
    }
}

#[derive(Debug)]
pub(super) struct BulkDispatchWorkflows;

impl Activity for BulkDispatchWorkflows {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(BULK_DISPATCH)
            .describe(
                "Composition",
                "Starts an instance of another workflow for each item of a list, and waits for all of them by default.",
            )
            .kind(ActivityKind::Task)
            .input(definition_input("The workflow to start."))
            .input(
                InputDescriptor::new("Items", "Object")
                    .lazy()
                    .describe("The items: a list. The fields of an item that is an object are inputs of its child."),
            )
            .input(
                InputDescriptor::new("DefaultItemInputKey", "String")
                    .default("Item")
                    .describe("The input of the child for an item that is not an object."),
            )
            .input(
                InputDescriptor::new("CorrelationIdFunction", "String")
                    .display_name("Correlation ID Function")
                    .lazy()
                    .describe("The correlation id of a child; getItem() is its item."),
            )
            .input(values_input("Further inputs of each child."))
            .input(
                InputDescriptor::new("WaitForCompletion", "Boolean")
                    .default(true)
                    .describe("Whether this activity completes only once all children have ended."),
            )
            .input(trace_input())
            .input(channel_input())
            .port("ChildCompleted")
            .port("ChildFaulted")
            .child_variable("ChildInstanceId", "String")
            .child_variable("WorkflowInstanceId", "String")
            .child_variable("WorkflowStatus", "String")
            .child_variable("WorkflowSubStatus", "String")
            .child_variable("WorkflowOutput", "Object")
            .outcome("Completed")
            // Declared for Elsa's connections, and never taken: what is cancelled has no next activity.
            .outcome("Canceled")
            .outcome("Done")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let items = items_of(context).await?;
        if items.len() > MAX_ITEMS {
            let message = format!(
                "The input Items has {} items, and one activity starts at most {MAX_ITEMS} children; split the list, for example by a ForEach over parts of it",
                items.len()
            );
            return Err(Fault::new(message).code("too-many-items"));
        }
        context.set_property(TOTAL, items.len());
        if waits(context) && !items.is_empty() {
            context.set_property(ENDED, 0);
            context.set_property(HANDLED, 0);
            let parent = context.instance_id().clone();
            context.bookmark(BookmarkRequest {
                publishable: false,
                auto_burn: false,
                ..BookmarkRequest::new(json!({ "parentInstanceId": parent, "scheduledInstanceIdsCount": items.len() }))
            });
        }
        start_wave(context, 0, items).await
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let Some(result) = resumption.payload else {
            // Without a next item, a client has resumed a bookmark, and no child has ended.
            let Some(next) = context.property(NEXT).as_u64() else {
                return Ok(Step::Wait);
            };
            let left = match context.property(LEFT) {
                Value::Array(left) => left.clone(),
                _ => {
                    let begun = usize::try_from(next).unwrap_or(usize::MAX);
                    items_of(context).await?.into_iter().skip(begun).collect()
                }
            };
            return start_wave(context, next, left).await;
        };
        let ended = count(context, ENDED);
        if ended >= total(context) {
            context.burn_bookmarks();
        }
        // All that is no success, a cancel and a delete too: a parent has a port for what its child did not do.
        let port = match result.get("subStatus").and_then(Value::as_str) {
            Some("Finished") => context.port("ChildCompleted"),
            _ => context.port("ChildFaulted"),
        };
        let Some(port) = port else {
            return Ok(handled(context));
        };
        let field = |name: &str| result.get(name).cloned().unwrap_or_default();
        let variables = [
            ("ChildInstanceId", field("workflowInstanceId")),
            ("WorkflowInstanceId", field("workflowInstanceId")),
            ("WorkflowStatus", field("status")),
            ("WorkflowSubStatus", field("subStatus")),
            ("WorkflowOutput", field("output")),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        context.schedule_with(port, Map::from_iter(variables), None);
        Ok(Step::Wait)
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(handled(context))
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(handled(context))
    }
}

fn waits(context: &ActivityContext<'_>) -> bool {
    *context.input("WaitForCompletion") != Value::Bool(false)
}

fn total(context: &ActivityContext<'_>) -> u64 {
    context.property(TOTAL).as_u64().unwrap_or(0)
}

/// Counts one more.
fn count(context: &mut ActivityContext<'_>, property: &str) -> u64 {
    let count = context.property(property).as_u64().unwrap_or(0) + 1;
    context.set_property(property, count);
    count
}

/// Counts a child that has ended together with the activity at its port.
fn handled(context: &mut ActivityContext<'_>) -> Step {
    if count(context, HANDLED) < total(context) {
        return Step::Wait;
    }
    Step::Outcomes(vec!["Completed".to_owned(), "Done".to_owned()])
}

/// All items; not as an input of the execution, which each burst would record anew.
async fn items_of(context: &mut ActivityContext<'_>) -> Result<Vec<Value>, Fault> {
    match json_of(context.evaluate_with("Items", &Map::new()).await?) {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(items),
        other => {
            let message = format!(
                "The input Items is {}; give it a list, such as an expression of type JavaScript that returns an array",
                kind_of(&other)
            );
            Err(Fault::new(message).code("invalid-items"))
        }
    }
}

/// Starts the children of the first items, which are those from number `first` on, and lets the next wave follow.
async fn start_wave(context: &mut ActivityContext<'_>, first: u64, items: Vec<Value>) -> Result<Step, Fault> {
    if items.is_empty() {
        return Ok(Step::outcome("Done"));
    }
    let definition_id = wanted_definition(context).await?;
    let input = child_input(context)?;
    let key = context.text("DefaultItemInputKey").filter(|key| !key.is_empty());
    let key = key.unwrap_or_else(|| "Item".to_owned());
    let wait = if waits(context) {
        ChildWait::End
    } else {
        ChildWait::None
    };
    let given = weight::json(&Value::Object(input.clone()));
    let (mut next, mut bytes) = (first, 0);
    let mut left = items.into_iter();
    let correlates = context.node().has_input_value("CorrelationIdFunction");
    for item in left.by_ref().take(WAVE) {
        let correlation_id = if correlates {
            let arguments = Map::from_iter([(key.clone(), item.clone())]);
            let id = context.evaluate_with("CorrelationIdFunction", &arguments).await?;
            Some(crate::expression::to_text(id)).filter(|id| !id.is_empty())
        } else {
            None
        };
        let mut input = input.clone();
        bytes += given + weight::json(&item);
        match item {
            Value::Object(fields) => input.extend(fields),
            item => drop(input.insert(key.clone(), item)),
        }
        context.start_child(ChildRequest {
            definition_id: definition_id.clone(),
            correlation_id,
            input,
            wait,
            number: next,
        });
        next += 1;
        if bytes >= WAVE_BYTES {
            break;
        }
    }
    let is_last = left.len() == 0;
    if is_last {
        context.set_property(NEXT, Value::Null);
        context.set_property(LEFT, Value::Null);
    } else {
        context.set_property(NEXT, next);
        if !context.node().has_constant_input("Items") {
            let left = kept(context, left.collect())?;
            context.set_property(LEFT, left);
        }
        let due = context.now();
        context.bookmark(BookmarkRequest::at(due, json!({ "wave": first })));
    }
    match (wait, is_last) {
        (ChildWait::None, true) => Ok(Step::outcome("Done")),
        _ => Ok(Step::Wait),
    }
}

/// Items that later waves need, as far as an instance can keep them.
fn kept(context: &ActivityContext<'_>, left: Vec<Value>) -> Result<Value, Fault> {
    let (count, most) = (left.len(), context.max_value_bytes());
    let left = Value::Array(left);
    let bytes = check_json(&left, usize::MAX).unwrap_or(0);
    if bytes <= most {
        return Ok(left);
    }
    let message = format!(
        "The input Items leaves {count} items of {bytes} bytes for later waves, and at most {most} bytes of what an expression \
         returns can be kept (the setting value-kib); give ids instead of whole values, or split the list, for example by a \
         ForEach over parts of it"
    );
    Err(Fault::new(message).code("items-too-large"))
}

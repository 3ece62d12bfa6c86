//! An instance in memory, run as the engine would.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::activity::{Catalogue, Console, PublishedDefinitions, describe};
use crate::definition::WorkflowDefinition;
use crate::execution::journal::JournalEntry;
use crate::execution::{
    Burst, BurstResult, ChildRun, ChildStart, Children, Composition, InstanceState, Instruction, InstructionOrigin,
    Interpreter, InterpreterOptions, Program, References, UsedVersion, event_hash,
};
use crate::id::InstanceId;

#[derive(Default)]
pub(super) struct CapturedLines(Mutex<Vec<String>>);

impl Console for CapturedLines {
    fn write_line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl CapturedLines {
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct NonePublished;

impl PublishedDefinitions for NonePublished {
    fn is_published<'a>(&'a self, _definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { false })
    }
}

impl Children for NonePublished {
    fn run<'a>(&'a self, _child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>> {
        Box::pin(async { ChildRun::NotPublished })
    }
}

/// One instance, with its journal and output.
pub(super) struct InMemoryInstance {
    pub(super) interpreter: Interpreter,
    pub(super) program: Arc<Program>,
    lines: Arc<CapturedLines>,
    pub(super) state: Option<InstanceState>,
    pub(super) journal: Vec<JournalEntry>,
    pub(super) slept: Duration,
    pub(super) attempt: u32,
}

pub(super) fn options() -> (InterpreterOptions, Arc<CapturedLines>) {
    let lines = Arc::new(CapturedLines::default());
    let options = InterpreterOptions {
        console: lines.clone(),
        ..InterpreterOptions::default()
    };
    (options, lines)
}

pub(super) fn definition(value: Value) -> WorkflowDefinition {
    WorkflowDefinition::from_value(value).unwrap()
}

/// What a definition uses as activities, where every reference means the given definition of that id, else of that type.
pub(super) fn composition(
    interpreter: &Interpreter,
    definition: &WorkflowDefinition,
    used: &[WorkflowDefinition],
) -> Composition {
    let references = |definition: &WorkflowDefinition| {
        let found = interpreter
            .references(definition)
            .into_iter()
            .filter_map(|(reference, _)| {
                let by_id = used.iter().find(|part| part.definition_id == reference.definition_id);
                let by_type = used.iter().find(|part| describe(part).type_name == reference.type_name);
                Some((reference, by_id.or(by_type)?.id.clone()))
            });
        found.collect::<References>()
    };
    let part = |part: &WorkflowDefinition| UsedVersion {
        references: references(part),
        definition: part.clone(),
    };
    Composition {
        references: references(definition),
        used: used.iter().map(|it| (it.id.clone(), part(it))).collect(),
    }
}

impl InMemoryInstance {
    pub(super) fn new(definition: &WorkflowDefinition) -> Self {
        Self::with(definition, Catalogue::standard(), |_| {})
    }

    pub(super) fn with(
        definition: &WorkflowDefinition,
        catalogue: Catalogue,
        change: impl FnOnce(&mut InterpreterOptions),
    ) -> Self {
        let (mut options, lines) = options();
        change(&mut options);
        let interpreter = Interpreter::new(catalogue, options);
        Self::composed(interpreter, definition, &Composition::default(), lines)
    }

    /// An instance of a definition that uses others as activities.
    pub(super) fn nesting(definition: &WorkflowDefinition, used: &[WorkflowDefinition], catalogue: Catalogue) -> Self {
        let (options, lines) = options();
        let interpreter = Interpreter::new(catalogue, options);
        let composition = composition(&interpreter, definition, used);
        Self::composed(interpreter, definition, &composition, lines)
    }

    fn composed(
        interpreter: Interpreter,
        definition: &WorkflowDefinition,
        composition: &Composition,
        lines: Arc<CapturedLines>,
    ) -> Self {
        let program = Arc::new(interpreter.compile_composed(definition, composition).unwrap());
        Self {
            interpreter,
            program,
            lines,
            state: None,
            journal: Vec::new(),
            slept: Duration::ZERO,
            attempt: 1,
        }
    }

    pub(super) fn sample(name: &str) -> Self {
        let path = format!("{}/samples/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let definition = WorkflowDefinition::from_json(&std::fs::read(path).unwrap()).unwrap();
        Self::new(&definition)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.all()
    }

    /// The simulated time: the sum of the delays so far.
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + self.slept
    }

    pub(super) async fn burst(&mut self, instructions: Vec<Instruction>) -> BurstResult {
        let unknown = |instruction| (instruction, InstructionOrigin::default());
        self.burst_of(instructions.into_iter().map(unknown).collect()).await
    }

    /// One burst, with its state serialized as for the database.
    pub(super) async fn burst_of(&mut self, instructions: Vec<(Instruction, InstructionOrigin)>) -> BurstResult {
        self.burst_followed(instructions, false).await
    }

    /// `is_followed`: rows of the lost burst that it repeats are left.
    pub(super) async fn burst_followed(
        &mut self,
        instructions: Vec<(Instruction, InstructionOrigin)>,
        is_followed: bool,
    ) -> BurstResult {
        let state = self
            .state
            .take()
            .map(|state| InstanceState::from_bytes(&state.to_bytes().unwrap()).unwrap());
        let (instructions, origins) = instructions.into_iter().unzip();
        let burst = Burst {
            instance_id: InstanceId::new("instance"),
            state,
            instructions,
            attempt: self.attempt,
            is_followed,
            trace: None,
            now: self.now(),
            child_seed: 0,
            origins,
        };
        let result = self.interpreter.run(&self.program, burst).await;
        self.state = Some(result.state.clone());
        self.journal.extend(result.journal.iter().cloned());
        result
    }

    /// Runs bursts until the instance waits or ends.
    pub(super) async fn run(&mut self, instruction: Instruction) -> BurstResult {
        let mut result = self.burst(vec![instruction]).await;
        while result.yielded {
            result = self.burst(vec![Instruction::Continue]).await;
        }
        result
    }

    /// One burst in which no definition is published.
    pub(super) async fn run_retracted(&mut self, instruction: Instruction) -> BurstResult {
        let burst = Burst {
            instance_id: InstanceId::new("instance"),
            state: self.state.take(),
            instructions: vec![instruction],
            attempt: self.attempt,
            is_followed: false,
            trace: None,
            now: self.now(),
            child_seed: 0,
            origins: Vec::new(),
        };
        let result = self.interpreter.run_among(&self.program, burst, &NonePublished).await;
        self.state = Some(result.state.clone());
        result
    }

    pub(super) async fn start(&mut self) -> BurstResult {
        self.run(start(Map::new())).await
    }

    pub(super) async fn event(&mut self, name: &str, payload: Value) -> BurstResult {
        self.run(Instruction::Stimulus {
            bookmark_id: None,
            hash: event_hash(name),
            name: name.to_owned(),
            payload: Some(payload),
        })
        .await
    }

    /// Advances the time until no delay is left.
    pub(super) async fn sleep(&mut self) -> BurstResult {
        loop {
            let state = self.state.as_ref().unwrap();
            let mut delays: Vec<_> = state
                .bookmarks()
                .iter()
                .filter_map(|bookmark| {
                    let due = bookmark.due.map(|due| (due - self.now()).to_std().unwrap_or_default());
                    Some((bookmark.delay.or(due)?, bookmark))
                })
                .collect();
            delays.sort_by_key(|(delay, _)| *delay);
            let Some((delay, next)) = delays.first() else {
                return self.burst(vec![Instruction::Continue]).await;
            };
            self.slept += *delay;
            let instruction = Instruction::Stimulus {
                bookmark_id: Some(next.id.clone()),
                hash: next.hash,
                name: next.name.clone(),
                payload: None,
            };
            self.run(instruction).await;
        }
    }

    /// The ids of the activities that completed, in order, without the workflow itself.
    pub(super) fn completed(&self) -> Vec<String> {
        self.events("Completed")
            .into_iter()
            .filter(|id| id != "Workflow1")
            .collect()
    }

    pub(super) fn events(&self, name: &str) -> Vec<String> {
        let entries = self.journal.iter().filter(|entry| entry.event_name == name);
        entries.map(|entry| entry.activity_id.to_string()).collect()
    }
}

pub(super) fn start(input: Map<String, Value>) -> Instruction {
    Instruction::Start {
        correlation_id: None,
        name: None,
        input,
        variables: Map::new(),
        trigger_activity_id: None,
        payload: None,
        parent: None,
        request: None,
    }
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

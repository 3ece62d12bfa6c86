//! A burst in memory, and the encoding of its commit.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::activity::{Catalogue, Console};
use crate::definition::WorkflowDefinition;
use crate::execution::{Burst, BurstResult, Instruction, Interpreter, InterpreterOptions, Program, SubStatus};
use crate::id::{ClaimNo, InstanceId, WorkId};
use crate::runtime::worker::effects;
use crate::store::commit::{Claim, CommitRequest, encoded, parameter_types};
use crate::testing::TestDatabase;
use crate::testing::instructions::{count, runtime};
use crate::testing::store::burst;

struct Quiet;

impl Console for Quiet {
    fn write_line(&self, line: &str) {
        std::hint::black_box(line);
    }
}

/// A workflow of this many lines in a sequence, and what runs it.
struct Subject {
    runtime: Runtime,
    interpreter: Interpreter,
    program: Arc<Program>,
}

impl Subject {
    fn lines(lines: usize) -> Self {
        let line = |at: usize| json!({"type": "Elsa.WriteLine", "id": format!("line{at}"), "text": "Hello"});
        let lines: Vec<Value> = (0..lines).map(line).collect();
        let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": lines});
        let definition = WorkflowDefinition::from_value(json!({"definitionId": "counted", "root": root})).unwrap();
        let options = InterpreterOptions {
            console: Arc::new(Quiet),
            ..InterpreterOptions::default()
        };
        let interpreter = Interpreter::new(Catalogue::standard(), options);
        Self {
            runtime: runtime(),
            program: Arc::new(interpreter.compile(&definition).unwrap()),
            interpreter,
        }
    }

    fn run(&self) -> BurstResult {
        let start = Instruction::Start {
            correlation_id: None,
            name: None,
            input: Map::new(),
            variables: Map::new(),
            trigger_activity_id: None,
            payload: None,
            parent: None,
            request: None,
        };
        let burst = Burst {
            instance_id: InstanceId::random(),
            state: None,
            instructions: vec![start],
            attempt: 1,
            is_followed: false,
            trace: None,
            now: DateTime::<Utc>::UNIX_EPOCH,
            child_seed: 0,
            origins: Vec::new(),
        };
        let result = self.runtime.block_on(self.interpreter.run(&self.program, burst));
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        result
    }

    fn count(&self) {
        count(|| drop(self.run()));
    }
}

#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn hello_world() {
    Subject::lines(1).count();
}

#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn ten_activities() {
    Subject::lines(10).count();
}

/// From the result of a burst to the bytes that the server gets.
#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn encoding_of_a_commit() {
    let subject = Subject::lines(1);
    let result = subject.run();
    let types = subject.runtime.block_on(async {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        client.batch_execute("SET search_path = mainspring").await.unwrap();
        parameter_types(&client).await
    });
    count(|| {
        let effects = effects::of(&result, Vec::new(), 60_000_000).unwrap();
        let mut request = CommitRequest {
            claims: vec![Claim::Work(WorkId(1), ClaimNo(1))],
            effects,
            ..burst("counted", None)
        };
        assert!(encoded(&mut request, &types) > 500);
    });
}

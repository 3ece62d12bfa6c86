//! Random workflows over the catalogue: containers, loops, switches, flowcharts by counts and with tokens, state machines and
//! guards in each other, with waits, faults, breaks and ends in them. Every wait is for an event, so that a test decides what
//! happens next, and every loop has an end.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

/// How deep activities contain each other.
const DEPTH: usize = 4;

/// About how many activities a workflow has.
const BUDGET: usize = 28;

struct Generator {
    random: StdRng,
    /// The number of the next id.
    next: usize,
    /// The counters of loops, as variables of the workflow.
    variables: Vec<Value>,
}

/// A workflow of a seed: the same one for the same seed.
pub(crate) fn random_workflow(seed: u64) -> Value {
    let mut generator = Generator {
        random: StdRng::seed_from_u64(seed),
        next: 0,
        variables: Vec::new(),
    };
    let steps = (0..3).map(|_| generator.container(DEPTH, false)).collect();
    let root = generator.sequence(steps);
    let strategy = if generator.is(25) {
        "ContinueWithIncidentsStrategy"
    } else {
        "FaultStrategy"
    };
    let mode = ["CounterBased", "TokenBased"][generator.random.random_range(0..2)];
    json!({
        "definitionId": format!("random-{seed}"),
        "outputs": [{"name": "Said", "type": "String"}],
        "customProperties": {"Flowchart:ExecutionMode": mode},
        "variables": generator.variables,
        "options": {"incidentStrategyType": strategy},
        "root": root,
    })
}

/// A connection of a flowchart.
fn wire(from: &Value, port: &str, to: &Value) -> Value {
    json!({"source": {"activity": from["id"], "port": port}, "target": {"activity": to["id"], "port": "In"}})
}

impl Generator {
    /// True in so many of a hundred cases.
    fn is(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}{}", self.next)
    }

    fn line(&mut self) -> Value {
        let id = self.id("line");
        json!({"id": id, "type": "Elsa.WriteLine", "text": id})
    }

    fn activity(&mut self, depth: usize, in_loop: bool) -> Value {
        if depth == 0 || self.next > BUDGET {
            return self.leaf(in_loop);
        }
        if self.is(55) {
            self.container(depth, in_loop)
        } else {
            self.leaf(in_loop)
        }
    }

    fn leaf(&mut self, in_loop: bool) -> Value {
        match self.random.random_range(0..24) {
            20..24 => self.primitive(),
            0..9 => {
                let id = self.id("event");
                json!({"id": id, "type": "Elsa.Event", "eventName": id})
            }
            9..12 => {
                let code = ["1", "2"][self.random.random_range(0..2)];
                json!({"id": self.id("fault"), "type": "Elsa.Fault", "code": code, "category": "Stock", "message": "no stock"})
            }
            12..14 if in_loop => json!({"id": self.id("break"), "type": "Elsa.Break"}),
            14 if self.is(20) => {
                let kind = ["Elsa.Finish", "Elsa.Complete"][self.random.random_range(0..2)];
                json!({"id": self.id("ends"), "type": kind})
            }
            _ => self.line(),
        }
    }

    /// What changes the instance, and what nothing waits for.
    fn primitive(&mut self) -> Value {
        let id = self.id("sets");
        match self.random.random_range(0..7) {
            0 => json!({"id": id, "type": "Elsa.SetName", "value": id}),
            1 => json!({"id": id, "type": "Elsa.Correlate", "correlationId": id}),
            2 => json!({"id": id, "type": "Elsa.SetOutput", "outputName": "Said", "outputValue": id}),
            3 => json!({"id": id, "type": "Elsa.PublishEvent", "eventName": format!("nobody-{id}")}),
            4 => json!({"id": id, "type": "Elsa.RunJavaScript", "script": format!("'{id}'.length")}),
            5 => json!({"id": id, "type": "Elsa.RunCSharp", "script": format!("\"{id}\".Length")}),
            _ => {
                self.variables.push(json!({"id": id, "name": id, "typeName": "String"}));
                json!({"id": id, "type": "Elsa.SetVariable<String>", "variable": {"id": id}, "value": id})
            }
        }
    }

    fn list(&mut self, most: usize, depth: usize, in_loop: bool) -> Vec<Value> {
        let count = self.random.random_range(1..=most);
        (0..count).map(|_| self.activity(depth, in_loop)).collect()
    }

    fn sequence(&mut self, activities: Vec<Value>) -> Value {
        json!({"id": self.id("sequence"), "type": "Elsa.Sequence", "activities": activities})
    }

    fn container(&mut self, depth: usize, in_loop: bool) -> Value {
        let inner = depth - 1;
        match self.random.random_range(0..17) {
            14 => self.joined(inner, in_loop),
            15 => self.machine(inner, in_loop),
            16 => self.decided(inner, in_loop),
            0 | 1 => {
                let steps = self.list(3, inner, in_loop);
                self.sequence(steps)
            }
            2 | 3 => {
                json!({"id": self.id("parallel"), "type": "Elsa.Parallel", "activities": self.list(3, inner, in_loop)})
            }
            4 => {
                let mode = ["WaitAll", "WaitAny"][self.random.random_range(0..2)];
                json!({"id": self.id("fork"), "type": "Elsa.Fork", "joinMode": mode, "branches": self.list(3, inner, in_loop)})
            }
            5 => self.switch(inner, in_loop),
            6 => {
                let condition = self.is(50);
                json!({"id": self.id("if"), "type": "Elsa.If", "condition": condition,
                    "then": self.activity(inner, in_loop), "else": self.activity(inner, in_loop)})
            }
            7 => self.flowchart(inner, in_loop),
            8 | 9 => self.counted(inner),
            10 => self.each(inner),
            _ => self.guarded(inner, in_loop),
        }
    }

    fn switch(&mut self, depth: usize, in_loop: bool) -> Value {
        let mode = ["MatchFirst", "MatchAny"][self.random.random_range(0..2)];
        let cases = [(); 2].map(|()| {
            let condition = json!({"type": "JavaScript", "value": self.is(60).to_string()});
            json!({"label": self.id("case"), "condition": condition, "activity": self.activity(depth, in_loop)})
        });
        json!({"id": self.id("switch"), "type": "Elsa.Switch", "mode": mode, "cases": cases, "default": self.activity(depth, in_loop)})
    }

    /// A start, two branches beside each other, and what follows one of them.
    fn flowchart(&mut self, depth: usize, in_loop: bool) -> Value {
        let begin = json!({"id": self.id("start"), "type": "Elsa.Start"});
        let [one, two, then] = [(); 3].map(|()| self.activity(depth, in_loop));
        let connections = [
            wire(&begin, "Done", &one),
            wire(&begin, "Done", &two),
            wire(&one, "Done", &then),
        ];
        json!({"id": self.id("flow"), "type": "Elsa.Flowchart", "activities": [begin, one, two, then], "connections": connections})
    }

    /// A fork of two branches that meet at a join, or at an activity with a merge mode.
    fn joined(&mut self, depth: usize, in_loop: bool) -> Value {
        let fork = json!({"id": self.id("fork"), "type": "Elsa.FlowFork", "branches": ["A", "B"]});
        let [one, two] = [(); 2].map(|()| self.activity(depth, in_loop));
        let join = if self.is(50) {
            let mode = ["WaitAll", "WaitAllActive", "WaitAny"][self.random.random_range(0..3)];
            json!({"id": self.id("join"), "type": "Elsa.FlowJoin", "mode": mode})
        } else {
            let mode = ["None", "Stream", "Merge", "Converge", "Cascade", "Race"][self.random.random_range(0..6)];
            let mut join = self.line();
            join["customProperties"] = json!({"mergeMode": mode});
            join
        };
        let end = json!({"id": self.id("end"), "type": "Elsa.End"});
        let connections = [
            wire(&fork, "A", &one),
            wire(&fork, "B", &two),
            wire(&one, "Done", &join),
            wire(&two, "Done", &join),
            wire(&join, "Done", &end),
        ];
        json!({"id": self.id("flow"), "type": "Elsa.Flowchart", "activities": [fork, one, two, join, end], "connections": connections})
    }

    /// A decision or a switch, and an activity behind each of its outcomes.
    fn decided(&mut self, depth: usize, in_loop: bool) -> Value {
        let (begin, outcomes) = if self.is(50) {
            let holds = self.is(50);
            let decision = json!({"id": self.id("decision"), "type": "Elsa.FlowDecision", "condition": holds});
            (decision, ["True", "False"])
        } else {
            let mode = ["MatchFirst", "MatchAny"][self.random.random_range(0..2)];
            let cases = ["A", "B"].map(
                |label| json!({"label": label, "condition": {"type": "JavaScript", "value": self.is(60).to_string()}}),
            );
            let switch = json!({"id": self.id("switch"), "type": "Elsa.FlowSwitch", "mode": mode, "cases": cases});
            (switch, ["A", "B"])
        };
        let node = json!({"id": self.id("node"), "type": "Elsa.FlowNode", "body": self.activity(depth, in_loop)});
        let other = self.activity(depth, in_loop);
        let connections = [wire(&begin, outcomes[0], &node), wire(&begin, outcomes[1], &other)];
        json!({"id": self.id("flow"), "type": "Elsa.Flowchart", "activities": [begin, node, other], "connections": connections})
    }

    /// Two transitions that wait for their triggers, one of which has an action, and a final state.
    fn machine(&mut self, depth: usize, in_loop: bool) -> Value {
        let [one, two] = [(); 2].map(|()| {
            let id = self.id("event");
            json!({"id": id, "type": "Elsa.Event", "eventName": id})
        });
        let (entry, exit, action) = (
            self.activity(depth, in_loop),
            self.line(),
            self.activity(depth, in_loop),
        );
        json!({"id": self.id("machine"), "type": "Elsa.StateMachine", "initialState": "new",
            "states": [{"name": "new", "entry": entry, "exit": exit}, {"name": "done"}],
            "transitions": [
                {"from": "new", "to": "done", "trigger": one, "action": action},
                {"from": "new", "to": "done", "trigger": two}]})
    }

    /// A loop over numbers, or one that counts its rounds in a variable.
    fn counted(&mut self, depth: usize) -> Value {
        let body = self.activity(depth, true);
        if self.is(40) {
            return json!({"id": self.id("for"), "type": "Elsa.For", "start": 1, "end": 2, "body": body});
        }
        let name = self.id("N");
        self.variables
            .push(json!({"id": name, "name": name, "typeName": "Int32", "value": 0}));
        let script = |type_name: &str, text: String| json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}});
        let count = json!({"id": self.id("count"), "type": "Elsa.SetVariable", "variable": {"id": name},
            "value": script("Int32", format!("get{name}() + 1"))});
        let condition = script("Boolean", format!("get{name}() < 2"));
        let kind = ["Elsa.While", "Mainspring.DoWhile"][self.random.random_range(0..2)];
        let body = self.sequence(vec![count, body]);
        json!({"id": self.id("loop"), "type": kind, "condition": condition, "body": body})
    }

    fn each(&mut self, depth: usize) -> Value {
        let body = self.activity(depth, true);
        let mut each = Map::from_iter([
            ("id".to_owned(), json!(self.id("each"))),
            ("items".to_owned(), json!(["a", "b", "c"])),
            ("body".to_owned(), body),
        ]);
        let kind = match self.random.random_range(0..3) {
            0 => ["Elsa.ForEach", "Elsa.ForEach<String>"][self.random.random_range(0..2)],
            1 => ["Elsa.ParallelForEach", "Elsa.ParallelForEach<String>"][self.random.random_range(0..2)],
            _ => {
                each.insert(
                    "mainspringDegreeOfParallelism".to_owned(),
                    json!(self.random.random_range(1..3)),
                );
                "Elsa.ParallelForEach"
            }
        };
        each.insert("type".to_owned(), json!(kind));
        Value::Object(each)
    }

    fn guarded(&mut self, depth: usize, in_loop: bool) -> Value {
        let mut guard = Map::from_iter([
            ("id".to_owned(), json!(self.id("try"))),
            ("type".to_owned(), json!("Mainspring.Try")),
            ("try".to_owned(), self.activity(depth, in_loop)),
        ]);
        let has_catch = self.is(70);
        if has_catch {
            guard.insert("catch".to_owned(), self.activity(depth, in_loop));
            if self.is(40) {
                guard.insert("catchCodes".to_owned(), json!(["1"]));
            }
        }
        if !has_catch || self.is(60) {
            guard.insert("finally".to_owned(), self.activity(depth, in_loop));
        }
        Value::Object(guard)
    }
}

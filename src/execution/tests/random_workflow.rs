//! Random workflows over the control flow: containers, loops, switches and guards in each other, with waits, faults and breaks
//! in them. Every wait is for an event, so that a test decides what happens next, and every loop has an end.

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
    json!({
        "definitionId": format!("random-{seed}"),
        "variables": generator.variables,
        "options": {"incidentStrategyType": strategy},
        "root": root,
    })
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
        match self.random.random_range(0..20) {
            0..9 => {
                let id = self.id("event");
                json!({"id": id, "type": "Elsa.Event", "eventName": id})
            }
            9..12 => {
                let code = ["1", "2"][self.random.random_range(0..2)];
                json!({"id": self.id("fault"), "type": "Elsa.Fault", "code": code, "category": "Stock", "message": "no stock"})
            }
            12..14 if in_loop => json!({"id": self.id("break"), "type": "Elsa.Break"}),
            14 if self.is(20) => json!({"id": self.id("finish"), "type": "Elsa.Finish"}),
            _ => self.line(),
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
        match self.random.random_range(0..14) {
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
        let wire = |from: &Value, to: &Value| json!({"source": from["id"], "target": to["id"]});
        let connections = [wire(&begin, &one), wire(&begin, &two), wire(&one, &then)];
        json!({"id": self.id("flow"), "type": "Elsa.Flowchart", "activities": [begin, one, two, then], "connections": connections})
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
            0 => "Elsa.ForEach",
            1 => "Elsa.ParallelForEach",
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

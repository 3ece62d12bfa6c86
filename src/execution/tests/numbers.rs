//! Numbers: a fraction is the same, bit by bit, after it was written and read again, in whatever language it was computed.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition, object};
use crate::execution::{InstanceState, Instruction, SubStatus, stimulus_hash};
use crate::id::InstanceId;

/// What scripts compute: of these, every seventh changed when its text was not read exactly.
fn products() -> Vec<f64> {
    (0..400).map(|i| f64::from(i) * 0.1 * 1.4).collect()
}

fn bits(values: &Value) -> Vec<u64> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap().to_bits()).collect()
}

/// A number as this crate writes JSON.
fn written(number: f64) -> String {
    serde_json::to_string(&number).unwrap()
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("finite", |number| number.is_finite()),
        any::<i64>().prop_map(|cents| cents as f64 / 100.0),
        (any::<i32>(), 1..1000).prop_map(|(a, b)| f64::from(a) * 0.1 / f64::from(b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_number_is_read_as_it_was_written(number in finite()) {
        let text = written(number);
        for read in [
            serde_json::from_str::<f64>(&text).unwrap(),
            serde_json::from_slice::<Value>(text.as_bytes()).unwrap().as_f64().unwrap(),
            text.parse().unwrap(),
        ] {
            prop_assert_eq!(read.to_bits(), number.to_bits(), "{}", text);
        }
        // It is the shortest text that reads back equal: Rust's own form has as many digits.
        let digits = |text: &str| {
            let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
            let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
            digits.trim_matches('0').len()
        };
        prop_assert_eq!(digits(&text), digits(&format!("{number:e}")), "{}", text);
    }

    #[test]
    fn a_state_keeps_its_numbers(numbers in prop::collection::vec(finite(), 1..20)) {
        let mut state = InstanceState::new(InstanceId::new("i"), "d".into(), "v".into(), 1);
        state.input = object(json!({"Numbers": numbers}));
        let read = InstanceState::from_bytes(&state.to_bytes().unwrap()).unwrap();
        let wanted: Vec<u64> = numbers.iter().map(|number| number.to_bits()).collect();
        prop_assert_eq!(bits(&read.input["Numbers"]), wanted);
    }
}

#[test]
fn the_state_of_a_row_is_the_rest_of_the_whole_one() {
    let odd = r#"i",\"format":1,"#;
    let mut state = InstanceState::new(InstanceId::new(odd), odd.into(), odd.into(), 1);
    state.input = object(json!({"format": ",\"format\":"}));
    let (whole, row) = (state.to_bytes().unwrap(), state.to_row().unwrap());
    assert!(row.starts_with(br#"{"format":2,"#) && whole.ends_with(&row[1..]));
    let columns: serde_json::Value =
        serde_json::from_slice(&[&whole[..whole.len() - row.len()], b"}"].concat()).unwrap();
    assert_eq!(columns.as_object().map(serde_json::Map::len), Some(6), "{columns}");
}

const NAMES: [&str; 6] = ["Js", "Cs", "Js2", "Cs2", "Text", "CsText"];

fn set(id: &str, variable: &str, language: &str, script: &str) -> Value {
    json!({"id": id, "type": "Elsa.SetVariable", "variable": {"id": variable, "name": variable},
        "value": {"typeName": "Object", "expression": {"type": language, "value": script}}})
}

#[tokio::test]
async fn a_wait_changes_no_fraction() {
    let list = |id: &str| json!({"id": id, "name": id, "typeName": "Object"});
    let mut csharp = "var all = new List<double>(); ".to_owned();
    csharp.push_str("for (var i = 0; i < 400; i++) { all.Add(i * 0.1 * 1.4); } return all;");
    let compute = "Array.from({length: 400}, (_, i) => i * 0.1 * 1.4)";
    let payload = json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": "({numbers: getJs()})"}});
    let activities = json!([
        set("js", "Js", "JavaScript", compute),
        set("cs", "Cs", "CSharp", &csharp),
        {"id": "wait", "type": "Elsa.RunTask", "payload": payload,
            "taskName": {"typeName": "String", "expression": {"type": "Literal", "value": "T"}}},
        // What is handed to a language and back.
        set("js2", "Js2", "JavaScript", "getCs().map(number => number)"),
        set("cs2", "Cs2", "CSharp", "Variables.Js"),
        set("text", "Text", "JavaScript", "JSON.parse(JSON.stringify(getJs())).map(number => Number(String(number)))"),
        set("cstext", "CsText", "CSharp", "JsonSerializer.Deserialize<List<double>>(JsonSerializer.Serialize(Variables.Js))"),
        {"id": "wait2", "type": "Elsa.RunTask",
            "taskName": {"typeName": "String", "expression": {"type": "Literal", "value": "T"}}}]);
    let variables: Vec<Value> = NAMES.iter().map(|name| list(name)).collect();
    let definition = definition(json!({"variables": variables,
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": activities}}));
    let mut instance = InMemoryInstance::new(&definition);
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let wanted: Vec<u64> = products().into_iter().map(f64::to_bits).collect();

    // As the database has it: the payload that a file of the instance has, and its hash.
    let read = InstanceState::from_bytes(&result.state.to_bytes().unwrap()).unwrap();
    let bookmark = read.bookmarks().first().unwrap();
    assert_eq!(bits(&bookmark.payload["payload"]["numbers"]), wanted);
    assert_eq!(stimulus_hash(&bookmark.name, &bookmark.payload, None), bookmark.hash);

    let result = instance.run(Instruction::Resume {
        bookmark_id: bookmark.id.clone(),
        input: object(json!({})),
        payload: None,
        request: None,
    });
    let result = result.await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let variables = InstanceState::from_bytes(&result.state.to_bytes().unwrap())
        .unwrap()
        .variables();
    let mut changed = String::new();
    for name in NAMES {
        let found = bits(&variables[name]);
        let count = found.iter().zip(&wanted).filter(|(one, other)| one != other).count();
        if count > 0 || found.len() != wanted.len() {
            let _ = write!(changed, "{name}: {count} of {}; ", found.len());
        }
    }
    assert_eq!(changed, "");
}

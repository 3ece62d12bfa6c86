//! Which faults a try catches, and what is refused at publish.

use std::time::Duration;

use serde_json::{Value, json};

use super::activities::{errors, fails, guarded, line, lines, parallel, says, script_of, sequence, with};
use super::in_memory::{InMemoryInstance, definition};
use crate::activity::{Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, Step};
use crate::execution::SubStatus;

/// Fails as it is asked to.
struct Fragile;

impl Activity for Fragile {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Acme.Fragile")
            .input(InputDescriptor::new("How", "String"))
            .fault_category("Payment")
            .timeout(Duration::from_millis(5))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match context.text("How").as_deref() {
            Some("panic") => panic!("panics on request"),
            Some("hang") => std::future::pending().await,
            Some("output") => context.set_output("Result", "x".repeat(2 << 20)),
            Some("error") => drop("x".parse::<i32>()?),
            _ => return Err(Fault::new("declined").code("declined").category("Payment")),
        }
        Ok(Step::Done)
    }
}

fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Fragile);
    catalogue
}

fn fragile(how: &str) -> Value {
    json!({"id": "x", "type": "Acme.Fragile", "how": how})
}

fn shows() -> Value {
    says(
        "catch",
        "`${getFault().code} ${getFault().category} ${getFault().activityId}`",
    )
}

#[tokio::test]
async fn every_kind_of_fault_is_caught() {
    let variable = json!({"id": "x", "type": "Elsa.SetVariable", "variable": {"id": "gone"}, "value": 1});
    let script = says("x", "nowhere.to.be");
    let no_list =
        json!({"id": "x", "type": "Elsa.ForEach", "items": script_of("Object", "({a: 1})"), "body": line("n")});
    let condition = json!({"id": "x", "type": "Elsa.While", "condition": script_of("Boolean", "throw new Error('no')"), "body": line("n")});
    let until = with(&condition, json!({"type": "Mainspring.DoWhile"}));
    let nested = guarded("x", [line("in"), line("n"), line("n2")]);
    let selection = with(
        &nested,
        json!({"catchCodes": script_of("String[]", "throw new Error('no')")}),
    );
    for (activity, expected) in [
        (fragile("panic"), "panic General x"),
        (fragile("hang"), "activity-timeout General x"),
        (fragile("output"), "0 Value x"),
        (fragile("error"), "0 General x"),
        (fragile("decline"), "declined Payment x"),
        (
            json!({"id": "x", "type": "Acme.Fly"}),
            "unknown-activity-type General x",
        ),
        (script, "script-error Script x"),
        (variable, "0 General x"),
        (no_list, "0 General x"),
        (condition, "script-error Script x"),
        (until, "script-error Script x"),
        (selection, "script-error Script x"),
    ] {
        let root = guarded(
            "guard",
            [sequence("s", std::slice::from_ref(&activity)), shows(), Value::Null],
        );
        let mut instance = InMemoryInstance::with(&definition(json!({"root": root})), catalogue(), |_| {});
        let result = instance.start().await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{activity}: {:?}",
            result.state.incidents()
        );
        assert_eq!(instance.lines().last().unwrap(), expected, "{activity}");
    }
}

#[tokio::test]
async fn faults_are_selected_by_code_and_category() {
    let computed = script_of("String[]", "['18', '17']");
    for (selection, is_caught) in [
        (json!({}), true),
        (json!({"catchCodes": null, "catchCategories": ""}), true),
        (json!({"catchCodes": [], "catchCategories": [" "]}), true),
        (json!({"catchCodes": ["17"]}), true),
        (json!({"catchCodes": "17"}), true),
        (json!({"catchCodes": [17]}), true),
        (json!({"catchCodes": computed}), true),
        (json!({"catchCodes": ["18"]}), false),
        (json!({"catchCategories": ["HTTP"]}), true),
        (json!({"catchCategories": ["http"]}), true),
        (json!({"catchCategories": ["Script", "General"]}), false),
        // One of the two is enough.
        (json!({"catchCodes": ["18"], "catchCategories": ["HTTP"]}), true),
        (json!({"catchCodes": ["17"], "catchCategories": ["Script"]}), true),
        (json!({"catchCodes": ["18"], "catchCategories": ["Script"]}), false),
    ] {
        let inner = with(
            &guarded("inner", [fails("bad", "17", "HTTP"), line("inner"), Value::Null]),
            selection.clone(),
        );
        let root = guarded("outer", [inner, line("outer"), Value::Null]);
        let expected = if is_caught { "inner" } else { "outer" };
        assert_eq!(lines(&root).await, [expected], "{selection}");
    }
}

#[tokio::test]
async fn guards_in_branches_catch_their_own() {
    let guard = |id: &str, code: &str| {
        guarded(
            id,
            [
                fails(&format!("bad {id}"), code, "General"),
                says(&format!("catch {id}"), "getFault().code"),
                Value::Null,
            ],
        )
    };
    let root = parallel("p", &[guard("a", "1"), guard("b", "2"), line("c")]);
    let mut found = lines(&root).await;
    found.sort();
    assert_eq!(found, ["1", "2", "c"]);
}

#[test]
fn a_try_that_cannot_work_is_refused_at_publish() {
    let (none, first, catch) = (Value::Null, line("try"), line("catch"));
    let good = guarded("guard", [first.clone(), catch.clone(), none.clone()]);
    let named = |category: &str| with(&good, json!({"catchCategories": ["Script", category]}));
    for (root, expected) in [
        (
            guarded("guard", [none.clone(), catch, none.clone()]),
            vec!["guard: ", "nothing to try"],
        ),
        (
            guarded("guard", [first.clone(), none.clone(), none.clone()]),
            vec!["guard: ", "neither a catch nor a finally"],
        ),
        (
            with(
                &guarded("guard", [first.clone(), none, line("last")]),
                json!({"catchCodes": ["1"]}),
            ),
            vec!["guard: ", "catchCodes", "no catch"],
        ),
        (named("HTPP"), vec!["guard: ", "HTPP", "did you mean HTTP?"]),
        (
            named("Weather"),
            vec![
                "guard: ",
                "Weather",
                "the known ones are General, HTTP, Mail, Script, Value.",
            ],
        ),
        (
            with(&good, json!({"catchCodes": {"a": 1}})),
            vec!["guard: ", "CatchCodes", "not a list"],
        ),
        (
            with(&good, json!({"catchCode": ["1"]})),
            vec!["guard: ", "catchCode", "did you mean catchCodes?"],
        ),
        (
            with(&good, json!({"try": "x"})),
            vec!["guard.try", "must be an activity"],
        ),
    ] {
        let found = errors(&root);
        assert!(!found.is_empty(), "{root}");
        assert!(expected.iter().all(|part| found[0].contains(part)), "{root}: {found:?}");
    }
    let of_a_fault = |category: Value| {
        let fault = with(&fails("bad", "1", ""), json!({"category": category}));
        with(&named("Weather"), json!({"try": fault}))
    };
    for root in [
        good.clone(),
        named("http"),
        with(&good, json!({"catchCategories": script_of("String[]", "['Weather']")})),
        with(&good, json!({"catchCategories": "", "catchCodes": []})),
        // A fault of the workflow itself has it, or may have it.
        of_a_fault(json!("Weather")),
        of_a_fault(script_of("String", "'Weath' + 'er'")),
    ] {
        assert_eq!(errors(&root), [""; 0], "{root}");
    }
    assert_eq!(errors(&of_a_fault(json!("Rain"))).len(), 1);
}

#[test]
fn a_category_of_a_registered_type_can_be_caught() {
    let root = with(
        &guarded("guard", [line("a"), line("b"), Value::Null]),
        json!({"catchCategories": ["Payment"]}),
    );
    assert_eq!(errors(&root).len(), 1);
    let model = definition(json!({"root": root}));
    let instance = InMemoryInstance::with(&model, catalogue(), |_| {});
    assert_eq!(instance.interpreter.validate(&model), []);
}

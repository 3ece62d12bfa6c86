//! Outputs that a converter changes on their way to a variable or an output of the workflow.

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition, options};
use crate::activity::{
    Activity, ActivityContext, Catalogue, ConverterDescriptor, Descriptor, Fault, OutputConversion, OutputConverter,
    OutputDescriptor, Step,
};
use crate::execution::{BurstResult, Interpreter, SubStatus};

/// A number as a text, with as many decimals as its settings say.
struct NumberToText;

impl OutputConverter for NumberToText {
    fn descriptor(&self) -> ConverterDescriptor {
        let digits = json!({"type": "integer", "minimum": 0, "maximum": 9});
        ConverterDescriptor::new("test.number-to-text.v1", "Decimal", "String")
            .settings_schema(json!({"type": "object", "properties": {"digits": digits, "mark": {"type": "string"}}}))
    }

    fn convert(&self, conversion: OutputConversion<'_>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        assert_eq!(conversion.source_type, "Decimal");
        let number = conversion.value.as_f64().ok_or("hidden: not a number")?;
        let settings = conversion.settings;
        let digits = settings.and_then(|settings| settings["digits"].as_u64()).unwrap_or(2);
        let text = format!("{number:.*}", usize::try_from(digits)?);
        match number {
            0.0 => Ok(Value::Null),
            1.0 => Err("hidden: one".into()),
            2.0 => panic!("hidden: two"),
            _ => Ok(text.into()),
        }
    }

    fn validate_settings(&self, settings: Option<&Value>) -> Vec<String> {
        let mark = settings.and_then(|settings| settings["mark"].as_str());
        mark.filter(|mark| mark.len() != 1)
            .map(|mark| format!("mark {mark:?} is not one character"))
            .into_iter()
            .collect()
    }
}

/// Text into a whole number, whatever the text is.
struct Length;

impl OutputConverter for Length {
    fn descriptor(&self) -> ConverterDescriptor {
        ConverterDescriptor::new("test.length", "Object", "Int32").display_name("Length")
    }

    fn convert(&self, conversion: OutputConversion<'_>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        match conversion.value {
            Value::String(text) => Ok(text.len().into()),
            Value::Number(_) => Ok(Value::Null),
            other => Ok(other.clone()),
        }
    }
}

/// Sets its outputs to what its properties say.
struct Source;

impl Activity for Source {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Test.Source")
            .output(OutputDescriptor::new("Total", "Decimal"))
            .output(OutputDescriptor::new("Text", "Object"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        for name in ["Total", "Text"] {
            let value = context.node().property(&format!("set{name}")).cloned();
            if let Some(value) = value {
                context.set_output(name, value);
            }
        }
        Ok(Step::Done)
    }
}

fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Source);
    catalogue.register_converter(NumberToText).unwrap();
    catalogue.register_converter(Length).unwrap();
    catalogue
}

fn bound(target: &str, converter: Value) -> Value {
    json!({"typeName": "Decimal", "memoryReference": {"id": target}, "converter": converter})
}

fn workflow(source: Value) -> Value {
    let mut first = json!({"id": "s", "type": "Test.Source"});
    first
        .as_object_mut()
        .unwrap()
        .extend(source.as_object().unwrap().clone());
    let said = json!({"typeName": "String", "expression": {"type": "JavaScript",
        "value": "`${getVariable('Shown')} ${getOutputFrom('s', 'Total')}`"}});
    json!({
        "variables": [
            {"id": "v1", "name": "Shown", "typeName": "String", "value": "before"},
            {"id": "v2", "name": "Count", "typeName": "Int32"},
        ],
        "outputs": [{"name": "Result", "type": "String"}],
        "root": {"id": "q", "type": "Elsa.Sequence", "activities": [
            first, {"id": "w", "type": "Elsa.WriteLine", "text": said}]},
    })
}

async fn ran(source: Value) -> (InMemoryInstance, BurstResult) {
    let definition = definition(workflow(source));
    let mut instance = InMemoryInstance::with(&definition, catalogue(), |_| {});
    let ended = instance.start().await;
    (instance, ended)
}

#[tokio::test]
async fn the_variable_has_what_the_converter_returns_and_all_else_the_output() {
    let converter = json!({"id": "test.number-to-text.v1", "settings": {"digits": 1}});
    let (instance, ended) = ran(json!({"setTotal": 12.345, "total": bound("v1", converter)})).await;
    assert_eq!(ended.sub_status, SubStatus::Finished, "{:?}", ended.state.incidents());
    assert_eq!(instance.lines(), ["12.3 12.345"]);
    let recorded = ended
        .activity_executions
        .iter()
        .find(|execution| execution.activity_id.as_str() == "s");
    assert_eq!(
        recorded.unwrap().outputs["Total"],
        12.345,
        "the journal has the output itself"
    );
}

#[tokio::test]
async fn an_output_of_the_workflow_is_a_target() {
    let (_, ended) =
        ran(json!({"setTotal": 5, "total": bound("Result", json!({"id": "test.number-to-text.v1"}))})).await;
    assert_eq!(ended.state.output()["Result"], "5.00");
    let (_, ended) = ran(json!({"setText": "four", "text": bound("v2", json!({"id": "test.length"}))})).await;
    assert_eq!(ended.sub_status, SubStatus::Finished, "{:?}", ended.state.incidents());
}

#[tokio::test]
async fn null_is_not_converted() {
    let converter = json!({"id": "test.number-to-text.v1"});
    let (instance, _) = ran(json!({"setTotal": null, "total": bound("v1", converter)})).await;
    assert_eq!(instance.lines(), ["null null"], "a text may be null");
}

#[tokio::test]
async fn a_conversion_that_fails_faults_without_the_value_and_leaves_the_target() {
    let number = |settings: Value| json!({"id": "test.number-to-text.v1", "settings": settings});
    for (source, stage) in [
        (
            json!({"setTotal": 1, "total": bound("v1", number(json!({})))}),
            "Invocation",
        ),
        (
            json!({"setTotal": 2, "total": bound("v1", number(json!({})))}),
            "Invocation",
        ),
        (
            json!({"setTotal": "hidden", "total": bound("v1", number(json!({})))}),
            "Invocation",
        ),
        (
            json!({"setTotal": 3, "total": bound("v1", number(json!({"digits": 10})))}),
            "SettingsValidation",
        ),
        (
            json!({"setTotal": 3, "total": bound("v1", number(json!({"mark": "hidden"})))}),
            "SettingsValidation",
        ),
        (
            json!({"setTotal": 3, "total": bound("v2", number(json!({})))}),
            "ResultValidation",
        ),
        (
            json!({"setTotal": 3, "total": bound("none", number(json!({})))}),
            "Resolution",
        ),
        (
            json!({"setTotal": 3, "total": bound("v1", json!({"id": "TEST.number-to-text.v1"}))}),
            "Resolution",
        ),
        (
            json!({"setText": "3", "text": bound("v1", number(json!({})))}),
            "SourceCompatibility",
        ),
        (
            json!({"setText": true, "text": bound("v2", json!({"id": "test.length"}))}),
            "-",
        ),
        (
            json!({"setText": [], "text": bound("v2", json!({"id": "test.length"}))}),
            "ResultValidation",
        ),
        (
            json!({"setText": 1, "text": bound("v2", json!({"id": "test.length"}))}),
            "ResultValidation",
        ),
        (
            json!({"setText": null, "text": bound("v2", json!({"id": "test.length"}))}),
            "ResultValidation",
        ),
    ] {
        let (instance, ended) = ran(source.clone()).await;
        if stage == "-" {
            assert_eq!(ended.sub_status, SubStatus::Finished, "{source}");
            continue;
        }
        assert_eq!(ended.sub_status, SubStatus::Faulted, "{source}");
        let incident = format!("{:?}", ended.state.incidents());
        assert!(
            incident.contains(&format!("failed during {stage} for output")),
            "{source}: {incident}"
        );
        assert!(
            incident.contains("of the activity s (") && !incident.contains("hidden"),
            "{incident}"
        );
        let variables = format!("{:?}", instance.state.unwrap());
        assert!(variables.contains("before"), "{source}: {variables}");
    }
}

fn errors(catalogue: Catalogue, value: Value) -> Vec<(String, String)> {
    let (options, _) = options();
    let errors = Interpreter::new(catalogue, options).validate(&definition(value));
    errors
        .into_iter()
        .map(|error| (error.activity_id, error.message))
        .collect()
}

#[test]
fn a_binding_that_cannot_convert_is_not_published() {
    let number = |settings: Value| json!({"id": "test.number-to-text.v1", "settings": settings});
    for (source, problem) in [
        (
            json!({"total": bound("v1", number(json!({"digits": 10})))}),
            "digits is not at most 9",
        ),
        (
            json!({"total": bound("v1", number(json!({"mark": "ab"})))}),
            "is not one character",
        ),
        (
            json!({"total": bound("v1", number(json!([])))}),
            "they are not a JSON object",
        ),
        (
            json!({"total": bound("v2", number(json!({})))}),
            "returns String, which is not a value of its target, Int32",
        ),
        (
            json!({"text": bound("v1", number(json!({})))}),
            "accepts Decimal, and the output is Object",
        ),
        (
            json!({"total": bound("none", number(json!({})))}),
            "bind the output to one",
        ),
        (
            json!({"total": {"converter": {"id": "test.length"}}}),
            "bind the output to one",
        ),
        (json!({"total": bound("v1", json!({}))}), "it has no id"),
        (json!({"total": bound("v1", json!("x"))}), "it has no id"),
        (
            json!({"total": bound("v1", json!({"id": "other"}))}),
            "other is not known; a program registers converters; the known ones are: test.length, test.number-to-text.v1",
        ),
    ] {
        let found = errors(catalogue(), workflow(source.clone()));
        assert_eq!(found.len(), 1, "{source}: {found:?}");
        assert!(found[0].0 == "s" && found[0].1.contains(problem), "{source}: {found:?}");
    }
    for good in [
        json!({"total": bound("v1", number(json!({"digits": 1, "mark": ","})))}),
        json!({"total": bound("Shown", number(Value::Null))}),
        json!({"total": bound("Result", number(json!({})))}),
        json!({"total": bound("v2", json!({"id": "test.length"}))}),
        json!({"total": bound("v1", Value::Null)}),
    ] {
        assert_eq!(errors(catalogue(), workflow(good.clone())), [], "{good}");
    }
}

#[test]
fn a_definition_requires_its_converters() {
    let with = json!({"id": "s", "type": "Test.Source", "total": bound("v1", json!({"id": "test.length"}))});
    let definition = definition(json!({"root": with}));
    let known = InMemoryInstance::with(&definition, catalogue(), |_| {}).program;
    assert!(known.activity_types().contains(&"converter:test.length".to_owned()));
    assert!(known.missing_activity_types().is_empty());
    let mut lacking = Catalogue::standard();
    lacking.register(Source);
    let unknown = InMemoryInstance::with(&definition, lacking, |_| {}).program;
    assert_eq!(unknown.missing_activity_types(), ["converter:test.length"]);
}

/// Whatever its descriptor says.
struct Described(ConverterDescriptor);

impl OutputConverter for Described {
    fn descriptor(&self) -> ConverterDescriptor {
        self.0.clone()
    }

    fn convert(&self, _: OutputConversion<'_>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Value::Null)
    }
}

#[test]
fn a_converter_that_cannot_be_used_is_not_registered() {
    let of = |id: &str, source: &str, result: &str| ConverterDescriptor::new(id, source, result);
    for (descriptor, problem) in [
        (of("", "Object", "Object"), "its id"),
        (of(&"x".repeat(201), "Object", "Object"), "its id"),
        (of("x", "", "Object"), "the types"),
        (of("TEST.length", "Object", "Object"), "is registered already"),
        (
            of("x", "Object", "Object").settings_schema(json!({"oneOf": []})),
            "oneOf",
        ),
    ] {
        let error = catalogue().register_converter(Described(descriptor)).unwrap_err();
        assert!(
            error.code() == "invalid-converter" && error.message().contains(problem),
            "{error}"
        );
    }
}

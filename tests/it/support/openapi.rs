//! The OpenAPI document of a node, and whether responses conform to it.

use serde_json::{Value, json};

use super::{Answer, Http};

/// The document that a node serves.
pub(crate) struct Document(Value);

/// One method of one path.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    form: &'a Value,
}

impl Document {
    pub(crate) async fn of(http: &Http) -> Self {
        Self(http.get("/openapi.json").await.expect(200))
    }

    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().iter();
            all.extend(methods.map(|(method, form)| Operation { method, path, form }));
        }
        all
    }

    /// What a response has that its operation does not document; empty if it conforms.
    pub(crate) fn violations(&self, operation: Operation<'_>, answer: &Answer) -> Vec<String> {
        let Some(response) = operation.form["responses"].get(answer.status.to_string()) else {
            return vec![format!(
                "the status {} is not documented: {}",
                answer.status, answer.body
            )];
        };
        let response = self.resolved(response);
        // An operation may have two types of one status, such as the state of a faulted instance and an error.
        let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let kind = kind.filter(|kind| response["content"].get(kind).is_some());
        let schema = &response["content"][kind.unwrap_or("application/json")]["schema"];
        let mut found = Vec::new();
        match (&answer.body, response.get("content")) {
            (Value::Null, None) => {}
            (body, None) => found.push(format!("{} has a body: {body}", answer.status)),
            (_, Some(_)) if schema.is_null() => {}
            (body, Some(_)) => self.validate(schema, body, &answer.status.to_string(), &mut found),
        }
        found
    }

    /// The fields of the body, each with a value that it does not take.
    pub(crate) fn wrong_fields(&self, operation: Operation<'_>) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        let schema = &operation.form["requestBody"]["content"]["application/json"]["schema"];
        self.wrong_values(schema, &[json!("x"), json!({})], &mut found);
        found
    }

    /// The parameters of the query, each with a text that it does not take.
    pub(crate) fn wrong_parameters(&self, operation: Operation<'_>) -> Vec<(String, Value)> {
        let parameters = operation.form["parameters"].as_array().into_iter().flatten();
        // A text is a list of one.
        let of_query =
            parameters.filter(|parameter| parameter["in"] == "query" && parameter["schema"]["items"].is_null());
        let named = of_query.map(|parameter| (parameter["name"].as_str().unwrap().to_owned(), &parameter["schema"]));
        let properties: serde_json::Map<String, Value> = named.map(|(name, schema)| (name, schema.clone())).collect();
        let mut found = Vec::new();
        self.wrong_values(&json!({ "properties": properties }), &[json!("x")], &mut found);
        found
    }

    fn wrong_values(&self, schema: &Value, candidates: &[Value], found: &mut Vec<(String, Value)>) {
        let schema = self.resolved(schema);
        for of in ["allOf", "anyOf", "oneOf"] {
            for part in schema[of].as_array().into_iter().flatten() {
                self.wrong_values(part, candidates, found);
            }
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_wrong = |value: &&Value| {
                let mut violations = Vec::new();
                self.validate(field, value, name, &mut violations);
                !violations.is_empty()
            };
            found.extend(
                candidates
                    .iter()
                    .find(is_wrong)
                    .map(|value| (name.clone(), value.clone())),
            );
        }
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(target) => self.0.pointer(target.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// The keywords of JSON Schema that the document uses; `at` is the place in the body.
    fn validate(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let schema = self.resolved(schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.validate(part, value, at, found);
        }
        for any in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[any].as_array() {
                let fits = |choice: &&Value| {
                    let mut wrong = Vec::new();
                    self.validate(choice, value, at, &mut wrong);
                    wrong.is_empty()
                };
                if !choices.iter().any(|choice| fits(&choice)) {
                    found.push(format!("{at} fits no choice: {value}"));
                }
            }
        }
        if let Some(values) = schema["enum"].as_array()
            && !values.contains(value)
        {
            found.push(format!("{at} is none of the values: {value}"));
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|kind| is_of(kind, value)) {
            found.push(format!("{at} is no {}: {value}", types.join(" or ")));
        }
        if schema["format"] == "date-time" && value.as_str().is_some_and(|text| !text.ends_with("+00:00")) {
            found.push(format!("{at} is no time with the offset +00:00: {value}"));
        }
        if let Some(least) = schema["minimum"].as_f64()
            && value.as_f64().is_some_and(|number| number < least)
        {
            found.push(format!("{at} is below {least}: {value}"));
        }
        if let Some(items) = value.as_array() {
            for (index, item) in items.iter().enumerate() {
                self.validate(&schema["items"], item, &format!("{at}[{index}]"), found);
            }
        }
        let Some(fields) = value.as_object() else { return };
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !fields.contains_key(name) {
                found.push(format!("{at} has no {name}: {value}"));
            }
        }
        for (name, field) in fields {
            let declared = schema["properties"]
                .get(name)
                .unwrap_or(&schema["additionalProperties"]);
            self.validate(declared, field, &format!("{at}.{name}"), found);
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

impl Operation<'_> {
    /// No key is needed.
    pub(crate) fn is_open(&self) -> bool {
        self.form.get("security").is_some()
    }

    /// The permissions of which a caller needs one.
    pub(crate) fn permissions(&self) -> Vec<&str> {
        let names = self.form["x-permission"].as_array().into_iter().flatten();
        names.map(|name| name.as_str().unwrap()).collect()
    }

    pub(crate) fn has_body(&self) -> bool {
        self.form.get("requestBody").is_some()
    }

    /// The path with every parameter replaced.
    pub(crate) fn path_with(&self, value: &str) -> String {
        let parts = self
            .path
            .split('/')
            .map(|part| if part.starts_with('{') { value } else { part });
        parts.collect::<Vec<_>>().join("/")
    }

    pub(crate) fn has_parameter(&self) -> bool {
        self.path.contains('{')
    }
}

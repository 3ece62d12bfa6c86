//! The document as a page: one file without scripts, whose only style is its own.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::api::html::{escaped, policy};
use crate::http::PROBLEM_JSON;

const STYLE: &str = include_str!("page.css");

/// The page and the content security policy that it is served with.
pub(super) struct ReadingPage {
    pub(super) html: String,
    pub(super) policy: String,
}

impl ReadingPage {
    /// The page of a document.
    pub(super) fn of(document: &Value) -> Self {
        Self {
            html: html(document),
            policy: policy(STYLE, "'none'", "'self'"),
        }
    }
}

fn html(document: &Value) -> String {
    let mut page = String::with_capacity(1 << 18);
    let info = &document["info"];
    let title = format!("{} {}: API", text(info, "title"), text(info, "version"));
    let title = escaped(&title);
    page.push_str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
    let _ = write!(page, "<title>{title}</title><style>{STYLE}</style></head><body>");
    let _ = write!(page, "<header><h1>{title}</h1>{}", prose(text(info, "description")));
    page.push_str("<p><a href=\"openapi.json\">openapi.json</a> has the same for programs (OpenAPI 3.1).</p></header>");
    let operations = operations(document);
    page.push_str("<nav><h2>Areas</h2><ul>");
    for tag in tags(document) {
        let _ = write!(page, "<li><a href=\"#tag-{0}\">{0}</a></li>", escaped(tag));
    }
    page.push_str("<li><a href=\"#schemas\">Schemas</a></li></ul></nav><main>");
    for tag in tags(document) {
        let _ = write!(page, "<section><h2 id=\"tag-{0}\">{0}</h2>", escaped(tag));
        for operation in operations.iter().filter(|operation| operation.tag() == tag) {
            operation.write(&mut page, document);
        }
        page.push_str("</section>");
    }
    page.push_str("<section><h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in object(document.pointer("/components/schemas")) {
        let _ = write!(page, "<article><h3 id=\"schema-{0}\">{0}</h3>", escaped(name));
        page.push_str(&prose(text(schema, "description")));
        write_schema(&mut page, schema);
        page.push_str("</article>");
    }
    page.push_str("</section></main></body></html>\n");
    page
}

fn tags(document: &Value) -> impl Iterator<Item = &str> {
    list(&document["tags"]).iter().map(|tag| text(tag, "name"))
}

struct Operation<'a> {
    path: &'a str,
    method: &'a str,
    form: &'a Value,
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, item) in object(document.get("paths")) {
        all.extend(object(Some(item)).map(|(method, form)| Operation { path, method, form }));
    }
    all
}

impl Operation<'_> {
    fn tag(&self) -> &str {
        self.form.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    fn write(&self, page: &mut String, document: &Value) {
        let Self { path, method, form } = self;
        let id = escaped(text(form, "operationId"));
        let summary = prose_in_line(text(form, "summary"));
        let _ = write!(
            page,
            "<details id=\"{id}\"><summary><b class=\"{method}\">{method}</b> <code>{}</code> <span>{summary}</span></summary>",
            escaped(path)
        );
        page.push_str(&prose(text(form, "description")));
        if form.get("security").is_some() {
            page.push_str("<p>Needs no API key.</p>");
        }
        let parameters = list(&form["parameters"]);
        if !parameters.is_empty() {
            page.push_str("<h4>Parameters</h4><table>");
            for parameter in parameters {
                let required = if parameter["required"] == true {
                    ", required"
                } else {
                    ""
                };
                let _ = write!(
                    page,
                    "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                    escaped(text(parameter, "name")),
                    escaped(text(parameter, "in")),
                    kind(&parameter["schema"]),
                    prose_in_line(text(parameter, "description")),
                );
            }
            page.push_str("</table>");
        }
        let body = &form["requestBody"];
        if !body.is_null() {
            let optional = if body["required"] == true { "" } else { " (optional)" };
            let _ = write!(page, "<h4>Body{optional}</h4><p>{}", content(body));
            let _ = write!(page, " {}</p>", prose_in_line(text(body, "description")));
        }
        page.push_str("<h4>Responses</h4><table>");
        for (status, response) in object(form.get("responses")) {
            let response = resolved(document, response);
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(status),
                content(response),
                prose_in_line(text(response, "description"))
            );
        }
        page.push_str("</table></details>");
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

/// The schemas of a body, by media type.
fn content(body: &Value) -> String {
    let of = |(media, form): (&String, &Value)| match media.as_str() {
        "application/json" | PROBLEM_JSON => kind(&form["schema"]),
        media => format!("<code>{}</code>", escaped(media)),
    };
    let all: Vec<String> = object(body.get("content")).map(of).collect();
    if all.is_empty() {
        "empty".to_owned()
    } else {
        all.join(" or ")
    }
}

/// The properties of a schema as a table; anything else in a line.
fn write_schema(page: &mut String, schema: &Value) {
    let parts = list(&schema["allOf"]);
    let mut rows = String::new();
    for part in std::iter::once(schema).chain(parts) {
        let required: Vec<&str> = list(&part["required"]).iter().filter_map(Value::as_str).collect();
        for (name, property) in object(part.get("properties")) {
            let always = if required.contains(&name.as_str()) { "" } else { "?" };
            let _ = write!(
                rows,
                "<tr><td><code>{}{always}</code></td><td>{}</td><td>{}</td></tr>",
                escaped(name),
                kind(property),
                prose_in_line(text(property, "description"))
            );
        }
    }
    let references = parts.iter().filter(|part| part.get("$ref").is_some());
    for reference in references {
        let _ = write!(page, "<p>All of {}, and:</p>", kind(reference));
    }
    if rows.is_empty() {
        let _ = write!(page, "<p>{}</p>", kind(schema));
    } else {
        let _ = write!(page, "<table>{rows}</table>");
    }
}

/// A schema in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|target| target.rsplit('/').next())
    {
        let name = escaped(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for any in ["oneOf", "anyOf"] {
        let choices = list(&schema[any]);
        if !choices.is_empty() {
            return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let all = list(&schema["allOf"]);
    if !all.is_empty() {
        return all.iter().map(kind).collect::<Vec<_>>().join(" and ");
    }
    let values = list(&schema["enum"]);
    if !values.is_empty() {
        let values = values
            .iter()
            .map(|value| format!("<code>{}</code>", escaped(value.as_str().unwrap_or("null"))));
        return values.collect::<Vec<_>>().join(", ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return "any value".to_owned(),
    };
    let one = |name: &&str| match *name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if object(schema.get("properties")).next().is_some() => {
            let names = object(schema.get("properties")).map(|(name, _)| escaped(name));
            format!("{{{}}}", names.collect::<Vec<_>>().join(", "))
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        "string" => escaped(schema["format"].as_str().unwrap_or("text")),
        name => escaped(name),
    };
    types.iter().map(one).collect::<Vec<_>>().join(" or ")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn object(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Paragraphs.
fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs
        .map(|paragraph| format!("<p>{}</p>", prose_in_line(paragraph)))
        .collect()
}

/// Text in which backticks mark code.
fn prose_in_line(text: &str) -> String {
    let parts = text.split('`').map(escaped).enumerate();
    parts
        .map(|(at, part)| {
            if at % 2 == 1 {
                format!("<code>{part}</code>")
            } else {
                part
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_of_the_document_is_no_markup() {
        let operation = json!({"operationId": "a\"b", "tags": ["<t>"], "summary": "a < `b > c`", "responses": {
            "200": {"description": "&", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/<S>"}}}},
        }});
        let document = json!({"info": {"title": "<x>", "version": "1"}, "tags": [{"name": "<t>"}],
            "paths": {"/<path>": {"get": operation}},
            "components": {"schemas": {"<S>": {"type": "object", "properties": {"<f>": {"type": ["integer", "null"]}}}}}});
        let page = ReadingPage::of(&document);
        for part in ["<x>", "<t>", "<path>", "<S>", "<f>", "a\"b"] {
            assert!(!page.html.contains(part), "{part}");
        }
        for part in [
            "<code>/&lt;path&gt;</code>",
            "a &lt; <code>b &gt; c</code>",
            "<a href=\"#schema-&lt;S&gt;\">",
            "<td>integer or null</td>",
        ] {
            assert!(page.html.contains(part), "{part}: {}", page.html);
        }
        assert!(page.policy.starts_with("default-src 'none'; style-src 'sha256-"));
    }
}

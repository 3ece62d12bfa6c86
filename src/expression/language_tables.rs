//! `docs/reference/languages.md`: what scripts and templates give, made of the batteries that the tests of the languages run.

use std::fmt::Write;

use serde_json::Value;

use crate::testing::reference_has;

const BATTERIES: [(&str, &str, &str); 3] = [
    (
        "JavaScript",
        "Elsa runs it in Jint",
        include_str!("javascript/tests/battery.json"),
    ),
    (
        "C#",
        "Elsa runs it on .NET",
        include_str!("../../crates/csharp/src/tests/battery.json"),
    ),
    (
        "Liquid",
        "Elsa runs it in Fluid",
        include_str!("../../crates/liquid/src/tests/battery.json"),
    ),
];

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('\n', " ");
    // Code with a backtick is between two.
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

fn shown(value: &Value) -> String {
    match value.get("$fault").and_then(Value::as_str) {
        Some("") => "an error".to_owned(),
        Some(text) => format!("an error: {text}"),
        None => cell(&value.to_string()),
    }
}

fn page() -> String {
    let mut page = String::from(
        "# What the three languages give\n\n\
         Scripts and templates that people write in workflows, with the value of each, where Elsa's is the same; then those that are\n\
         refused, with the message, and those whose value is another one. The names in them are variables and inputs of a workflow.\n\
         [Expressions](expressions.md) describes the languages.\n\n\
         This page is made from the batteries of the tests of each language, which run every row.\n",
    );
    for (language, reference, battery) in BATTERIES {
        let entries: Vec<Value> = serde_json::from_str(battery).unwrap();
        let of = |key: &str| {
            entries
                .iter()
                .filter(|entry| entry.get(key).is_some())
                .collect::<Vec<_>>()
        };
        let (refused, differs) = (of("refused"), of("differs"));
        let same = entries.len() - refused.len() - differs.len();
        let _ = write!(
            page,
            "\n## {language}\n\n{reference}. Of {} texts, {same} give what they give there, {} are refused, and {} give something else.\n",
            entries.len(),
            refused.len(),
            differs.len()
        );
        let code = |entry: &Value| cell(entry["code"].as_str().unwrap());
        let text = |value: &Value| value.as_str().unwrap_or("refused").replace('|', "\\|");
        if !refused.is_empty() {
            page.push_str("\n| refused | why, and what to write |\n|---|---|\n");
            for entry in &refused {
                let _ = writeln!(page, "| {} | {} |", code(entry), text(&entry["refused"]));
            }
        }
        if !differs.is_empty() {
            page.push_str("\n| text | in Elsa | here | why |\n|---|---|---|---|\n");
            for entry in &differs {
                let (value, reason) = (&entry["differs"]["value"], text(&entry["differs"]["reason"]));
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {reason} |",
                    code(entry),
                    shown(&entry["expected"]),
                    shown(value)
                );
            }
        }
        page.push_str("\n| text | gives |\n|---|---|\n");
        let is_same = |entry: &&Value| entry.get("refused").is_none() && entry.get("differs").is_none();
        for entry in entries.iter().filter(is_same) {
            let _ = writeln!(page, "| {} | {} |", code(entry), shown(&entry["expected"]));
        }
    }
    page
}

#[test]
fn the_reference_has_the_batteries() {
    reference_has("languages.md", &page());
}

//! A definition as it is read, before it is judged.

use serde_json::Value;

use crate::api::MAX_BODY;
use crate::definition::WorkflowDefinition;

/// The most bytes of all definitions together; as values they take ten to thirty times as much.
const MOST_BYTES: usize = 256 << 20;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// What only the files and the answers of a server have.
const NOT_STORED: [&str; 2] = ["$schema", "links"];

/// A definition of a file or of a server.
pub(super) struct ReadDefinition {
    /// The file, or the URL.
    pub(super) source: String,
    /// The definition, or why it cannot be read.
    pub(super) definition: Result<WorkflowDefinition, String>,
    /// It says that it is not published.
    pub(super) is_draft: bool,
}

/// How much of all definitions is still read: all of them are in memory together.
pub(super) struct ReportBudget(usize);

impl Default for ReportBudget {
    fn default() -> Self {
        Self(MOST_BYTES)
    }
}

impl ReadDefinition {
    /// Reads a definition, if the budget has room for it.
    pub(super) fn within(budget: &mut ReportBudget, source: String, bytes: &[u8]) -> Self {
        match budget.0.checked_sub(bytes.len()) {
            Some(left) => {
                budget.0 = left;
                Self::of_json(source, bytes)
            }
            None => Self::unreadable(
                source,
                format!("a report reads at most {MOST_BYTES} bytes together; report on a part of them"),
            ),
        }
    }

    /// What cannot be read, and why.
    pub(super) fn unreadable(source: String, problem: impl Into<String>) -> Self {
        Self {
            source,
            definition: Err(problem.into()),
            is_draft: false,
        }
    }

    /// Reads the JSON of an export, or of an answer of Elsa's API.
    pub(super) fn of_json(source: String, bytes: &[u8]) -> Self {
        match value_of(bytes) {
            Err(problem) => Self::unreadable(source, problem),
            Ok(value) => {
                let is_draft = value.get("isPublished") == Some(&Value::Bool(false));
                let definition = WorkflowDefinition::from_value(value);
                Self {
                    source,
                    definition: definition.map_err(|error| error.message().to_owned()),
                    is_draft,
                }
            }
        }
    }
}

fn value_of(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > MAX_BODY {
        return Err(too_large());
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty; export the definition again".to_owned());
    }
    let mut value: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if let Some(fields) = value.as_object_mut() {
        let is_definition = ["root", "definitionId", "activities", "$schema"]
            .iter()
            .any(|name| fields.contains_key(*name));
        // An envelope of Elsa 2 is named as such by the model.
        if !is_definition && WorkflowDefinition::from_value(Value::Object(fields.clone())).is_ok() {
            return Err("it is no workflow definition: it has neither a root activity nor a definitionId".to_owned());
        }
        for name in NOT_STORED {
            fields.shift_remove(name);
        }
    }
    Ok(value)
}

/// Why a file or an answer is not read to its end.
pub(super) fn too_large() -> String {
    format!("it has more than {MAX_BODY} bytes, and no definition may have; move parts of it to separate workflows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_definition_says_why() {
        let problem = |bytes: &[u8]| {
            ReadDefinition::of_json("s".to_owned(), bytes)
                .definition
                .err()
                .unwrap_or_default()
        };
        assert!(problem(b"").contains("empty"));
        assert!(problem(b" \n").contains("empty"));
        assert!(problem(b"{\"root\": ").contains("line 1 column"));
        assert!(problem(b"{\"name\": \"package\"}").contains("no workflow definition"));
        assert!(problem(b"[]").contains("JSON object"));
        assert!(problem(&vec![b' '; MAX_BODY + 1]).contains("more than"));
        let elsa_2 = br#"{"activities": [{"activityId": "a", "type": "WriteLine"}], "connections": []}"#;
        assert!(problem(elsa_2).contains("Elsa 2"));
        assert_eq!(problem(b"\xEF\xBB\xBF{\"definitionId\": \"d\", \"links\": []}"), "");
    }
}

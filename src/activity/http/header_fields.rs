//! Header fields as values of a workflow.

use serde_json::Value;

use crate::expression::to_text;

/// The most header fields of one message that a workflow writes.
const MOST: usize = 200;

/// In bytes: all names and values together that a workflow writes.
const LONGEST: usize = 64 << 10;

/// Fields that belong to the connection: the server and the client write their own, so those of a workflow, which often come from
/// another message, are left out.
const OF_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
];

/// Names and values that a message can carry, in their order; a name may be repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderFields(Vec<(String, String)>);

impl HeaderFields {
    /// Reads a value of Elsa's type `HttpHeaders`: an object whose values are text or lists of text.
    /// Errors: names the field that no message can carry.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let fields = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(fields) => fields,
            _ => return Err("they are no JSON object; write {\"name\": \"value\"}".to_owned()),
        };
        let mut read = Self::default();
        for (name, value) in fields {
            if is_of_connection(name) {
                continue;
            }
            match value {
                Value::Null => {}
                Value::Array(values) => values.iter().try_for_each(|value| read.add(name, value))?,
                value => read.add(name, value)?,
            }
        }
        let length: usize = read.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        if read.0.len() > MOST || length > LONGEST {
            let found = read.0.len();
            return Err(format!(
                "they are {found} fields of {length} bytes; at most {MOST} of {LONGEST} are sent"
            ));
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, value: &Value) -> Result<(), String> {
        if !is_token(name) {
            return Err(format!(
                "{name:?} is no name of a header field; use letters, digits and hyphens"
            ));
        }
        let value = to_text(value.clone());
        if let Some(problem) = value_problem(&value) {
            return Err(format!("the value of {name} {problem}"));
        }
        self.0
            .push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        Ok(())
    }

    /// The first value of a field, whatever the case of its name is.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Sets a field to one value.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
        self.0.push((name.to_owned(), value.into()));
    }

    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.0
    }
}

/// Whether a field belongs to the connection.
pub(crate) fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a text can be the name of a field or a method.
pub(crate) fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

/// Why a text cannot be the value of a field. Characters beyond ASCII are sent as UTF-8.
pub(crate) fn value_problem(value: &str) -> Option<&'static str> {
    if value.contains(['\r', '\n']) {
        Some("has a line break, which no header field can carry; remove it, or encode the value")
    } else if value.chars().any(|c| c.is_control() && c != '\t') {
        Some("has a control character, which no header field can carry; remove it, or encode the value")
    } else {
        None
    }
}

/// How a name is written whose case is not known: each word with a capital, as most clients send it, but for those that are
/// written otherwise.
pub(crate) fn written_name(name: &str) -> String {
    const OTHERWISE: [&str; 11] = [
        "DNT",
        "ETag",
        "Expect-CT",
        "HTTP2-Settings",
        "Sec-WebSocket-Key",
        "Sec-WebSocket-Version",
        "TE",
        "WWW-Authenticate",
        "X-Correlation-ID",
        "X-Request-ID",
        "X-Workflow-Instance-ID",
    ];
    // Proxies and tracing have conventions of their own: these are lower case on the wire.
    if ["traceparent", "tracestate", "baggage"].contains(&name) {
        return name.to_owned();
    }
    if let Some(known) = OTHERWISE.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        return (*known).to_owned();
    }
    let mut begins = true;
    let letters = name.chars().map(|c| {
        let written = if begins { c.to_ascii_uppercase() } else { c };
        begins = c == '-';
        written
    });
    letters.collect()
}

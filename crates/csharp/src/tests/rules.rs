//! `rules.txt`: expressions with the results that .NET gives, under the rule that they show.

use serde_json::Value as Json;

use super::evaluate;
use crate::library;

const RULES: &str = include_str!("rules.txt");

#[test]
fn every_expression_gives_what_dotnet_gives() {
    let (mut rule, mut count, mut wrong) = ("", 0, Vec::new());
    for line in RULES.lines() {
        if let Some(next) = line.strip_prefix("# ") {
            rule = next;
            continue;
        }
        let (text, wanted) = line.split_once(" ==> ").unwrap_or_else(|| panic!("no result: {line}"));
        count += 1;
        let result = evaluate(text);
        let is_right = match (wanted.chars().next(), &result) {
            (Some(kind @ ('?' | '!')), Err(message)) => {
                message.starts_with(kind) && message.contains(&wanted[1..]) && message.contains("line 1, column ")
            }
            (_, Ok(result)) => {
                let wanted: Json = serde_json::from_str(wanted).unwrap_or_else(|error| panic!("{line}: {error}"));
                result.value == wanted || (result.value.is_number() && result.value.as_f64() == wanted.as_f64())
            }
            (_, Err(_)) => false,
        };
        if !is_right {
            let shown = result
                .map(|result| result.value.to_string())
                .unwrap_or_else(|message| message);
            wrong.push(format!(
                "{text}\n    is     {shown}\n    not    {wanted}\n    by     {rule}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 300, "{count}");
}

/// A value for each letter of a signature.
fn sample(letter: char) -> &'static str {
    match letter {
        't' => "\"a\"",
        'c' => "'a'",
        'i' | 'n' | 'd' => "1",
        'l' => "1L",
        'b' => "true",
        'D' => "DateTime.UtcNow",
        'S' => "TimeSpan.Zero",
        'k' => "StringComparison.Ordinal",
        'o' => "StringSplitOptions.None",
        'r' => "MidpointRounding.ToEven",
        'K' => "DateTimeKind.Utc",
        's' => "new[] { 1 }",
        'f' => "x => x",
        'p' => "x => true",
        'm' => "(x, i) => x",
        'g' => "(a, b) => b",
        'x' => "CultureInfo.InvariantCulture",
        'O' => "out var o",
        'j' => "RegexOptions.IgnoreCase",
        'y' => "Encoding.UTF8.GetBytes(\"a\")",
        _ => "1",
    }
}

/// Whether a call reaches an implementation: an exception of another kind is one, too.
#[test]
fn every_method_of_the_table_is_there() {
    let target = |owner: &str| match owner {
        ".any" | ".sequence" | ".list" => "new List<int> { 1, 2 }".to_owned(),
        ".string" => "\"abc\"".to_owned(),
        ".bool" => "true".to_owned(),
        ".DateTime" => "DateTime.UtcNow".to_owned(),
        ".DateTimeOffset" => "DateTimeOffset.UtcNow".to_owned(),
        ".TimeSpan" => "TimeSpan.FromHours(1)".to_owned(),
        ".Nullable" => "((int?)1)".to_owned(),
        ".map" => "new Dictionary<int, int> { [1] = 2 }".to_owned(),
        ".set" => "new HashSet<int> { 1, 2 }".to_owned(),
        ".StringBuilder" => "new StringBuilder(\"abc\")".to_owned(),
        ".Encoding" => "Encoding.UTF8".to_owned(),
        ".Regex" => "new Regex(\"a\")".to_owned(),
        ".Match" => "Regex.Match(\"aa\", \"a\")".to_owned(),
        other => other.to_owned(),
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for (owner, name, signature) in library::every_method() {
        let chars: Vec<char> = signature.arguments.clone();
        for length in signature.least..=chars.len() {
            let mut arguments: Vec<String> = chars[..length]
                .iter()
                .map(|letter| sample(*letter).to_owned())
                .collect();
            match (owner, name) {
                (".sequence", "Where" | "TakeWhile" | "SkipWhile") => arguments[0] = "(x, i) => true".to_owned(),
                (".sequence", "SelectMany") => arguments[0] = "x => new[] { x }".to_owned(),
                ("JsonNode" | "JsonSerializer", "Parse" | "Deserialize") => arguments[0] = "\"1\"".to_owned(),
                ("Variables" | "ExecutionContext", _) if name != "GetInput" && length > 0 => {
                    arguments[0] = "\"Count\"".to_owned()
                }
                _ => {}
            }
            let generic = if signature.result.contains('T') && !matches!(owner, "JsonNode") {
                "<int>"
            } else {
                ""
            };
            let then = if name.starts_with("ThenBy") {
                ".OrderBy(x => x)"
            } else {
                ""
            };
            let text = format!("{}{then}.{name}{generic}({})", target(owner), arguments.join(", "));
            count += 1;
            if let Err(message) = evaluate(&text)
                && (message.starts_with('?') || message.contains("has no method") || message.contains("is missing"))
            {
                wrong.push(format!("{text}: {message}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

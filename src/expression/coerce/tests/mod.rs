//! Each kind of value with each type, beside Elsa's outcome; the table of `docs/reference/conversions.md` is made of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::*;
use crate::testing::reference_has;

/// A line per value and type: the value, the type, and Elsa's outcome (JSON, `default` or `an exception`), as its
/// `ObjectConverter` gives it.
const ELSA: &str = include_str!("elsa.tsv");

/// Where ours is another on purpose: the type, a value, our outcome, and why. `*` is any.
const OTHERWISE: &str = include_str!("otherwise.tsv");

const INCIDENT: &str = "an incident";

fn to(name: &str, value: Value) -> Result<Value, TypeMismatch> {
    coerce(value, &TypeName::parse(name, false))
}

fn outcome(value: &str, type_name: &str) -> String {
    let value: Value = serde_json::from_str(value).unwrap();
    match to(type_name, value) {
        Ok(value) => value.to_string(),
        Err(_) => INCIDENT.to_owned(),
    }
}

/// Whether both are the same JSON, of whatever form of its numbers; or a failure on both sides.
fn is_same(elsa: &str, ours: &str) -> bool {
    let number = |value: &Value| value.as_f64().filter(|_| !value.is_i64());
    match (serde_json::from_str::<Value>(elsa), serde_json::from_str::<Value>(ours)) {
        (Ok(elsa), Ok(ours)) => elsa == ours || number(&elsa).is_some_and(|it| ours.as_f64() == Some(it)),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

fn lines(table: &'static str, columns: usize) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(move |line| {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells.len(), columns, "{line}");
        cells
    })
}

#[test]
fn values_become_what_they_become_in_elsa() {
    let otherwise: Vec<_> = lines(OTHERWISE, 4).collect();
    let mut used = vec![false; otherwise.len()];
    let mut wrong = String::new();
    for cells in lines(ELSA, 3) {
        let [value, type_name, elsa] = cells[..] else {
            unreachable!()
        };
        let ours = outcome(value, type_name);
        let place = otherwise
            .iter()
            .position(|it| it[0] == type_name && [value, "*"].contains(&it[1]) && [&*ours, "*"].contains(&it[2]));
        if is_same(elsa, &ours) {
            continue;
        }
        match place {
            Some(place) => used[place] = true,
            None => drop(writeln!(wrong, "{value}\t{type_name}\tElsa: {elsa}\tours: {ours}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let unused = otherwise.iter().zip(used).find(|(_, used)| !used);
    assert!(unused.is_none(), "not a difference any more: {unused:?}");
}

#[test]
fn the_reference_has_the_table() {
    reference_has("conversions.md", &page());
}

fn page() -> String {
    let mut page = String::from(
        "# Conversions\n\n\
         Inputs, variables, arguments and outputs are converted to the type that is declared for them, as Elsa's `ObjectConverter`\n\
         does it. What cannot be converted is an incident, or a refusal with 400, that names the value and the type; Elsa has the\n\
         default of the type there (0, null, 0001-01-01), or an exception. Null stays null.\n\n\
         This page is made from the table of the test `expression::coerce::tests`.\n\n\
         | value | becomes |\n|---|---|\n",
    );
    let mut values: Vec<&str> = Vec::new();
    let mut outcomes: BTreeMap<&str, Vec<(String, Vec<&str>)>> = BTreeMap::new();
    for cells in lines(ELSA, 3) {
        let ours = outcome(cells[0], cells[1]);
        if !values.contains(&cells[0]) {
            values.push(cells[0]);
        }
        let of_value = outcomes.entry(cells[0]).or_default();
        match of_value.iter_mut().find(|(outcome, _)| *outcome == ours) {
            Some((_, types)) => types.push(cells[1]),
            None => of_value.push((ours, vec![cells[1]])),
        }
    }
    for value in values {
        let parts: Vec<String> = outcomes[value]
            .iter()
            .map(|(outcome, types)| match outcome.as_str() {
                INCIDENT => format!("{INCIDENT}: {}", types.join(", ")),
                outcome => format!("`{outcome}`: {}", types.join(", ")),
            })
            .collect();
        let _ = writeln!(page, "| `{value}` | {} |", parts.join("; "));
    }
    page.push_str("\nWhere the value is another one than in Elsa, on purpose:\n\n| type | value | here | why |\n|---|---|---|---|\n");
    let cell = |cell: &str, any: &str| {
        if cell == "*" {
            any.to_owned()
        } else {
            format!("`{cell}`")
        }
    };
    for cells in lines(OTHERWISE, 4) {
        let (value, here) = (cell(cells[1], "any"), cell(cells[2], "as above"));
        let _ = writeln!(page, "| {} | {value} | {here} | {} |", cells[0], cells[3]);
    }
    page
}

#[test]
fn a_value_that_does_not_fit_is_named_in_the_error() {
    for (name, value, part) in [
        (
            "Int32",
            json!(3_000_000_000u64),
            "3000000000 is not a whole number between",
        ),
        ("Boolean", json!("maybe"), "\"maybe\" is not true or false"),
        ("TimeSpan", json!("soon"), "00:00:05"),
        (
            "ObjectDictionary",
            json!("{\"a\": 1,}"),
            "trailing comma at line 1 column 9",
        ),
        (
            "ObjectDictionary",
            json!("{"),
            "EOF while parsing an object at line 1 column 1",
        ),
        ("My.Order", json!("[1, 2"), "the JSON in it is broken"),
        ("Guid", json!(""), ""),
        ("Guid", json!("123"), "is not a Guid"),
        ("Byte[]", json!("abc"), "Base64"),
        ("DateTime", json!("0000-01-01"), "is not a date and time"),
        ("DateTime", json!("10000-01-01"), "is not a date and time"),
        (
            "DateTimeOffset",
            json!("2026-01-31T12:00:00+99:00"),
            "is not a date and time",
        ),
        (
            "Decimal",
            json!("1234567890123456789012345678901234567890"),
            "is not a decimal number",
        ),
        ("Double", json!("NaN"), "is not a number"),
        ("Double", json!("1e999"), "is not a number"),
    ] {
        let problem = to(name, value.clone()).map_or_else(|mismatch| mismatch.to_string(), |_| String::new());
        assert!(problem.contains(part), "{name} {value}: {problem}");
        assert_eq!(problem.is_empty(), part.is_empty(), "{name} {value}: {problem}");
    }
}

#[test]
fn hostile_text_ends_soon() {
    let deep = "[".repeat(10_000);
    assert!(
        to("JsonArray", json!(deep))
            .unwrap_err()
            .to_string()
            .contains("recursion limit")
    );
    let long = format!("{{\"a\": \"{}\"", "x".repeat(10 << 20));
    let problem = to("ObjectDictionary", json!(long)).unwrap_err().to_string();
    assert!(problem.len() < 300, "{}", problem.len());
}

#[test]
fn forms_of_dotnet_are_read() {
    for (name, text, expected) in [
        ("Int32", "0x1F", json!(31)),
        ("Int32", "&h1f", json!(31)),
        ("Int32", " 3.0 ", json!(3)),
        ("UInt64", "18446744073709551615", json!(u64::MAX)),
        ("Int64", "9007199254740993", json!(9_007_199_254_740_993i64)),
        ("Single", "0.1", json!(0.1)),
        ("Single", "16777217", json!(16_777_216)),
        (
            "Guid",
            "{7D444840-9DC0-11D1-B245-5FFDCE74FAD2}",
            json!("7d444840-9dc0-11d1-b245-5ffdce74fad2"),
        ),
        (
            "Guid",
            "7d4448409dc011d1b2455ffdce74fad2",
            json!("7d444840-9dc0-11d1-b245-5ffdce74fad2"),
        ),
        ("Byte[]", " AQ I=\r\n", json!("AQI=")),
        ("Byte[]", "", json!("")),
        ("DateTime", "2026-01-31 12:00:00", json!("2026-01-31T12:00:00")),
        ("DateTime", "2026-01-31T12:00", json!("2026-01-31T12:00:00")),
        ("DateTime", "01/31/2026 12:00:00.25", json!("2026-01-31T12:00:00.25")),
        (
            "DateTime",
            "Sat, 31 Jan 2026 12:00:00 GMT",
            json!("2026-01-31T12:00:00Z"),
        ),
        (
            "DateTimeOffset",
            "2026-01-31 12:00:00 +05:30",
            json!("2026-01-31T12:00:00+05:30"),
        ),
        ("DateTimeOffset", "01/31/2026", json!("2026-01-31T00:00:00+00:00")),
        (
            "System.Collections.Generic.IDictionary`2[[System.String],[System.Object]]",
            "{\"a\": 1}",
            json!({"a": 1}),
        ),
    ] {
        assert_eq!(to(name, json!(text)).unwrap(), expected, "{name} {text:?}");
    }
    assert_eq!(to("Int32", json!(3.5)).unwrap(), json!(4));
    assert_eq!(
        to("String", json!({"a": "it's <b>é\u{3000}😀"})).unwrap(),
        json!("{\"a\":\"it\\u0027s \\u003Cb\\u003Eé\\u3000\\uD83D\\uDE00\"}")
    );
    assert_eq!(to("String", json!(1e-5)).unwrap(), json!("1E-05"));
    assert_eq!(to("String", json!(1e17)).unwrap(), json!("1E+17"));
    assert_eq!(
        to("String", json!(123_456_789_012_345.0)).unwrap(),
        json!("123456789012345")
    );
}

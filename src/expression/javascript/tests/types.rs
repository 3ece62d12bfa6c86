//! The types of .NET in scripts.

use serde_json::{Value, json};

use crate::expression::declared_kinds::{DeclaredKind, DeclaredKinds};
use crate::expression::script::ScriptScope;
use crate::expression::script_options::ScriptOptions;
use crate::expression::session::ScriptEngine;

#[tokio::test]
async fn types_of_dotnet_have_the_members_that_people_use() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    let session = engine.session();
    let mut wrong = Vec::new();
    let cases: &[(&str, Value)] = &[
        ("TimeSpan.FromMinutes(5)", json!("00:05:00")),
        ("TimeSpan.FromMinutes(90).TotalHours", json!(1.5)),
        (
            "timeSpan = TimeSpan.fromDays(1.5), timeSpan.days + ' ' + timeSpan.hours",
            json!("1 12"),
        ),
        ("new TimeSpan(1, 30, 0) + ''", json!("01:30:00")),
        ("`${new TimeSpan(1, 2, 3, 4, 5)}`", json!("1.02:03:04.0050000")),
        (
            "TimeSpan.Parse('-1.02:03:04.5').ToString()",
            json!("-1.02:03:04.5000000"),
        ),
        ("TimeSpan.Parse('12').TotalDays", json!(12)),
        (
            "TimeSpan.FromSeconds(1).Add(TimeSpan.FromSeconds(2)).CompareTo(TimeSpan.FromSeconds(3))",
            json!(0),
        ),
        ("TimeSpan.FromSeconds(1) < TimeSpan.FromSeconds(2)", json!(true)),
        ("new DateTime(2026, 1, 31)", json!("2026-01-31T00:00:00Z")),
        (
            "new DateTime(2026, 1, 31, 14, 5, 6).AddMonths(1).ToString('yyyy-MM-dd HH:mm')",
            json!("2026-02-28 14:05"),
        ),
        ("new DateTime(2026, 1, 31).AddDays(1).DayOfWeek", json!(0)),
        (
            "new DateTime(2026, 1, 31).ToString('dddd, d MMMM yyyy')",
            json!("Saturday, 31 January 2026"),
        ),
        (
            "new DateTime(2026, 1, 31, 14, 0, 0).ToString(\"h:mm tt 'Uhr' o\")",
            json!("2:00 PM Uhr o"),
        ),
        (
            "DateTime.Parse('01/31/2026 14:30').ToString('o')",
            json!("2026-01-31T14:30:00.0000000Z"),
        ),
        (
            "DateTime.UtcNow.Year > 2025 && DateTime.UtcNow instanceof Date",
            json!(true),
        ),
        (
            "new DateTime(2026, 2, 1).Subtract(new DateTime(2026, 1, 31)).TotalHours",
            json!(24),
        ),
        ("new DateTime(2026, 1, 31).getFullYear()", json!(2026)),
        ("new DateTime(2024, 12, 31).DayOfYear", json!(366)),
        ("DateTime.DaysInMonth(2024, 2)", json!(29)),
        (
            "DateTimeOffset.Parse('2026-01-31T12:00:00+02:00')",
            json!("2026-01-31T12:00:00+02:00"),
        ),
        (
            "DateTimeOffset.Parse('2026-01-31T12:00:00.25+02:00').AddHours(1)",
            json!("2026-01-31T13:00:00.25+02:00"),
        ),
        (
            "DateTimeOffset.Parse('2026-01-31T12:00:00+02:00').ToString('HH:mm zzz')",
            json!("12:00 +02:00"),
        ),
        (
            "DateTimeOffset.Parse('2026-01-31T12:00:00+02:00').UtcDateTime",
            json!("2026-01-31T10:00:00Z"),
        ),
        (
            "DateTimeOffset.Parse('2026-01-31T12:00:00+02:00').ToUniversalTime().ToString('R')",
            json!("Sat, 31 Jan 2026 10:00:00 GMT"),
        ),
        (
            "new DateTimeOffset(2026, 1, 31, 12, 0, 0, TimeSpan.FromHours(-5)).Offset",
            json!("-05:00:00"),
        ),
        (
            "new DateTimeOffset(2026, 1, 31, 12, 0, 0, TimeSpan.FromHours(-5)).getTime()",
            json!(1_769_878_800_000_i64),
        ),
        (
            "DateTimeOffset.FromUnixTimeSeconds(0)",
            json!("1970-01-01T00:00:00+00:00"),
        ),
        ("DateTimeOffset.UtcNow.AddDays(1) > DateTimeOffset.UtcNow", json!(true)),
        (
            "Guid.Parse('{6F9619FF-8B86-D011-B42D-00CF4FC964FF}')",
            json!("6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ),
        (
            "Guid.NewGuid().ToString('N').length + Guid.NewGuid().toString().length",
            json!(68),
        ),
        ("Guid.Empty", json!("00000000-0000-0000-0000-000000000000")),
        ("const n = new Random().Next(1, 3); n === 1 || n === 2", json!(true)),
        ("Random.Shared.NextDouble() < 1", json!(true)),
        ("LogPersistenceMode.Include", json!("Include")),
        (
            "({span: TimeSpan.Zero, list: [Guid.Empty]})",
            json!({"span": "00:00:00", "list": ["00000000-0000-0000-0000-000000000000"]}),
        ),
        ("new Date(0)", json!("1970-01-01T00:00:00Z")),
        ("new Date(1120)", json!("1970-01-01T00:00:01.12Z")),
        (
            "toJson({a: 'it\\'s <é😀> \\\"q\\\" \\\\ \\n', u: undefined, n: 1e21, big: [1e17, -1e16], s: 1e-7, t0: 0.00002, d: new Date(0), t: TimeSpan.Zero})",
            json!(
                r#"{"a":"it\u0027s \u003Cé\uD83D\uDE00\u003E \u0022q\u0022 \\ \n","u":null,"n":1E+21,"big":[1E+17,-10000000000000000],"s":1E-07,"t0":2E-05,"d":"1970-01-01T00:00:00Z","t":"00:00:00"}"#
            ),
        ),
    ];
    for (script, expected) in cases {
        match session.evaluate(script, ScriptScope::default()).await {
            Ok(result) if result.value == *expected => {}
            other => wrong.push(format!("{script}: {:?}", other.map(|it| it.value))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn what_is_no_value_of_a_type_is_an_error_that_says_so() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    let session = engine.session();
    for (script, part) in [
        ("new TimeSpan('x')", "TimeSpan expects a number, not x"),
        ("TimeSpan.Parse('soon')", "\"soon\" is not a TimeSpan"),
        ("TimeSpan.FromDays(1e9)", "at most"),
        ("Guid.Parse('')", "\"\" is not a Guid"),
        ("new DateTime(0, 1, 1)", "there is no such date"),
        ("new DateTime(10000, 1, 1)", "there is no such date"),
        ("new DateTime(2026, 2, 30)", "there is no such date"),
        ("DateTime.MaxValue.AddDays(1)", "the years 1 to 9999"),
        ("DateTime.Parse('99/99/2026')", "is not a date and time"),
        (
            "new DateTimeOffset(2026, 1, 1, 0, 0, 0, TimeSpan.FromHours(99))",
            "at most 14 hours",
        ),
        ("DateTime.UtcNow.ToString('q')", "is not a format"),
        ("TimeSpan.FromMinutes = 1", "shared by all scripts"),
        ("DateTime.prototype.AddDays = 1", "shared by all scripts"),
    ] {
        let error = session.evaluate(script, ScriptScope::default()).await.unwrap_err();
        assert!(error.message.contains(part), "{script}: {error:?}");
    }
    let after = session
        .evaluate("DateTime.UtcNow.AddDays(1) > new Date()", ScriptScope::default())
        .await;
    assert_eq!(after.unwrap().value, json!(true), "an earlier script has left nothing");
}

/// A scope of one variable of each kind, as an instance has them.
fn declared() -> ScriptScope {
    let variables = json!({
        "When": "2026-01-31T12:00:00.1234567",
        "Zoned": "2026-01-31T12:00:00.5+02:00",
        "Span": "01:30:00",
        "Raw": "aGk=",
        "Days": ["2026-01-31T00:00:00Z", null],
        "Broken": "soon",
        "Longest": "10675199.02:48:05.4775807",
        "Odd": ["2026-01-31T00:00:00Z", {"n": 9007199254740993i64}],
        "Far": "0001-01-01T00:00:00+02:00",
        "Loose": "AQ ID",
        "Nested": {"n": 2.0},
    });
    let kind = |name: &str, kind, is_list| (name.to_owned(), (kind, is_list));
    let kinds = vec![
        kind("When", DeclaredKind::Date, false),
        kind("Zoned", DeclaredKind::DateWithOffset, false),
        kind("Span", DeclaredKind::TimeSpan, false),
        kind("Raw", DeclaredKind::Bytes, false),
        kind("Days", DeclaredKind::Date, true),
        kind("Broken", DeclaredKind::Date, false),
        kind("Longest", DeclaredKind::TimeSpan, false),
        kind("Odd", DeclaredKind::Date, true),
        kind("Far", DeclaredKind::Date, false),
        kind("Loose", DeclaredKind::Bytes, false),
        kind("Nested", DeclaredKind::Decimal, false),
    ];
    ScriptScope {
        variables: variables.as_object().cloned().unwrap(),
        inputs: json!({"due": "2026-01-31T12:00:00+01:00"})
            .as_object()
            .cloned()
            .unwrap(),
        kinds: DeclaredKinds::new(kinds, vec![kind("due", DeclaredKind::DateWithOffset, false)]),
        ..ScriptScope::default()
    }
}

#[tokio::test]
async fn a_declared_type_makes_a_date_of_a_text() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    let session = engine.session();
    let cases: &[(&str, Value)] = &[
        (
            "getWhen() instanceof Date && getWhen().getUTCMilliseconds()",
            json!(123),
        ),
        ("getWhen()", json!("2026-01-31T12:00:00.123Z")),
        (
            "getZoned().Offset.TotalHours + ' ' + getZoned().toISOString()",
            json!("2 2026-01-31T10:00:00.500Z"),
        ),
        ("variables.Zoned", json!("2026-01-31T12:00:00.5+02:00")),
        ("getSpan().TotalMinutes + ' ' + getSpan()", json!("90 01:30:00")),
        ("getRaw() instanceof Uint8Array && bytesToString(getRaw())", json!("hi")),
        ("getDays()[0].getFullYear() + ' ' + getDays()[1]", json!("2026 null")),
        ("getBroken()", json!("soon")),
        (
            "[getLongest(), getOdd(), getFar(), getLoose(), getNested()].length",
            json!(5),
        ),
        ("getdue().getUTCHours() + getInput('due').getUTCHours()", json!(22)),
    ];
    for (script, expected) in cases {
        let result = session.evaluate(script, declared()).await.unwrap();
        assert_eq!(result.value, *expected, "{script}");
        assert!(result.changes.variables.is_empty(), "{script}: {:?}", result.changes);
    }
}

#[tokio::test]
async fn a_date_that_a_script_changes_in_place_is_written() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    let session = engine.session();
    let cases: &[(&str, &str, Value)] = &[
        ("getWhen().setUTCDate(2)", "When", json!("2026-01-02T12:00:00.123Z")),
        (
            "getZoned().setUTCHours(1)",
            "Zoned",
            json!("2026-01-31T03:00:00.5+02:00"),
        ),
        ("getRaw()[0] = 72", "Raw", json!("SGk=")),
        (
            "getDays()[0].setUTCFullYear(2027)",
            "Days",
            json!(["2027-01-31T00:00:00Z", null]),
        ),
        ("setWhen(getWhen())", "When", json!("2026-01-31T12:00:00.123Z")),
    ];
    for (script, name, expected) in cases {
        let result = session.evaluate(script, declared()).await.unwrap();
        assert_eq!(
            result.changes.variables,
            [((*name).to_owned(), expected.clone())],
            "{script}"
        );
    }
}

//! Regular expressions that would take much time or memory in one operation, which nothing interrupts.

use super::{Fixture, bounds, compile, on_stack};
use crate::{Bounds, StopKind};

/// What a script comes to with so many steps and bytes.
fn run(text: &str, steps: u64, bytes: usize) -> Result<String, (StopKind, String)> {
    let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    let bounds = || Bounds {
        steps,
        bytes,
        ..bounds()
    };
    on_stack(|| match script.run(&Fixture::new(), bounds()) {
        Ok(outcome) => Ok(outcome.value.to_string()),
        Err(stop) => Err((stop.kind, stop.message.clone())),
    })
}

#[test]
fn one_search_is_bounded_by_the_text_and_the_pattern() {
    for (length, pattern) in [
        (20_000, "(?:a?){400}a{400}b".to_owned()),
        (2_000, "(?:a?){9000}b".to_owned()),
        (1_000, format!("(?:{}){{100}}b", "(a?)".repeat(48))),
        (20_000, format!("{}b", "a*".repeat(1_000))),
    ] {
        for call in ["IsMatch(s, p)", "Matches(s, p)", "Replace(s, p, \"\")", "Split(s, p)"] {
            let text = format!("var s = new string('a', {length}); var p = \"{pattern}\"; return Regex.{call};");
            // The steps and bytes of the engine bound nothing here.
            let (kind, message) = run(&text, u64::MAX, usize::MAX).unwrap_err();
            assert_eq!(kind, StopKind::Thrown, "{pattern}");
            assert!(message.contains("RegexMatchTimeoutException"), "{message}");
        }
    }
}

/// Patterns that people write search long texts.
#[test]
fn usual_patterns_search_long_texts() {
    for (pattern, count) in [
        (r"\w+@\w+\.\w+", 2_000),
        (r"^(?<name>[\w.+-]+)@(?<host>[\w-]+(?:\.[\w-]+)+)", 1),
        (r"(\d{4})-(\d{2})-(\d{2})(T(\d{2}):(\d{2}))?", 2_000),
        (r"(?i)\b(error|warning|info)\b", 2_000),
    ] {
        let text = format!(
            "var s = string.Concat(Enumerable.Repeat(\"ada@example.org 2026-01-31T12:00 Error \", 2000)); \
             return Regex.Matches(s, @\"{pattern}\").Count;"
        );
        assert_eq!(run(&text, 50_000_000, 64 << 20), Ok(count.to_string()), "{pattern}");
    }
}

#[test]
fn what_compiles_slowly_is_counted_or_refused() {
    let ranges = |count: usize| "[ -\u{ffff}]".repeat(count);
    let ignore = |pattern: String| format!("return Regex.IsMatch(\"a\", @\"{pattern}\", RegexOptions.IgnoreCase);");
    let refused = run(&ignore(ranges(100)), u64::MAX, usize::MAX).unwrap_err();
    assert!(refused.1.contains("too many classes"), "{refused:?}");
    let refused = run(&ignore(r"[\w]".repeat(1_000)), u64::MAX, usize::MAX).unwrap_err();
    assert!(refused.1.contains("too many classes"), "{refused:?}");
    // One with `(?i)` counts as much.
    let inline = format!("return Regex.IsMatch(\"a\", @\"(?i){}\");", ranges(50));
    for text in [ignore(ranges(50)), inline] {
        assert_eq!(run(&text, 100_000, usize::MAX).unwrap_err().0, StopKind::Steps);
    }
    // Many patterns in a loop, of which each is compiled.
    let text = "var n = 0; for (var i = 0; i < 500; i++) { if (Regex.IsMatch(\"a\", @\"(?i)[\\w.]\" + i)) { n++; } } return n;";
    assert_eq!(run(text, 200_000, usize::MAX).unwrap_err().0, StopKind::Steps);
}

#[test]
fn replacements_and_groups_are_counted_before_they_are_made() {
    for text in [
        // Each `$0` is the whole text.
        "var s = new string('a', 1000000); return Regex.Replace(s, \"a+\", string.Concat(Enumerable.Repeat(\"$0\", 100000))).Length;",
        "var s = new string('a', 1000000); return Regex.Replace(s, \"(a)\", new string('x', 100000)).Length;",
        // Each group is the whole text.
        "var s = new string('a', 90000); return Regex.Split(s, new string('(', 45) + \"a+\" + new string(')', 45)).Length;",
    ] {
        assert_eq!(run(text, u64::MAX, 3 << 20).unwrap_err().0, StopKind::Memory, "{text}");
    }
    // Many references to a group without text take steps.
    let text = "var r = string.Concat(Enumerable.Repeat(\"$1\", 1000)); \
                return Regex.Replace(new string('a', 10000), \"()a\", r).Length;";
    assert_eq!(run(text, 1_000_000, usize::MAX).unwrap_err().0, StopKind::Steps);
    // A brace that is not closed is searched in the next bytes only.
    let text =
        "var r = string.Concat(Enumerable.Repeat(\"${\", 100000)); return Regex.Replace(\"a\", \"a\", r).Length;";
    assert_eq!(run(text, 1_000_000, 64 << 20), Ok("200000".to_owned()));
}

//! Random texts: the parser and the checker end without a panic, and so do the scripts that they accept.

use proptest::prelude::*;

use super::{Fixture, compile, on_stack};
use crate::Bounds;

/// Parts of which scripts are made.
const PARTS: &[&str] = &[
    "Variables",
    "Variable",
    ".",
    "Count",
    "Name",
    "Items",
    "Numbers",
    "Order",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    "=",
    "==",
    "=>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "??",
    "?.",
    "?",
    ":",
    "!",
    "<",
    ">",
    "&&",
    "||",
    "\"a\"",
    "$\"{1:N2}\"",
    "$\"{",
    "}\"",
    "'c'",
    "1",
    "2.5",
    "3m",
    "4L",
    "null",
    "true",
    "new",
    "List<int>",
    "x",
    "x => x",
    "return",
    "var",
    "int",
    "if",
    "else",
    "foreach",
    "in",
    "for",
    "while",
    "is",
    "as",
    "switch",
    "_",
    "not",
    "Select",
    "Where",
    "ToList",
    "First",
    "Math.Max",
    "string",
    "DateTime.UtcNow",
    "out",
    "Get<int>",
    "ToString",
    "Length",
    "Sum",
    "++",
    "+=",
    "typeof",
    "await",
    "@",
    "\\",
    "\"",
    "/*",
    "//",
    "\n",
    "é",
    "#",
    "0x",
    "1e",
];

fn run(text: &str) {
    let Ok(script) = compile(text) else {
        return;
    };
    let bounds = || Bounds {
        steps: 5_000,
        bytes: 1 << 20,
        result_bytes: 1 << 16,
        caller: None,
    };
    drop(on_stack(|| script.run(&Fixture::new(), bounds())));
}

/// The rules, as seeds.
fn seeds() -> Vec<&'static str> {
    let rules = include_str!("rules.txt").lines();
    rules
        .filter_map(|line| line.split_once(" ==> ").map(|(text, _)| text))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_parts_do_no_harm(parts in prop::collection::vec(prop::sample::select(PARTS), 0..40), blank in any::<bool>()) {
        run(&parts.join(if blank { " " } else { "" }));
    }

    #[test]
    fn random_texts_do_no_harm(text in ".{0,80}") {
        run(&text);
    }

    #[test]
    fn changed_rules_do_no_harm(
        seed in prop::sample::select(seeds()),
        with in prop::sample::select(PARTS),
        at in 0usize..200,
        cut in 0usize..6,
    ) {
        let chars: Vec<char> = seed.chars().collect();
        let at = at.min(chars.len());
        let end = (at + cut).min(chars.len());
        let text: String = chars[..at].iter().chain(&with.chars().collect::<Vec<_>>()).chain(&chars[end..]).collect();
        run(&text);
    }
}

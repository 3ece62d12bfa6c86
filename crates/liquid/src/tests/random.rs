//! Random templates: no panic, no hang, nothing beyond the bounds.

use proptest::prelude::*;

use super::{Data, LIMITS};
use crate::Template;

const PARTS: [&str; 64] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "-%}",
    "{{-",
    " ",
    "\n",
    "|",
    ":",
    ",",
    ".",
    "..",
    "[",
    "]",
    "(",
    ")",
    "==",
    "!=",
    "<",
    ">=",
    "if ",
    "endif ",
    "else ",
    "elsif ",
    "for ",
    "in ",
    "endfor ",
    "case ",
    "when ",
    "endcase ",
    "assign ",
    "x",
    "= ",
    "capture ",
    "endcapture ",
    "raw ",
    "endraw ",
    "comment ",
    "endcomment ",
    "liquid ",
    "cycle ",
    "increment ",
    "limit:",
    "offset:continue ",
    "reversed ",
    "Variables.Words",
    "Variables.Text",
    "Variables.Many",
    "forloop.index",
    "upcase",
    "split: \"\"",
    "append: x",
    "join: x",
    "sort",
    "date: \"%Y\"",
    "\"a\"",
    "'",
    "\\",
    "1",
    "-2.5",
    "99999999999",
    "é",
    "😀",
];

/// Texts that are templates more often than not.
const PIECES: [&str; 14] = [
    "{{ x }}",
    "{% assign x = Variables.Text | append: x %}",
    "{% assign x = Variables.Words | concat: Variables.Many %}",
    "{% for i in (1..50) %}",
    "{% for i in Variables.Many %}",
    "{% endfor %}",
    "{% if x contains \"a\" %}",
    "{% endif %}",
    "{% capture x %}",
    "{% endcapture %}",
    "{{ x | json | escape | url_encode }}",
    "{{ x | split: \"\" | reverse | uniq | sort | join: x }}",
    "{{ Variables.Items | map: \"Name\" | sort_natural }}",
    "{% cycle x, i %}",
];

/// What formats, and texts of dates, are made of.
const MARKS: [&str; 40] = [
    "0", "#", ".", ",", "%", "‰", ";", "'", "E", "e", "+", "-", "E+00", "e0", "G", "F", "C", "P", "N", "99", "3", "T",
    "Z", ":", "/", " ", "GMT", "Jan", "Sat", "PM", "2026", "31", "yyyy", "MM", "FFF", "ff", "z", "tt", "K", "é",
];

const NUMBERS: [&str; 10] = [
    "0",
    "0.00",
    "1",
    "-0.5",
    "0.0000000000000000000000000001",
    "-1234.5678",
    "999.995",
    "79228162514264337593543950335",
    "-79228162514264337593543950335",
    "1769864709",
];

fn check(text: &str) {
    let Ok(template) = Template::parse(text) else { return };
    if let Ok(text) = template.render(&Data::new(), LIMITS) {
        assert!(text.len() <= LIMITS.output);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_template_or_an_error(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn any_parts_are_a_template_or_an_error(parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..60)) {
        check(&parts.concat());
    }

    #[test]
    fn any_format_of_a_number_or_a_date_is_a_text_or_an_error(
        marks in prop::collection::vec(prop::sample::select(MARKS.to_vec()), 0..12),
        number in prop::sample::select(NUMBERS.to_vec()),
    ) {
        let format = marks.concat().replace('\'', "\\'");
        for filters in [
            format!("{number} | format_number: '{format}'"),
            format!("{number} | format_date: '{format}'"),
            format!("'{format}' | date: '%F %T %z'"),
            format!("'{format}' | format_string: {number}"),
        ] {
            check(&format!("{{{{ {filters} }}}}"));
        }
    }

    #[test]
    fn any_pieces_stay_within_the_bounds(parts in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24)) {
        check(&parts.concat());
    }
}

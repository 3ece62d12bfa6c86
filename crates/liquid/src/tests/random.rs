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
    fn any_pieces_stay_within_the_bounds(parts in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24)) {
        check(&parts.concat());
    }
}

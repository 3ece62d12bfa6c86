//! What Fluid gives, rule by rule.

use super::rendered;

const TABLE: &str = include_str!("fluid.tsv");

#[test]
fn templates_give_what_fluid_gives() {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows {
        let fields: Vec<&str> = row.split('\t').collect();
        let [rule, template, expected] = fields.as_slice() else {
            panic!("a row has three fields: {row}");
        };
        count += 1;
        let given = rendered(&plain(template));
        if given.as_ref().ok() != Some(&plain(expected)) {
            wrong.push(format!("{rule}: {template} gives {given:?}, not {expected:?}"));
        }
    }
    assert!(count >= 200, "{count} rows");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// As in Fluid, a number or a date is read in any amount of white space.
#[test]
fn white_space_around_a_number_or_a_date_says_nothing() {
    let blanks = " \t\n".repeat(1_000);
    for (template, expected) in [
        ("{{ x | plus: 1 }}", "8"),
        ("{{ 1 | times: x }}", "7"),
        ("{% if 7 == x %}same{% endif %}", "same"),
        ("{% if 8 > x %}more{% endif %}", "more"),
        ("{{ 'abcdefghij' | slice: x }}", "h"),
        ("{{ Variables.Words[y] }}", "A"),
        ("{{ z | date: '%d' }}", "31"),
        ("{{ z | format_date: 'yyyy' }}", "2026"),
    ] {
        let given = |name: &str, text: &str| format!("{{% assign {name} = '{blanks}{text}{blanks}' %}}");
        let given = given("x", "7") + &given("y", "1") + &given("z", "2026-01-31");
        assert_eq!(rendered(&(given + template)).as_deref(), Ok(expected), "{template}");
    }
}

fn plain(field: &str) -> String {
    let escaped = field.replace("\\\\", "\u{1}");
    let shown = escaped.replace("\\n", "\n").replace("\\t", "\t").replace("\\_", " ");
    shown.replace('\u{1}', "\\")
}

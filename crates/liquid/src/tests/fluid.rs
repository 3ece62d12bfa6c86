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

fn plain(field: &str) -> String {
    let escaped = field.replace("\\\\", "\u{1}");
    let shown = escaped.replace("\\n", "\n").replace("\\t", "\t").replace("\\_", " ");
    shown.replace('\u{1}', "\\")
}

//! The outcomes of ASP.NET Core, one for each line of `cases.tsv`.

use super::{path, table, template};
use crate::{Lookup, RouteValues};

fn shown(values: &RouteValues<'_>) -> String {
    let pairs = values
        .iter()
        .map(|(name, value)| format!("{name}={}", value.unwrap_or("(null)").replace('\n', "\\n")));
    pairs.collect::<Vec<_>>().join(", ")
}

#[test]
fn routes_are_chosen_as_asp_net_core_chooses_them() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("cases.tsv").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [sources, raw, expected, source] = columns[..] else {
            panic!("four columns: {line}");
        };
        assert!(!source.is_empty(), "{line}");
        count += 1;
        let sources: Vec<&str> = sources.split(" && ").collect();
        let table = table(sources.iter().copied());
        let path = path(raw);
        let outcome = match table.lookup(&path, "GET") {
            Lookup::Found(routes) => match routes[..] {
                [route] => {
                    let values = shown(&route.template().values(&path));
                    // A template says the same by itself.
                    assert_eq!(
                        route.template().matches(&path).map(|values| shown(&values)).as_ref(),
                        Some(&values)
                    );
                    let colon = if values.is_empty() { "" } else { ": " };
                    format!("{}{colon}{values}", route.value())
                }
                _ => "ambiguous".into(),
            },
            Lookup::OtherMethods(_) => "405".into(),
            Lookup::NotFound => {
                assert!(
                    sources.iter().all(|source| template(source).matches(&path).is_none()),
                    "{line}"
                );
                "-".into()
            }
        };
        if outcome != expected {
            wrong.push(format!("{line}\n    is {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 180, "{count} cases");
}

#[test]
fn precedence_is_written_as_asp_net_core_writes_it() {
    for (source, precedence) in [
        ("api/template", "1.1"),
        ("api/template/{id}", "1.13"),
        ("api/{id:int}", "1.2"),
        ("api/template/{id:int}", "1.12"),
        ("{a}.{b}/{c?}/{*d:int}", "2.34"),
        ("{*d}", "5"),
        ("", "0"),
    ] {
        assert_eq!(template(source).precedence().to_string(), precedence, "{source}");
    }
    let longest = "{a}/".to_owned() + &"a/".repeat(27);
    let all = format!("3.{}", "1".repeat(27));
    assert_eq!(template(&longest).precedence().to_string(), all);
}

#[test]
fn values_have_names_of_any_case() {
    let template = template("a/{Ünïque}/{*rest}");
    let path = path("/a/1");
    let values = template.matches(&path).unwrap();
    assert_eq!(values.get("üNÏQUE"), Some("1"));
    assert_eq!((values.get("rest"), values.get("other")), (None, None));
    assert_eq!(template.parameters().collect::<Vec<_>>(), ["Ünïque", "rest"]);
}

//! Random templates and paths: no text panics, and a table finds what a plain search over all templates finds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::{Lookup, Methods, RequestPath, Route, RouteId, RouteTable, Template};

/// Segments, in which `%` becomes a number, so that no name is there twice.
const SEGMENTS: [&str; 26] = [
    "a",
    "b",
    "A",
    "é",
    "1",
    "a.b",
    "{p%}",
    "{p%}",
    "{p%?}",
    "{p%=1}",
    "{p%:int}",
    "{p%:int?}",
    "{p%:int=x}",
    "{p%:min(2)}",
    "{p%:alpha}",
    "{p%:required}",
    "{p%:regex(^[ab]$)}",
    "{*p%}",
    "{**p%}",
    "{*p%:int}",
    "{*p%:nonfile}",
    "{*p%=x}",
    "v{p%}",
    "{p%}.{q%?}",
    "{p%}.{q%}",
    "{p%:int}-{q%:int}",
];

const PATH_SEGMENTS: [&str; 16] = [
    "a", "b", "A", "É", "1", "7", "v1", "V", "a.b", "a.", ".", "..", "3-4", "", "%61", "x%2Fy",
];

const METHODS: [&[&str]; 5] = [&[], &[], &["GET"], &["POST"], &["GET", "POST"]];

/// Parts of templates, good and bad ones.
const PARTS: [&str; 30] = [
    "{", "}", "{{", "}}", "/", "a", "name", ":", "=", "?", "*", "**", "(", ")", ",", "int", "regex(", "range(", "1",
    "-", ".", "..", "~/", "\\d", "[", "+", "é", "%2F", "%C3", "\u{1}",
];

fn sources() -> impl Strategy<Value = String> {
    prop::collection::vec(select(&SEGMENTS[..]), 0..5).prop_map(|segments| {
        let numbered = segments
            .iter()
            .enumerate()
            .map(|(at, segment)| segment.replace('%', &at.to_string()));
        numbered.collect::<Vec<_>>().join("/")
    })
}

fn paths() -> impl Strategy<Value = String> {
    let segments = prop::collection::vec(select(&PATH_SEGMENTS[..]), 0..6);
    segments.prop_map(|segments| format!("/{}", segments.join("/")))
}

fn routes() -> impl Strategy<Value = Vec<(String, &'static [&'static str])>> {
    prop::collection::vec((sources(), select(&METHODS[..])), 1..40)
}

/// The ids of the routes that are found, or the methods that are allowed.
type Outcome = (Vec<usize>, BTreeSet<String>);

fn of_table(table: &RouteTable<usize>, path: &RequestPath<'_>, method: &str) -> Outcome {
    match table.lookup(path, method) {
        Lookup::Found(routes) => (routes.iter().map(|route| *route.value()).collect(), BTreeSet::new()),
        Lookup::OtherMethods(others) => (Vec::new(), others.into_iter().map(str::to_owned).collect()),
        Lookup::NotFound => (Vec::new(), BTreeSet::new()),
    }
}

/// All templates, sorted by precedence: the first that matches and has the method, and those that are equal to it.
fn of_plain_search(table: &RouteTable<usize>, path: &RequestPath<'_>, method: &str) -> Outcome {
    let mut matching: Vec<&Route<usize>> = table
        .iter()
        .filter(|route| route.template().matches(path).is_some())
        .collect();
    matching.sort_by_key(|route| (route.template().precedence(), route.methods().is_any(), *route.value()));
    let has = |route: &Route<usize>| route.methods().is_any() || route.methods().iter().any(|known| known == method);
    let rank = |route: &Route<usize>| (route.template().precedence(), route.methods().is_any());
    match matching.iter().find(|route| has(route)) {
        Some(best) => {
            let equal = matching.iter().filter(|route| has(route) && rank(route) == rank(best));
            (equal.map(|route| *route.value()).collect(), BTreeSet::new())
        }
        None => {
            let methods = matching.iter().flat_map(|route| route.methods().iter());
            (Vec::new(), methods.map(str::to_owned).collect())
        }
    }
}

/// Inserts a route whose value is its number among all that were inserted.
fn inserted(table: &mut RouteTable<usize>, source: &str, methods: &[&str]) -> Option<RouteId> {
    let template = Template::parse(source).ok()?;
    let methods = Methods::of(methods.iter().copied()).unwrap();
    let next = table.iter().map(|route| route.value() + 1).max().unwrap_or(0);
    Some(table.insert(template, methods, next))
}

fn agree(table: &RouteTable<usize>, raws: &[String]) -> Result<(), TestCaseError> {
    for raw in raws {
        let path = RequestPath::parse(raw).unwrap();
        for method in ["GET", "PUT"] {
            prop_assert_eq!(
                of_table(table, &path, method),
                of_plain_search(table, &path, method),
                "{}",
                raw
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_finds_what_a_plain_search_finds(
        routes in routes(),
        raws in prop::collection::vec(paths(), 1..12),
        removed in subsequence((0..40_usize).collect::<Vec<_>>(), 0..20),
    ) {
        let mut table = RouteTable::new();
        let mut ids = Vec::new();
        for (source, methods) in &routes {
            ids.extend(inserted(&mut table, source, methods));
        }
        agree(&table, &raws)?;
        for at in &removed {
            if let Some(id) = ids.get(*at) {
                prop_assert!(table.remove(*id).is_some());
            }
        }
        agree(&table, &raws)?;
        // Others take their places.
        for (source, methods) in routes.iter().rev().take(removed.len()) {
            ids.extend(inserted(&mut table, source, methods));
        }
        agree(&table, &raws)?;
        for id in ids {
            table.remove(id);
        }
        prop_assert!(table.is_empty() && table.has_no_nodes());
    }

    #[test]
    fn a_visit_gives_all_routes_in_the_order_of_their_precedence(
        routes in routes(),
        raws in prop::collection::vec(paths(), 1..12),
    ) {
        let mut table = RouteTable::new();
        for (source, methods) in &routes {
            inserted(&mut table, source, methods);
        }
        for raw in &raws {
            let path = RequestPath::parse(raw).unwrap();
            let mut seen: Vec<(_, _)> = Vec::new();
            table.visit(&path, "GET", |routes| {
                seen.extend(routes.iter().map(|route| (route.template().precedence(), *route.value())));
                false
            });
            let has = |route: &Route<usize>| route.methods().iter().any(|known| known == "GET");
            let matching = || table.iter().filter(|route| route.template().matches(&path).is_some());
            let named: BTreeSet<_> = matching().filter(|route| has(route)).map(|route| route.template().precedence()).collect();
            // A route for any method is left out where one of the same precedence has the method.
            let given = matching().filter(|route| {
                has(route) || route.methods().is_any() && !named.contains(&route.template().precedence())
            });
            let mut expected: Vec<_> = given.map(|route| (route.template().precedence(), *route.value())).collect();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected, "{}", raw);
        }
    }

    #[test]
    fn a_path_leads_to_each_template_that_it_matches(source in sources(), raws in prop::collection::vec(paths(), 1..30)) {
        let Ok(template) = Template::parse(&source) else { return Ok(()) };
        for raw in &raws {
            let path = RequestPath::parse(raw).unwrap();
            let matches = template.matches(&path).is_some();
            prop_assert!(!matches || path.anchors().contains(&template.anchor()), "{} {}", source, raw);
            if template.is_literal() {
                prop_assert_eq!(matches, path.shape() == Some(template.shape()), "{} {}", source, raw);
            }
        }
    }

    #[test]
    fn templates_that_match_a_path_in_common_have_one_outline_and_are_found_to(
        first in sources(),
        second in sources(),
        raws in prop::collection::vec(paths(), 1..30),
    ) {
        let (Ok(one), Ok(two)) = (Template::parse(&first), Template::parse(&second)) else { return Ok(()) };
        let is_match = |raw: &str| {
            let path = RequestPath::parse(raw).unwrap();
            one.matches(&path).is_some() && two.matches(&path).is_some()
        };
        if one.precedence() != two.precedence() {
            prop_assert_eq!(one.common_path(&two), None);
            return Ok(());
        }
        let common = one.common_path(&two);
        if let Some(raw) = &common {
            prop_assert!(is_match(raw), "{} {} {}", first, second, raw);
        }
        for raw in raws.iter().filter(|raw| is_match(raw)) {
            prop_assert!(common.is_some(), "{} {} {}", first, second, raw);
            match (one.outline(), two.outline()) {
                (None, None) => prop_assert_eq!(one.shape(), two.shape()),
                (one, two) => prop_assert_eq!(one, two, "{} {} {}", first, second, raw),
            }
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,40}", parts in prop::collection::vec(select(&PARTS[..]), 0..25)) {
        for text in [text, parts.concat()] {
            match Template::parse(&text) {
                Ok(template) => {
                    prop_assert!(template.shape().len() <= 2_100);
                    let raw = format!("/{}", text.replace(['?', '#'], ""));
                    if let Ok(path) = RequestPath::parse(&raw) {
                        let _values = template.matches(&path);
                    }
                }
                Err(error) => {
                    prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}: {}", text, error);
                    prop_assert!(!error.message.is_empty());
                }
            }
        }
    }

    #[test]
    fn no_path_panics(raw in "/(\\PC|%[0-9A-Fa-f]{2}|/|\\.){0,40}") {
        if let Ok(path) = RequestPath::parse(&raw) {
            prop_assert!(path.as_str().len() <= raw.len());
            // What is decoded is a path again, and has no dots left.
            let again = path.as_str().split('/').filter(|segment| matches!(*segment, "." | "..")).count();
            prop_assert_eq!(again, 0);
        }
    }
}

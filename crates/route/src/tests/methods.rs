//! Methods, and routes that are removed.

use super::{path, template};
use crate::{Lookup, Methods, RouteId, RouteTable};

fn methods(names: &[&str]) -> Methods {
    Methods::of(names.iter().copied()).unwrap()
}

fn found<'t>(table: &RouteTable<&'t str>, raw: &str, method: &str) -> Vec<&'t str> {
    match table.lookup(&path(raw), method) {
        Lookup::Found(routes) => routes.iter().map(|route| *route.value()).collect(),
        Lookup::OtherMethods(others) => panic!("405: {others:?}"),
        Lookup::NotFound => Vec::new(),
    }
}

#[test]
fn a_known_path_with_another_method_has_the_methods_that_it_allows() {
    let mut table = RouteTable::new();
    table.insert(template("orders/new"), methods(&["get"]), "new");
    table.insert(template("orders/{id:int}"), methods(&["PUT", "DELETE"]), "order");
    table.insert(template("orders/{name}"), methods(&["POST"]), "name");
    assert_eq!(found(&table, "/orders/new", "GET"), ["new"]);
    // As in ASP.NET Core, a worse template that has the method is found.
    assert_eq!(found(&table, "/orders/new", "POST"), ["name"]);
    let Lookup::OtherMethods(allowed) = table.lookup(&path("/orders/7"), "GET") else {
        panic!("405");
    };
    assert_eq!(Vec::from_iter(allowed), ["DELETE", "POST", "PUT"]);
    // The constraint does not allow it, so the methods behind it are not those of this path.
    let Lookup::OtherMethods(allowed) = table.lookup(&path("/orders/x"), "GET") else {
        panic!("405");
    };
    assert_eq!(Vec::from_iter(allowed), ["POST"]);
    assert!(matches!(table.lookup(&path("/other"), "GET"), Lookup::NotFound));
}

#[test]
fn a_route_with_methods_goes_before_one_for_any() {
    let mut table = RouteTable::new();
    table.insert(template("a/{x}"), Methods::any(), "any");
    table.insert(template("a/{y}"), methods(&["GET"]), "get");
    assert_eq!(found(&table, "/a/1", "get"), ["get"]);
    assert_eq!(found(&table, "/a/1", "HEAD"), ["any"]);
    table.insert(template("a/1"), Methods::any(), "literal");
    assert_eq!(found(&table, "/a/1", "GET"), ["literal"]);
}

#[test]
fn equal_routes_are_found_together() {
    let mut table = RouteTable::new();
    table.insert(template("a/{x:int:min(1)}"), methods(&["GET", "PUT"]), "first");
    table.insert(template("A/{y:min(1):int?}"), methods(&["PUT"]), "second");
    table.insert(template("a/{y:int}"), methods(&["PUT"]), "third");
    table.insert(template("a/{x:int:min(1)}"), methods(&["POST"]), "fourth");
    assert_eq!(found(&table, "/a/1", "PUT"), ["first", "second", "third"]);
    assert_eq!(found(&table, "/a", "PUT"), ["second"]);
}

#[test]
fn a_route_that_was_removed_is_found_no_more() {
    let mut table = RouteTable::new();
    let sources = [
        "",
        "a",
        "a/{b?}/{c?}",
        "a/{b:int}",
        "{*a}",
        "{*a:int}",
        "a/{b}.{c}",
        "a/{b?}/{*c}",
    ];
    let ids: Vec<RouteId> = sources
        .iter()
        .map(|source| table.insert(template(source), Methods::any(), *source))
        .collect();
    assert_eq!((table.len(), table.iter().count()), (sources.len(), sources.len()));
    for (id, source) in ids.iter().zip(sources) {
        assert_eq!(table.get(*id).map(|route| *route.value()), Some(source));
        assert_eq!(table.remove(*id), Some(source));
        assert_eq!(table.remove(*id), None);
        assert!(
            !["/", "/a", "/a/1", "/a/1/2", "/a/1.2"]
                .iter()
                .any(|raw| found(&table, raw, "GET").contains(&source))
        );
    }
    assert!(table.is_empty() && table.has_no_nodes());
    let again = table.insert(template("a"), Methods::any(), "again");
    assert!(ids.iter().all(|id| table.get(*id).is_none() && again != *id));
}

#[test]
fn methods_are_checked() {
    assert!(Methods::of(["GET", "M-SEARCH"]).is_ok());
    for wrong in ["", "GET POST", "GÉT", &"A".repeat(33)] {
        let error = Methods::of([wrong]).unwrap_err().to_string();
        assert!(error.contains("no HTTP method"), "{error}");
    }
    let many: Vec<String> = (0..17).map(|n| format!("M{n}")).collect();
    let error = Methods::of(many.iter().map(String::as_str)).unwrap_err().to_string();
    assert!(error.contains("at most 16"), "{error}");
    assert_eq!(
        methods(&["put", "GET", "Put"]).iter().collect::<Vec<_>>(),
        ["GET", "PUT"]
    );
    assert!(methods(&[]).is_any());
}

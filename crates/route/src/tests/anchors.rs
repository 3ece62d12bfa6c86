//! Anchors, and the shapes of paths.

use super::{path, template};
use crate::RequestPath;

#[test]
fn an_anchor_is_the_first_run_of_literals_with_its_place() {
    for (source, anchor) in [
        ("", ""),
        ("{a}/{b}", ""),
        ("{*a}", ""),
        ("Orders/{id}/lines", "0/orders"),
        ("a/B/c", "0/a/b/c"),
        ("{a}/b%20c/{{d}}/{e?}", "1/b c/{d}"),
        ("v{a}/b/{*c}", "1/b"),
    ] {
        assert_eq!(template(source).anchor(), anchor, "{source}");
    }
    let anchors = path("/A/b").anchors();
    assert_eq!(anchors, ["", "0/a", "0/a/b", "1/b"]);
    assert_eq!(path("/").anchors(), [""]);
}

#[test]
fn anchors_are_few_and_short_whatever_the_path_is() {
    let deep = "/a".repeat(4_000);
    assert_eq!(path(&deep).anchors().len(), 407);
    assert_eq!(path(&deep).shape(), None);
    let long = format!(
        "/{}",
        ["x".repeat(1_000), "y".repeat(2_000), "z".repeat(4_000)].join("/")
    );
    let anchors = path(&long).anchors();
    assert!(
        anchors.iter().map(String::len).sum::<usize>() < 10_000,
        "{}",
        anchors.len()
    );
}

#[test]
fn the_shape_of_a_path_is_that_of_its_literal_template() {
    for (raw, source) in [
        ("/Orders/New/", "orders/new"),
        ("/", ""),
        ("", "/"),
        ("/%7Ba%7D", "{{a}}"),
        ("/a%2Fb", "a%2fb"),
        ("/%C3%89", "é"),
    ] {
        assert_eq!(path(raw).shape(), Some(template(source).shape()), "{raw}");
    }
    for raw in ["/a//b", "//", "//a/.."] {
        assert_eq!(path(raw).shape(), None, "{raw}");
    }
}

#[test]
fn the_bytes_of_regular_expressions_are_known() {
    assert_eq!(template("a/{b:int}/{*c}").pattern_bytes(), 0);
    let one = template("{a:regex(^a+$)}").pattern_bytes();
    assert!((1..=1 << 20).contains(&one), "{one}");
    assert_eq!(template("{a:regex(^a+$)}-{b:regex(^a+$)}").pattern_bytes(), 2 * one);
    assert!(RequestPath::parse("/a").is_ok_and(|path| template("{a:regex(^a+$)}").matches(&path).is_some()));
}

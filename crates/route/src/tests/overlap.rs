//! Templates that match a path in common.

use super::{path, template};

/// The path that is found; both orders find one.
fn common(left: &str, right: &str) -> Option<String> {
    let (one, two) = (template(left), template(right));
    let found = one.common_path(&two);
    assert_eq!(two.common_path(&one).is_some(), found.is_some(), "{left} {right}");
    if let Some(raw) = &found {
        for template in [&one, &two] {
            assert!(template.matches(&path(raw)).is_some(), "{left} {right} {raw}");
        }
        let outlines = one.outline().zip(two.outline());
        assert!(outlines.is_none_or(|(one, two)| one == two), "{left} {right}");
    }
    found
}

#[test]
fn bounds_and_types_overlap_where_they_allow_a_common_value() {
    for (left, right, expected) in [
        ("a/{x:int}", "a/{y:min(1)}", Some("/a/1")),
        ("a/{x:int}", "b/{y:int}", None),
        ("{x:int}", "{y:long}", Some("/0")),
        ("{x:int}", "{y:decimal}", Some("/0")),
        ("{x:long:min(3000000000)}", "{y:double}", Some("/3000000000")),
        ("{x:min(3000000000)}", "{y:int}", None),
        ("{x:min(10)}", "{y:max(9)}", None),
        ("{x:min(10)}", "{y:max(10)}", Some("/10")),
        ("{x:range(1,4)}", "{y:range(5,9)}", None),
        ("{x:range(1,5)}", "{y:range(5,9)}", Some("/5")),
        ("{x:range(2,8)}", "{y:range(4,6)}", Some("/4")),
        ("{x:max(-5)}", "{y:int}", Some("/-5")),
        ("{x:length(3)}", "{y:int}", Some("/100")),
        ("{x:length(11)}", "{y:int}", Some("/-2147483648")),
        ("{x:length(11)}", "{y:int:min(0)}", None),
        ("{x:length(20)}", "{y:long}", Some("/-9223372036854775808")),
        ("{x:length(2)}", "{y:range(-5,5)}", Some("/-5")),
        ("{x:length(2)}", "{y:range(0,5)}", None),
        ("{x:length(2,4)}", "{y:minlength(5)}", None),
        ("{x:length(2,5)}", "{y:minlength(5)}", Some("/aaaaa")),
        ("{x:maxlength(2)}", "{y:minlength(3)}", None),
        (
            "{x:minlength(8000)}",
            "{y:maxlength(9000)}",
            Some(&format!("/{}", "a".repeat(8000))),
        ),
        ("{x:minlength(9000)}", "{y:required}", None),
        ("{x:length(0)}", "{y:maxlength(3)}", None),
        ("{x:alpha}", "{y:length(4)}", Some("/aaaa")),
        ("{x:alpha}", "{y:bool}", Some("/true")),
        ("{x:alpha:length(5)}", "{y:bool}", Some("/false")),
        ("{x:alpha}", "{y:int}", None),
        ("{x:int}", "{y:guid}", None),
        ("{x:int}", "{y:bool}", None),
        ("{x:int}", "{y:datetime}", None),
        ("{x:int}", "{y:file}", None),
        ("{x:int}", "{y:nonfile}", Some("/0")),
        ("{x:file}", "{y:nonfile}", None),
        ("{x:file}", "{y:alpha}", None),
        ("{x:file}", "{y:decimal}", Some("/.5")),
        ("{x:file:length(4)}", "{y:required}", Some("/aa.a")),
        (
            "{x:guid}",
            "{y:length(36)}",
            Some("/0f8fad5b-d9cb-469f-a165-70867728950e"),
        ),
        ("{x:guid}", "{y:length(35)}", None),
        ("{x:datetime}", "{y:minlength(1)}", Some("/2024-02-29")),
    ] {
        assert_eq!(common(left, right).as_deref(), expected, "{left} {right}");
    }
}

#[test]
fn all_segments_of_a_path_are_common() {
    for (left, right, expected) in [
        ("{x:int}/{y:int}", "{x:long}/{y:alpha}", None),
        ("{x:int}/b/{y}", "{x:long}/B/{z}", Some("/0/b/0")),
        ("É b/{x:int}", "é%20b/{y:long}", Some("/%C3%A9%20b/0")),
        ("a%2fb/{x:int}", "a%2Fb/{y:long}", Some("/a%2fb/0")),
        // One goes before the other.
        ("a/{x:int}", "a/{y}", None),
        ("a/{x:int}", "a/{*y:int}", None),
        ("a/{x:int?}", "a", None),
        // Of what may be absent from both, nothing is common.
        ("a/{x:int?}", "a/{y:guid?}", Some("/a")),
        ("{x:int?}", "{y:guid=x}", None),
        ("{x:int?}", "{y:guid?}", Some("/")),
        ("a/{x:int?}", "a/{y:guid}", None),
        ("a/{x:int?}", "a/{y:long}", Some("/a/0")),
        ("{*x:int}", "{*y:min(3)}", Some("/3")),
        ("{*x:file}", "{*y:nonfile}", None),
        ("{*x:nonfile}", "{*y:nonfile:nonfile}", Some("/")),
    ] {
        assert_eq!(common(left, right).as_deref(), expected, "{left} {right}");
    }
}

#[test]
fn patterns_and_segments_of_several_parts_are_tried() {
    for (left, right, is_found) in [
        ("{x:regex(^\\d+$)}", "{y:int}", true),
        ("{x:regex(^[[a-z]]+\\d$)}", "{y:int}", false),
        ("{a}.{b}", "{c:minlength(3)}", true),
        ("{a}-{b}", "{c:guid}", true),
        ("{a:int}.{b?}", "{c:int}", true),
        ("v{x}", "{y:int}", false),
        ("v{x}", "{y}.json", true),
        ("{a}.json", "{b}.xml", false),
        ("{a}-{b}", "{c}_{d}", true),
        ("{a:int}-{b:int}", "{c:length(9)}", true),
        ("{a:alpha}x{b:int}", "{c:int}", false),
        // Not found, though `abc` matches both.
        ("{x:regex(^abc$)}", "{y:length(3)}", false),
    ] {
        assert_eq!(common(left, right).is_some(), is_found, "{left} {right}");
    }
}

#[test]
fn an_outline_has_no_constraints() {
    for (source, outline) in [
        ("Orders/{id:int}/{line}", Some("orders/{:}/{}")),
        ("{a}.{b}/{*rest:int}", Some("{:}/{*:}")),
        ("orders/{id}/{*rest}", None),
        ("", None),
    ] {
        assert_eq!(template(source).outline().as_deref(), outline, "{source}");
    }
}

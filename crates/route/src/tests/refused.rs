//! Templates and paths that are none: what the message says, and where.

use std::time::{Duration, Instant};

use super::template;
use crate::{LONGEST_PATH, PathError, RequestPath, Template};

#[test]
fn what_is_wrong_is_said_with_its_column() {
    let long = "a".repeat(1_025);
    let many = "a/".repeat(29);
    let parameters: String = (0..65)
        .map(|n| format!("{{p{n}}}{}", if n % 3 == 2 { "/" } else { "-" }))
        .collect();
    let constraints = format!("{{a{}}}", ":int".repeat(33));
    for (source, column, message) in [
        ("{a?}/{b}", 1, "a is optional, and what follows is not"),
        ("x/{a?}/b", 3, "a is optional, and what follows is not"),
        ("{a?}/{b}.{c?}", 1, "a is optional, and what follows is not"),
        ("{a}{b}", 4, "b is behind another one"),
        ("{id}/{id}", 6, "id is there twice"),
        ("{id}/{ID:int}", 6, "ID is there twice"),
        ("{id", 1, "is not closed"),
        ("a/{", 3, "is not closed"),
        ("a/{id}}", 3, "is not closed"),
        ("a/{b{c}", 5, "within a parameter"),
        ("a}/b", 2, "closes nothing"),
        ("a//b", 3, "two slashes"),
        ("//a", 2, "two slashes"),
        ("a//", 3, "two slashes"),
        ("a/{*p}/b", 8, "the catch-all p takes the rest"),
        ("a/{*p}.b", 3, "a segment of its own"),
        ("a/x{**p}", 4, "a segment of its own"),
        ("{*p?}", 1, "without ?"),
        ("{a=1?}", 1, "has the default 1"),
        ("{a?}b", 1, "not the last part"),
        ("{a}-{b?}", 5, "only a point is allowed"),
        ("a.{b?}", 3, "only a point is allowed"),
        ("{}", 1, "needs a name"),
        ("a/{:int}", 3, "needs a name"),
        ("{=5}", 1, "needs a name"),
        ("{*}", 1, "needs a name"),
        ("{a/b}", 3, "has no /"),
        ("{a?b}", 3, "has no ?"),
        ("{***a}", 4, "has no *"),
        ("{a:integer}", 4, "there is no constraint integer"),
        ("{a: int}", 4, "there is no constraint  int"),
        ("{é:int:nope}", 8, "there is no constraint nope"),
        ("{a:int(5)}", 4, "int has no arguments"),
        ("{a:int()}", 4, "int has no arguments"),
        ("{a:min}", 4, "min needs one number"),
        ("{a:min(x)}", 4, "min(x) needs a whole number"),
        ("{a:min(1,2)}", 4, "needs one number"),
        ("{a:length()}", 4, "needs one length"),
        ("{a:length(-1)}", 4, "not negative"),
        ("{a:length(1,2,3)}", 4, "needs two numbers"),
        ("{a:length(-1,2)}", 4, "not negative"),
        ("{a:minlength(9999999999)}", 4, "needs one length"),
        ("{a:range(5,1)}", 4, "the smaller number first"),
        ("{a:range(1)}", 4, "needs two numbers"),
        ("{a:min(1}", 4, "has a ("),
        ("{a:regex}", 4, "regex needs an expression"),
        ("{a:regex([)}", 4, "cannot be used"),
        ("{a:regex((?=a))}", 4, "looking around"),
        ("{a:regex((a)\\1)}", 4, "a reference to a group"),
        ("{a:regex(a{{9999}})}", 4, "too large"),
        ("{a:regex((a{{30}}){{30}})}", 4, "too large"),
        // As in ASP.NET Core the sign within reaches to the next parenthesis.
        ("{a:regex(b:c):length(3)}", 4, "cannot be used"),
        ("a?b", 2, "has no query"),
        ("a#b", 2, "has no fragment"),
        ("a\u{7}", 2, "control characters"),
        ("a/%0Ab", 3, "control character"),
        ("a/%00", 3, "control character"),
        ("a/../b", 3, "leave it out"),
        ("%2e", 1, "leave it out"),
        ("~a", 1, "remove the ~"),
        (&long, 1, "at most 1024"),
        (&many, 57, "at most 28 segments"),
        (&parameters, 375, "at most 64 parameters"),
        (&constraints, 132, "at most 32 constraints"),
    ] {
        let error = Template::parse(source).expect_err(source);
        assert!(error.message.contains(message), "{source}: {error}");
        assert_eq!(error.column, column, "{source}: {error}");
    }
}

#[test]
fn expressions_of_a_usual_size_are_compiled() {
    for source in [
        r"{a:regex(^[[a-z0-9]]{{1,64}}$)}",
        r"{a:regex(^[a-z0-9-]{{1,64}}$)}",
        r"{a:regex(^\w{{1,16}}$)}",
        r"{a:regex(^[a-z0-9]{{1,255}}$)}",
        r"{a:regex(^[\w.+-]+@\w+\.\w{{2,}}$)}",
        r"{a:regex(^(\d{{4}})-(\d{{2}})-(\d{{2}})$)}/{b:regex(^\d{{3}}-\d{{2}}-\d{{4}}$)}",
    ] {
        template(source);
    }
}

#[test]
fn paths_are_bounded() {
    let longest = "/".repeat(LONGEST_PATH);
    assert!(RequestPath::parse(&longest).is_ok());
    let error = |raw: &str| {
        RequestPath::parse(raw)
            .map(|path| path.as_str().to_owned())
            .unwrap_err()
    };
    assert_eq!(error(&(longest + "a")), PathError::TooLong);
    assert_eq!(error("a"), PathError::NotAPath);
    assert_eq!(error("/a?b"), PathError::NotAPath);
    assert_eq!(error("/a#b"), PathError::NotAPath);
    assert_eq!(error("/a%00"), PathError::Null);
    assert_eq!(error("/a\0"), PathError::Null);
    assert!(RequestPath::parse("").is_ok_and(|path| path.as_str() == "/"));
}

#[test]
fn long_values_and_long_paths_end_soon() {
    let segments = "a/".repeat(28);
    let template = template("{a:regex(^(?:a?){{160}}a{{160}}b$)}/{*rest:regex(^(?:a?){{160}}a{{160}}b$)}");
    let started = Instant::now();
    for raw in [format!("/{}", "a".repeat(1_000)), format!("/{segments}")] {
        assert!(template.matches(&super::path(&raw)).is_none());
    }
    // A search that tries one way after the other would take longer than anyone waits. The time is that of a debug build on a
    // busy machine.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

//! Which scripts are refused before they run, and where.

use super::super::syntax::syntax_error;

#[test]
fn a_script_that_cannot_be_parsed_is_refused_with_its_place() {
    let mut wrong = Vec::new();
    for (script, place) in [
        ("getInput('a'", Some((1, 13))),
        ("const a = 1;\nconst a = 2;", Some((2, 9))),
        ("const f = x => {\n  return x +;\n}\nreturn f(1)", Some((2, 13))),
        ("if (true {\n return 1 }", Some((1, 10))),
        ("'abc", Some((1, 1))),
        ("[1, 2", Some((1, 6))),
        ("await getSecret('a'", Some((1, 20))),
        ("({a: 1}}", Some((1, 8))),
    ] {
        let error = syntax_error(script).unwrap_or_else(|| panic!("{script} is accepted"));
        assert!(error.message.starts_with("SyntaxError: "), "{script}: {error:?}");
        if error.place != place {
            wrong.push(format!("{script}: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_script_that_a_realm_would_run_is_accepted() {
    for script in [
        "",
        "1 + 1",
        "return 5",
        "if (x) { return 'yes' } return 'no'",
        "{ a: 1 }",
        "({a: 1})",
        "await getSecret('a')",
        "const a = await f(); return a",
        "(async () => { await null; return 6 })()",
        "// a comment\n1 // another",
        "/a+(?<=b)/giu.test('x')",
        "class A { #x = 1; get x() { return this.#x } } new A().x",
        "`a ${1 + 1}`",
        "a?.b ?? c",
        "function f() {} f(); throw 1",
        "while (true) {}",
        "'use strict'; var public_ = 1",
        "undefinedFunction()",
    ] {
        let error = syntax_error(script);
        assert!(error.is_none(), "{script}: {error:?}");
    }
}

#[test]
fn a_hostile_script_is_parsed_within_bounds() {
    for script in [
        "(".repeat(60_000),
        "[".repeat(60_000),
        "a=>".repeat(20_000),
        "`${".repeat(20_000),
    ] {
        // The parser may give up, which says nothing of the script.
        drop(syntax_error(&script));
    }
}

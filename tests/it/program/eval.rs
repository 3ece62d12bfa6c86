//! `mainspring eval`: expressions without a database.

use crate::support::{Child, TIMEOUT, assert_contains};

/// The exit code, standard output and standard error.
fn eval(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut child = Child::start(&[&["eval"], arguments].concat(), &[]);
    let code = child.wait(TIMEOUT).code();
    (code, child.stdout().join("\n"), child.stderr().join("\n"))
}

#[test]
fn an_expression_is_evaluated_without_a_database() {
    let folder = std::env::temp_dir().join(format!("mainspring-eval-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("Key"), "s3cret-key").unwrap();
    std::fs::write(folder.join("script.js"), "return getCount() + 1;\n").unwrap();
    std::fs::write(folder.join("variables.json"), r#"{"Count": 7}"#).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (script, variables, secrets) = (path("script.js"), format!("@{}", path("variables.json")), path(""));
    for (arguments, printed) in [
        (
            &[
                "--value",
                "getCount() + getName()",
                "--variables",
                r#"{"Count": 7}"#,
                "--inputs",
                r#"{"Name": "x"}"#,
            ][..],
            r#""7x""#,
        ),
        (&["--file", &script, "--variables", &variables], "8"),
        (&["--file", "-"], "null"),
        (&["--type", "CSharp", "--value", "-7 / 2"], "-3"),
        (
            &[
                "--type",
                "Liquid",
                "--value",
                "{{ Configuration.A.B }}{{ CorrelationId }}",
                "--script-config",
                "A:B=1",
                "--correlation-id",
                "c",
            ],
            r#""1c""#,
        ),
        (&["--type", "Literal", "--value", "12", "--convert-to", "Int32"], "12"),
        (
            &[
                "--type",
                "Output",
                "--value",
                r#"{"activityId": "A", "outputName": "B"}"#,
                "--outputs",
                r#"{"A": {"B": true}}"#,
            ],
            "true",
        ),
        (
            &[
                "--value",
                "getSecret('Key').then(key => key.length)",
                "--secrets-dir",
                &secrets,
            ],
            "10",
        ),
        (
            &["--value", "setCount(8)", "--json", "--variables", r#"{"Count": 7}"#],
            r#"{"value":null,"changes":{"variables":{"Count":8}}}"#,
        ),
    ] {
        let (code, out, err) = eval(arguments);
        assert_eq!((code, out.as_str()), (Some(0), printed), "{arguments:?}: {err}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_failure_is_exit_code_1_and_wrong_usage_2() {
    let (code, out, err) = eval(&["--value", "1 +\n  nothing.x"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert_contains(&err, &["script-error: line 2, column 3: ", "nothing"]);
    let (code, out, _) = eval(&["--type", "CSharp", "--value", "1 +", "--json"]);
    assert_eq!(code, Some(1));
    assert_contains(
        &out,
        &[r#""code":"script-syntax""#, r#""line":1,"column":4"#, r#""value":null"#],
    );
    let (code, _, err) = eval(&["--value", "for (;;) {}", "--script-time-limit", "200ms"]);
    assert!(code == Some(1) && err.contains("script-timeout"), "{code:?} {err}");
    for (arguments, hint) in [
        (&["--type", "Python", "--value", "1"][..], "JavaScript"),
        (&["--value", "1", "--inputs", "[]"], "--inputs must be a JSON object"),
        (&["--value", "1", "--variables", "{"], "--variables is not JSON"),
        (&["--value", "1", "--variables", "@/nowhere/at-all"], "cannot be opened"),
        (&["--value", "1", "--outputs", r#"{"A": 1}"#], "for A"),
        (&["--value", "1", "--file", "x"], "cannot be used with"),
        (&["--file", "/nowhere/at-all"], "cannot be opened"),
        (&["--value", "1", "--script-config", "x"], "NAME=VALUE"),
    ] {
        let (code, out, err) = eval(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {err}");
        assert!(err.contains(hint), "{arguments:?}: {err}");
    }
}

//! What is refused before a script runs, with its place and what to write instead.

use serde_json::json;

use super::{compile, evaluate, names};
use crate::Script;

fn problem(text: &str) -> String {
    match compile(text) {
        Ok(_) => panic!("this is no problem: {text}"),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn problems_name_their_place_and_a_remedy() {
    for (text, place, remedy) in [
        ("\"abc", "line 1, column 1", "not closed"),
        ("1 +\n  @\"abc", "line 2, column 3", "not closed"),
        ("$\"{1\"", "line 1, column", "not closed"),
        ("$\"{1,-2147483648}\"", "line 1, column", "at most 1000"),
        ("'ab'", "line 1, column 1", "one character"),
        ("/* x", "line 1, column 1", "*/"),
        ("Variables.Name.Foo()", "line 1, column 16", "it has"),
        ("Variables.Name.toUpper()", "line 1, column 16", "write ToUpper"),
        ("Variables.Name.Length()", "line 1, column", "Length"),
        (
            "Variables.Name.Substring()",
            "line 1, column",
            "1 to 2 arguments, not 0",
        ),
        ("Variables.Name.Substring(\"a\")", "line 1, column 26", "an int"),
        ("Variables.Missing", "line 1, column 11", "no variable Missing"),
        ("Input.Missing", "line 1, column 7", "Input.Get<T>(\"Missing\")"),
        ("name + 1", "line 1, column 1", "Variables.Name"),
        (
            "var a = 1;\nvar b = a + c;\nreturn b;",
            "line 2, column 13",
            "c is not declared",
        ),
        ("var a = 1; var a = 2;", "line 1, column 16", "declared already"),
        ("Math.Max(1m, 1.5)", "line 1, column", "ambiguous"),
        ("99999999999999999999", "line 1, column 1", "write a decimal"),
        (
            "int x = 3000000000;",
            "line 1, column 9",
            "long does not convert to int",
        ),
        ("if (1) return 2;", "line 1, column 5", "int does not convert to bool"),
        ("Variables.Count.Length", "line 1, column", "no member Length"),
        ("1 + ", "line 1, column", "an expression is expected"),
        ("(1", "line 1, column", ") is expected"),
        ("x => x", "line 1, column", "lambda"),
        ("await Task.Delay(1)", "line 1, column 1", "Elsa.Delay"),
        ("class A { }", "line 1, column 1", "anonymous object"),
        ("Console.WriteLine(\"x\")", "line 1, column 1", "Elsa.WriteLine"),
        ("System.IO.File.ReadAllText(\"x\")", "line 1, column 1", ""),
        ("File.ReadAllText(\"x\")", "line 1, column 1", "Elsa.RunTask"),
        ("new HttpClient()", "line 1, column 1", "Elsa.RunTask"),
        ("new Random().Next()", "line 1, column 1", "chance"),
        ("Variables.Name.GetType()", "line 1, column 16", "reflection"),
        ("typeof(int)", "line 1, column 1", "reflection"),
        (
            "Environment.GetEnvironmentVariable(\"x\")",
            "line 1, column 1",
            "input of the workflow",
        ),
        ("1.5f", "line 1, column 1", "double"),
        ("[1, 2]", "line 1, column 1", "new[]"),
        ("\"\"\"x\"\"\"", "line 1, column 1", "@\""),
        ("Log(\"x\")", "line 1, column 1", "Variable.Get"),
        ("1 + 1;", "line 1, column 1", "return"),
        (
            "$\"{Variables.When:qq}\" + $\"{Variables.Count:Q}\"",
            "line 1, column",
            "invalid",
        ),
        ("Variables.Count = \"x\"", "line 1, column", "int.Parse"),
        ("Input.Limit = 5", "line 1, column", "set a variable"),
        ("using static System.Math;", "line 1, column 1", "Math.Max"),
        ("using X = System.Math;", "line 1, column 1", "an alias"),
        ("using var x = new List<int>();", "line 1, column 1", "disposed"),
        ("using Acme.Orders;", "line 1, column 1", "namespace Acme"),
        ("var f = x => x + 1;", "line 1, column 9", "Func<int, int> f"),
        ("Func<int, int> f = (a, b) => a;", "line 1, column 20", "2 parameters"),
        (
            "Func<int, int> f = x => \"a\";",
            "line 1, column 25",
            "string does not convert to int",
        ),
        (
            "Func<int, int> f = x => x; return f();",
            "line 1, column",
            "1 arguments, not 0",
        ),
        (
            "int F(int x) { if (x > 0) return 1; }",
            "line 1, column 1",
            "not every path",
        ),
        (
            "int F(int x) => x; return F(1, 2);",
            "line 1, column",
            "1 arguments, not 2",
        ),
        ("int F(int x) => x; return F(y: 1);", "line 1, column", "no parameter y"),
        (
            "void F() => Variables.Count = 1; var x = F();",
            "line 1, column",
            "no value",
        ),
        ("int F(ref int x) => x;", "line 1, column 7", "ref"),
        ("Variables.Count.Foo", "line 1, column", "no member Foo"),
        (
            "switch (1) { case 1: var x = 1; case 2: break; }",
            "line 1, column 22",
            "break or return",
        ),
        ("switch (1) { case 1: continue; }", "line 1, column", "loop"),
        (
            "try { } catch (Exception) { } catch (FormatException) { }",
            "line 1, column 31",
            "put it last",
        ),
        ("try { } catch (OrderException) { }", "line 1, column 16", "unknown"),
        ("try { }", "line 1, column 1", "catch or finally"),
        ("throw;", "line 1, column 1", "catch around"),
        ("throw \"x\";", "line 1, column 1", "exception"),
        ("var x = new();", "line 1, column 9", "not known"),
        ("^1", "line 1, column 1", ""),
        ("new HashSet<int>()[0]", "line 1, column", "Contains"),
        ("new List<int>().Where(x => x > 1)[^1]", "line 1, column", "ToList()"),
        ("int a = 1, b = 2; (a, b) = (1, 2, 3);", "line 1, column", "2 parts"),
        (
            "int a = 1; string b = \"\"; (a, b) = (b, a);",
            "line 1, column",
            "string does not convert",
        ),
        ("yield return 1;", "line 1, column 1", "List<T>"),
        ("new[] { 1 }.Select(int.Parse)", "line 1, column", "not int"),
        ("new[] { 1 }.Select(Math.Foo)", "line 1, column", "Foo"),
        ("new Exception(\"x\").StackTrace", "line 1, column", "Message"),
        (
            "var sb = new StringBuilder(); sb.Capacity = 3;",
            "line 1, column",
            "Capacity",
        ),
        ("break;", "line 1, column 1", "loop"),
        (
            "var l = new List<int> { 1 }; var q = l.Where(x => x > 0).Select(x => x + 1); l.Add(5); return q.Sum();",
            "line 1, column 95",
            "write the query behind the change",
        ),
        (
            "var l = new[] { 1 }; var q = l.OrderBy(x => x); l[0] = 2; foreach (var x in q) { } return 1;",
            "line 1, column 77",
            "or ToList() at its end",
        ),
        (
            "var l = new List<int> { 1 }; if (true) { var q = l.Skip(1); var was = l.Remove(1); return q.Count(); }",
            "line 1, column 91",
            "the list of the query q has changed",
        ),
        ("double[] d = new[] { 1, 2 };", "line 1, column 14", "new double[]"),
        ("double[] d; d = new[] { 1, 2 };", "line 1, column 17", "new double[]"),
        ("double[] F() => new[] { 1, 2 };", "line 1, column 17", "new double[]"),
        (
            "IEnumerable<double> d = new[] { 1, 2 };",
            "line 1, column 25",
            ".Select(x => (double)x)",
        ),
        ("var d = { 1, 2 };", "line 1, column 9", "int[] a = { 1, 2 }"),
        ("int[,] a = new int[2, 3];", "line 1, column 5", "array of arrays"),
        ("var a = new int[2, 3];", "line 1, column 18", "array of arrays"),
        ("var a = new[,] { };", "line 1, column 13", "array of arrays"),
        ("var a = new int[2][];", "line 1, column 19", "its items"),
        (
            "Variables.Items.OrderBy(x => x, StringComparer.Ordinal)",
            "line 1, column",
            "no comparers",
        ),
        (
            "Variables.Items.OrderBy(x => x, Comparer<string>.Default)",
            "line 1, column 33",
            "order by a key",
        ),
        (
            "Variables.Numbers.Sort((a, b) => a - b)",
            "line 1, column",
            "list.OrderBy(",
        ),
        (
            "Variables.Items.Distinct(StringComparer.Ordinal)",
            "line 1, column",
            "convert the items",
        ),
        ("Variables.Numbers.Where(x => x)", "line 1, column", "bool"),
        (
            "Variables.Numbers.Where((a, b, c) => true)",
            "line 1, column",
            "parameters",
        ),
        ("null.Length", "line 1, column 1", "null has no members"),
    ] {
        let message = problem(text);
        assert!(
            message.starts_with(place) && message.contains(remedy),
            "{text}\n    {message}\n    {place} {remedy}"
        );
    }
}

#[test]
fn outcomes_belong_to_the_activity() {
    let mut names = names();
    names.is_activity = false;
    let problem = Script::compile("Outcome.Set(\"a\")", &names).unwrap_err();
    assert!(problem.message.contains("Elsa.RunCSharp"), "{problem}");
    let result = evaluate("Outcome.Set(\"a\", \"b\"); return 1;").unwrap();
    assert_eq!(result.outcomes.unwrap(), ["a", "b"]);
}

#[test]
fn what_a_script_sets_is_in_its_result() {
    let result = evaluate(
        "Variables.Count += 1; Variable.Set(\"New\", new[] { 1 }); CorrelationId = \"c\"; return Variables.Count;",
    )
    .unwrap();
    assert_eq!(result.value, json!(8));
    assert_eq!(
        result.variables,
        [("Count".to_owned(), json!(8)), ("New".to_owned(), json!([1]))]
    );
    assert_eq!(result.correlation_id, Some(Some("c".to_owned())));
    // In place; what is only read is not set.
    let result =
        evaluate("Variables.Items.Add(\"d\"); Variables.Order.Id = 8; return Variables.Numbers.Count;").unwrap();
    let set: Vec<&str> = result.variables.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(set, ["Items", "Order"]);
    assert_eq!(result.variables[1].1["Id"], json!(8));
}

#[test]
fn long_and_deep_texts_are_refused() {
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    assert!(problem(&long).contains("bytes"), "{}", problem(&long));
    for deep in [
        format!("{}1{}", "(".repeat(1_000), ")".repeat(1_000)),
        format!("{}1", "-".repeat(1_000)),
        format!("{}1", "!".repeat(1_000)),
        format!("1{}", " + 1".repeat(1_000)),
        format!("x{}", ".A".repeat(1_000)),
        "{".repeat(1_000),
        "if (true) ".repeat(1_000),
        format!("{}1", "true ? 1 : ".repeat(1_000)),
        format!("{}1", "null ?? ".repeat(1_000)),
        "new { A = ".repeat(1_000),
        "List<".repeat(1_000),
        "$\"{".repeat(1_000),
        "x => ".repeat(1_000),
        format!("1 is {}1", "not ".repeat(1_000)),
        // Chains inside of lambdas and patterns inside of chains: each of them alone is short.
        format!(
            "{}1",
            format!("new[] {{ 1 }}.Select(x => {{ return 1{} + ", " + 1".repeat(40)).repeat(30)
        ),
        format!("{}1", format!("1{} is (", " + 1".repeat(40)).repeat(30)),
    ] {
        let message = problem(&deep);
        assert!(message.starts_with("line 1, column "), "{message}");
    }
}

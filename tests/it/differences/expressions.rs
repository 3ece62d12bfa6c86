//! What expressions give, and how values are kept.

use serde_json::{Value, json};

use super::Difference;
use super::run::{ID, executed};
use crate::support::cases::{activity, input, text};
use crate::support::single_node::SingleNode;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "A value that does not fit the type of its input, variable or output",
        elsa: "the default of the type (0, null, 0001-01-01), or an exception",
        here: "an incident, or a refusal with 400, that names the value and the type; [conversions](conversions.md) has all types",
        why: "a 0 that no definition has is found late",
        other: "a script that gives the default",
        test: "expression::coerce::tests::values_become_what_they_become_in_elsa",
    },
    Difference {
        what: "The digits of a `Decimal`",
        elsa: "kept: 19.90 is 19.90",
        here: "a number of JSON: 19.90 is 19.9. More digits than such a number has are kept",
        why: "a value is the same in all languages, in the state and in answers",
        other: "format it where it is shown: `format_number: '0.00'` in Liquid, `ToString(\"0.00\")` in C#",
        test: "it::differences::expressions::a_decimal_has_no_zeros_at_its_end",
    },
    Difference {
        what: "The local time of scripts",
        elsa: "that of the server",
        here: "UTC, on every node",
        why: "an instance goes on at any node, and gives the same at each",
        other: "`DateTimeOffset` with the offset that is meant; `time_zone` in Liquid",
        test: "expression::javascript::tests::language::local_time_is_utc_whatever_the_host_says",
    },
    Difference {
        what: "The culture of C#",
        elsa: "that of the server",
        here: "the invariant one",
        why: "as above",
        other: "a format where a value is shown",
        test: "it::differences::expressions::the_culture_is_the_invariant_one",
    },
    Difference {
        what: "Built-in objects of JavaScript",
        elsa: "belong to one script, which may change them",
        here: "are shared and frozen: `Array.prototype.last = …` is refused",
        why: "no script of one workflow reaches another, and none waits for a new engine",
        other: "a function in the script",
        test: "expression::javascript::tests::instances::all_that_scripts_share_is_frozen",
    },
    Difference {
        what: "`eval` and `new Function` in JavaScript",
        elsa: "compile text",
        here: "refused",
        why: "text that comes from outside never becomes a program",
        other: "a function in the script",
        test: "expression::javascript::tests::sandbox::no_script_reaches_a_compiler",
    },
    Difference {
        what: "Types of .NET in JavaScript",
        elsa: "all of them, if the server allows it (`AllowClrAccess`), and functions that a host adds to the engine",
        here: "`TimeSpan`, `DateTime`, `DateTimeOffset`, `Guid`, `Random` and `LogPersistenceMode`",
        why: "a script has no access to the host",
        other: "an activity of your own, or an `Elsa.RunTask`",
        test: "expression::javascript::tests::language::the_host_is_not_accessible",
    },
    Difference {
        what: "Time and memory of a script",
        elsa: "30 s in JavaScript, else no limits",
        here: "`script-time-limit` (5 s) and 64 MiB each, in all languages: incidents `script-timeout` and `script-memory`",
        why: "a script never takes a node",
        other: "raise `script-time-limit`",
        test: "expression::javascript::tests::sandbox::every_untrusted_script_is_stopped",
    },
    Difference {
        what: "C#",
        elsa: "all of it, compiled with the rights of the server",
        here: "what [expressions](expressions.md#c) lists; the rest is refused at the publish, with what to write instead",
        why: "Elsa's C# is no sandbox",
        other: "JavaScript, an activity of your own, or an `Elsa.RunTask`",
        test: "execution::tests::scripts::a_script_that_is_no_csharp_is_refused_at_publish",
    },
    Difference {
        what: "Expressions in Python",
        elsa: "run, where Python is installed",
        here: "refused at the publish",
        why: "as with C#",
        other: "JavaScript, C# or Liquid",
        test: "execution::tests::validation::an_unsupported_expression_type_is_refused",
    },
];

/// The text that a template or script gives with a variable `N`.
async fn shown(node: &SingleNode, variable: &Value, kind: &str, value: &str) -> Value {
    let says = activity(
        "Elsa.SetOutput",
        "out",
        json!({"outputName": text("Text"), "outputValue": input("String", kind, json!(value))}),
    );
    let model = json!({"definitionId": ID, "root": says, "variables": [variable],
        "outputs": [{"name": "Text", "type": "String"}]});
    node.http.publish(&model).await;
    let state = executed(&node.http).await;
    state["output"]["Text"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decimal_has_no_zeros_at_its_end() {
    let node = SingleNode::start(&[]).await;
    let variable = json!({"id": "n", "name": "N", "typeName": "Decimal", "value": "19.90"});
    for (kind, value, expected) in [
        ("Liquid", "{{ Variables.N }}", "19.9"),
        ("Liquid", "{{ Variables.N | format_number: '0.00' }}", "19.90"),
        ("CSharp", "Variables.N.ToString()", "19.9"),
        ("CSharp", "Variables.N.ToString(\"0.00\")", "19.90"),
    ] {
        assert_eq!(shown(&node, &variable, kind, value).await, expected, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_culture_is_the_invariant_one() {
    let node = SingleNode::start(&[]).await;
    let variable = json!({"id": "n", "name": "N", "typeName": "Double", "value": 1234.5});
    let value = "Variables.N.ToString(\"N1\") + \" \" + new DateTime(2026, 1, 31).ToString(\"d\")";
    assert_eq!(shown(&node, &variable, "CSharp", value).await, "1,234.5 01/31/2026");
}

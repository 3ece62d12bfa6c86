//! What is wrong with a template: its place, and what to write instead.

use super::rendered;
use crate::{ErrorKind, Template, TemplateError, filters};

fn check(text: &str) -> Result<(), TemplateError> {
    Template::parse(text).map(drop)
}

#[test]
fn the_variables_that_a_template_names_are_known_with_their_places() {
    let text = "{{ Variables.A }}\n{% for x in Variables[\"B\"] limit: Variables.C %}{% if x[Variables.D] == Variables.E.f %}{% endif %}\
                {% else %}{{ x | append: Variables.G }}{% endfor %}{{ Variables.A }}{{ Input.H }}{{ Variables[x] }}";
    let names = Template::parse(text).unwrap().variables();
    let places: Vec<(&str, usize, usize)> = names
        .iter()
        .map(|(name, at)| (name.as_str(), at.line, at.column))
        .collect();
    assert_eq!(places[..3], [("A", 1, 4), ("B", 2, 13), ("C", 2, 35)]);
    assert_eq!(places.iter().map(|place| place.0).collect::<String>(), "ABCDEG");
}

#[test]
fn an_error_has_its_place_and_a_remedy() {
    for (template, line, column, part) in [
        ("a\n {% if x %}", 2, 2, "{% endif %}"),
        ("{% for x in Variables.Items %}a", 1, 1, "{% endfor %}"),
        ("{{ x", 1, 5, "}}"),
        ("{{ x | upcas }}", 1, 8, "upcase"),
        ("{{ x | lowercase }}", 1, 8, "downcase"),
        ("{{ x | frobnicate }}", 1, 8, "known filters are"),
        ("{% frobnicate %}", 1, 1, "known tags are"),
        ("{% endif %}", 1, 1, "open"),
        ("{% if x %}{% endfor %}", 1, 11, "{% endif %}"),
        ("{% elseif x %}", 1, 1, "elsif"),
        ("é{% include 'a' %}", 1, 2, "file"),
        ("{% render 'a' %}", 1, 1, "file"),
        ("{% tablerow x in y %}", 1, 1, "use for"),
        ("{% assign = 1 %}", 1, 10, "name"),
        ("{% assign x 1 %}", 1, 12, "="),
        ("{% for x of y %}", 1, 9, "in"),
        ("{% for x in 'a' %}", 1, 13, "range"),
        ("{{ }}", 1, 4, "missing"),
        ("{{ 'a }}", 1, 4, "closed"),
        ("{{ 'a\\q' }}", 1, 6, "backslash"),
        ("{{ (1 + 2) }}", 1, 4, "range"),
        ("{{ x() }}", 1, 5, "functions"),
        ("{{ x | modulo }}", 1, 8, "modulo: 2"),
        ("{{ 99999999999999999999999999999999 }}", 1, 4, "28 digits"),
        ("{{ a[1 }}", 1, 5, "]"),
        ("{% raw %}{{ x", 1, 1, "{% endraw %}"),
        ("{% comment %}", 1, 1, "{% endcomment %}"),
        ("{% liquid\nif x\n%}", 2, 1, "endif"),
        ("{% # open", 1, 1, "%}"),
    ] {
        let error = check(template).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{template}: {error}");
        assert_eq!(error.kind, ErrorKind::Syntax);
        assert!(error.message.contains(part), "{template}: {error}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let error = check(&"x".repeat(1 << 20)).unwrap_err();
    assert!(error.message.contains("262144"), "{error}");
    for (open, close) in [
        ("{% if x %}", "{% endif %}"),
        ("{% for x in y %}", "{% endfor %}"),
        ("{% capture x %}", "{% endcapture %}"),
    ] {
        let error = check(&open.repeat(1_000)).unwrap_err();
        assert!(error.message.contains("nested"), "{error}");
        assert!(check(&format!("{}{}", open.repeat(100), close.repeat(100))).is_ok());
    }
    // The deepest ones render on the stack of a thread.
    let each = |open: &str, close: &str| rendered(&format!("{}{}{}", open.repeat(100), "{{ 1 }}", close.repeat(100)));
    for (open, close) in [
        ("{% if true %}", "{% endif %}"),
        ("{% for x in (1..1) %}", "{% endfor %}"),
        ("{% case 1 %}{% when 1 %}", "{% endcase %}"),
        ("{% unless false %}", "{% endunless %}"),
    ] {
        assert_eq!(each(open, close).unwrap(), "1");
    }
    let deep = format!("{{{{ Words{}0{} }}}}", "[Words".repeat(90), "]".repeat(90));
    assert!(rendered(&deep).is_ok());
    let indexes = format!("{{{{ a{}0{} }}}}", "[a".repeat(1_000), "]".repeat(1_000));
    assert!(check(&indexes).unwrap_err().message.contains("nested"));
    assert!(check(&format!("{{{{ x{} }}}}", " | upcase".repeat(20_000))).is_ok());
    assert!(check(&format!("{{% if x{} %}}{{% endif %}}", " and x".repeat(30_000))).is_ok());
}

#[test]
fn values_that_do_not_fit_are_errors() {
    for (template, part) in [
        ("{{ 1 | divided_by: 0 }}", "divisor is 0"),
        ("{{ 1 | modulo: Variables.Nothing }}", "divisor is 0"),
        ("{{ Variables.Huge }}", "too large"),
        ("{{ 79228162514264337593543950335 | times: 2 }}", "28 digits"),
        ("{{ (1..99999999999) | size }}", "32-bit"),
        ("{{ 1 | round: 50 }}", "0 to 28"),
        ("{{ 'a' | slice: 'x' }}", "not an integer"),
        ("{{ 999999999999 | date: '%F' }}", "no date"),
        ("{{ '%' | base64_decode }}", "Base64"),
        ("{{ 1 | keys }}", "not an object"),
        ("{{ 1 | format_number: 'N2', 'de-DE' }}", "culture"),
        ("{{ 1 | format_number: 'Q9' }}", "unknown"),
        ("{{ '{9}' | format_string: 1 }}", "no argument"),
        (
            "{{ ExpressionExecutionContext.Configuration.Title }}",
            "Configuration.Name",
        ),
        ("{{ Variables.Text | replace: '', 'x' }}", "empty"),
        ("{% for x in Variables.Words offset: -1 %}{% endfor %}", "offset"),
    ] {
        let (kind, message) = rendered(template).unwrap_err();
        assert_eq!(kind, ErrorKind::Invalid, "{template}: {message}");
        assert!(message.contains(part), "{template}: {message}");
    }
}

#[test]
fn every_filter_has_a_name_of_its_own() {
    let names: Vec<&str> = filters::names().collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    assert!(names.len() > 70, "{}", names.len());
    for name in names {
        assert_eq!(filters::find(name).unwrap().name, name);
        assert!(filters::find(name).unwrap().usage.starts_with(name));
    }
}

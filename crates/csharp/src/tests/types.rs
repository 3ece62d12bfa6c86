//! Scripts whose types, names or patterns are large: the cost of checking them follows the size of their text, whatever the
//! verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::{DeclaredType, Names, Script, evaluate, names, on_stack};

/// What a check of the longest script may take, of a build without optimisation, in seconds of the processor.
const MOST_SECONDS: f64 = 20.0;

/// Checks a script on a stack of the size that scripts have, and says what it comes to and the seconds that it took.
fn checked(text: &str, names: &Names) -> (Result<(), String>, f64) {
    let check = || {
        let began = thread_time();
        let compiled = Script::compile(text, names);
        let took = (thread_time() - began).as_secs_f64();
        (compiled.map(drop).map_err(|problem| problem.to_string()), took)
    };
    on_stack(check)
}

/// How long the processor has worked for this thread.
fn thread_time() -> Duration {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into();
    #[cfg(not(target_os = "linux"))]
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.unwrap()
}

/// The message of a script that has a problem, in little time.
fn problem(text: &str, names: &Names) -> String {
    let (compiled, took) = checked(text, names);
    let shown: String = text.chars().take(60).collect();
    assert!(took < MOST_SECONDS, "{shown}: {took} s");
    let problem = compiled.expect_err(&shown);
    assert!(problem.len() < 1_100, "{shown}: {} bytes", problem.len());
    problem
}

/// `var a0=…;var a1=…;`, each made of the one before, and an end.
fn doubled(first: &str, next: impl Fn(&str) -> String, times: usize, end: &str) -> String {
    let mut text = format!("var a0={first};");
    for number in 1..times {
        let _ = write!(text, "var a{number}={};", next(&format!("a{}", number - 1)));
    }
    text + end
}

#[test]
fn types_that_double_are_refused_where_they_become_too_large() {
    let tuples = doubled("(1,2)", |one| format!("({one},{one})"), 44, "a43==a43");
    let maps = "new[]{1}.ToDictionary(x=>x,x=>x)";
    let maps_of_maps = |one: &str| format!("new[]{{1}}.ToDictionary(x=>{one},x=>{one})");
    let maps = doubled(maps, maps_of_maps, 26, "int x=a25;return 1;");
    let objects = doubled("new{A=1,B=2}", |one| format!("new{{A={one},B={one}}}"), 40, "a39");
    let groups = "new[]{1}.GroupBy(x=>x)";
    let groups = doubled(groups, |one| format!("{one}.GroupBy(x=>{one})"), 40, "a39");
    let arrays = doubled("new[]{1}", |one| format!("new[]{{{one}}}"), 90, "a89");
    for text in [tuples, maps, objects, groups, arrays] {
        let problem = problem(&text, &names());
        assert!(
            problem.contains("more than 256 types, or nested more than 64"),
            "{problem}"
        );
        assert!(problem.starts_with("line 1, column "), "{problem}");
    }
}

#[test]
fn types_of_scripts_that_people_write_are_far_from_the_bounds() {
    let text = doubled("(1,2)", |one| format!("({one},{one})"), 6, "a5 == a5");
    assert_eq!(evaluate(&text).unwrap().value, true);
    let wide = (0..200).fold("return new { ".to_owned(), |text, number| {
        text + &format!("A{number} = {number}, ")
    });
    assert_eq!(evaluate(&(wide + "};")).unwrap().value["A199"], 199);
}

#[test]
fn many_locals_share_a_type_that_is_written_once() {
    let arguments = vec!["List<int>"; 120].join(",");
    problem(&format!("Dictionary<{arguments}> a;"), &names());
    let pairs = (0..5).fold("int".to_owned(), |ty, _| format!("Dictionary<{ty},{ty}>"));
    let locals: Vec<String> = (0..14_000).map(|number| format!("a{number}")).collect();
    let text = format!("{pairs} {}; return a0;", locals.join(","));
    let text = text.get(..60_000).unwrap().to_owned();
    let (_, took) = checked(&text, &names());
    assert!(took < MOST_SECONDS, "{took}");
}

#[test]
fn attempts_at_types_cost_no_more_than_their_text() {
    let most = 65_000;
    let repeated = |begin: &str, part: &str| begin.to_owned() + &part.repeat((most - begin.len()) / part.len());
    for text in [
        repeated("f(", "x.a<b,"),
        repeated("x.a<b,", "c.d<e>,"),
        repeated("(", "x.a<b,c.d<e>,"),
        repeated("(", "a<b,"),
        repeated("", "(a,"),
        repeated("", "a<"),
        repeated("1 is ", "(1 or "),
        repeated("1 is ", "not "),
        repeated("", "1e+1"),
        repeated("", "var (a,"),
        repeated("", "a?[b "),
        repeated("x switch {", "1 or 2=>3,"),
        repeated("new {", "A=1,"),
        repeated("", "$\"{"),
        repeated("a = ", "b = "),
        repeated("", "if (true) "),
    ] {
        problem(&text, &names());
    }
    let nested = (0..60).fold("1".to_owned(), |inner, _| format!("({inner}{})", " or 2".repeat(49)));
    let shown = problem(&format!("1 is {nested}"), &names());
    assert!(shown.contains("more than 50 alternatives"), "{shown}");
}

#[test]
fn names_of_any_number_and_length_cost_little() {
    let declared = |name: String| (name, DeclaredType::named("Int32", false));
    let many = (0..50_000).map(|number| declared(format!("some-name_{number}")));
    let many = Names::new(many.collect(), BTreeMap::new());
    let sets: String = (0..1_500)
        .map(|number| format!("Variables.SomeName{number} = 1;"))
        .collect();
    let shown = problem(&format!("{sets}Variables.Missing"), &many);
    assert!(shown.contains("there is no variable Missing"), "{shown}");
    let long = (0..20).map(|number| declared(format!("{number}{}", "x".repeat(500_000))));
    let long = Names::new(long.collect(), BTreeMap::new());
    problem("Variables.Missing", &long);
    problem("missing", &long);
    problem(&"m".repeat(60_000), &long);
    let locals: String = (0..6_000).map(|number| format!("var a{number}=1;")).collect();
    problem(&(locals + "b"), &names());
}

//! Expressions that are generated to be hostile: whatever parses, checks or searches one stays within a budget of processor time
//! and memory, whatever its verdict is.
//!
//! They repeat, nest or double parts of a language up to the longest text. A run has a minute for all languages, and thirty
//! minutes with `MAINSPRING_TEST_LONG=1`. It is a process of its own, whose memory can be measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use mainspring_csharp::{DeclaredType, Names, Script};

use crate::expression::{ScriptScope, TypeName, allows_null, is_assignable, language, search_script};
use crate::schedule::Cron;
use crate::testing::thread_time;

/// What one expression may take, of a build without optimisation on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(8);

/// What a run may take at its peak, in bytes.
const MOST_MEMORY: usize = 512 << 20;

/// How long each language is tested, in time of the processor.
const SHORT: Duration = Duration::from_secs(5);

/// The name of the test that does the work.
const ALONE: &str = "execution::tests::generated_expressions::expressions_stay_within_their_budget_alone";

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % (most as u64)).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Some parts behind each other.
    fn some(&mut self, of: &[&str], most: usize) -> String {
        let blank = self.one(&["", " ", "\n"]);
        let count = 1 + self.below(most);
        let parts: Vec<&str> = (0..count).map(|_| self.one(of)).collect();
        parts.join(blank)
    }

    /// A beginning, parts that are repeated, perhaps with a number, and an end: up to so many bytes.
    fn repeated(&mut self, of: &[&str], bytes: usize) -> String {
        let mut text = self.some(of, 4);
        let (part, end) = (self.some(of, 6), self.some(of, 4));
        let is_numbered = self.below(3) == 0;
        let most = [bytes, bytes, bytes / 8, 1_000][self.below(4)];
        let mut number = 0;
        while text.len() + part.len() + end.len() + 8 < most {
            text.push_str(&part);
            if is_numbered {
                let _ = write!(text, "{number} ");
            }
            number += 1;
        }
        text + &end
    }

    /// Parts around each other, as deep as fits.
    fn nested(&mut self, pairs: &[(&str, &str)], of: &[&str], bytes: usize) -> String {
        let levels = [10, 60, 150, 1_000, bytes][self.below(5)];
        let (mut before, mut after) = (String::new(), Vec::new());
        let mut length = 0;
        for _ in 0..levels {
            let (open, close) = pairs[self.below(pairs.len())];
            length += open.len() + close.len();
            if length + 100 > bytes {
                break;
            }
            before.push_str(open);
            after.push(close);
        }
        let middle = self.some(of, 3);
        after.reverse();
        format!("{before}{middle}{}", after.concat())
    }
}

const CSHARP: &[&str] = &[
    "Variables.Count",
    "Variables.Name",
    "x",
    "x.a<b",
    "x.a<b,",
    "List<int>",
    "List<",
    "Dictionary<int,",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    "=",
    "==",
    "=>",
    "x=>x",
    "+",
    "-",
    "?",
    "??",
    "?.",
    "?[",
    ":",
    "<",
    ">",
    "&&",
    "\"a\"",
    "$\"{",
    "}\"",
    "$\"",
    "'c'",
    "1",
    "1e+",
    "2.5",
    "null",
    "new",
    "new[]",
    "new {",
    "A=1,",
    "var",
    "var a",
    "int",
    "int a",
    "if(true)",
    "foreach(var x in",
    "for(;;)",
    "while(true)",
    "is",
    "is not",
    "not",
    "and",
    "or",
    "or 1",
    "switch {",
    "_ => 1,",
    "as",
    "(int)",
    "(a,",
    "out var a",
    "typeof",
    ".ToList()",
    ".Select(x=>",
    ".Where(",
    "return",
    "/*",
    "//",
    "\n",
    "@",
    "!",
    "++",
    "throw",
    "default(",
    "nameof(",
];

const CSHARP_PAIRS: &[(&str, &str)] = &[
    ("(", ")"),
    ("((", "))"),
    ("new[]{", "}"),
    ("new{A=", "}"),
    ("(1,", ")"),
    ("Math.Abs(", ")"),
    ("!", ""),
    ("$\"{", "}\""),
    ("x is (", ")"),
    ("1 is (1 or ", ")"),
    ("1 is (not ", ")"),
    ("true?", ":1"),
    ("List<", ">"),
    ("new List<", ">()"),
    ("Dictionary<int,", ">"),
    ("x=>", ""),
    ("{", "}"),
    ("if(true)", ""),
    ("a=", ""),
    ("x.a<", ">(1)"),
    ("x switch {1=>", "}"),
    ("new[]{1}.Select(x=>", ")"),
    ("a??", ""),
    ("(int)", ""),
    ("-", ""),
    ("1+", ""),
    ("Variables?.", ""),
];

/// Each makes a type of one type twice.
const DOUBLINGS: &[&str] = &[
    "(#,#)",
    "new{A=#,B=#}",
    "new[]{#,#}",
    "#.GroupBy(x=>#)",
    "new[]{1}.ToDictionary(x=>#,x=>#)",
    "#.Zip(#)",
    "#.Select(x=>(#,x))",
    "true?#:#",
    "#??#",
    "new[]{1}.GroupBy(x=>#,x=>#)",
    "new[]{#}",
    "new[]{(#,#)}",
    "#.ToDictionary(x=>#)",
    "(A:#,B:#,C:#)",
    "new[]{#}.SelectMany(x=>new[]{#},(x,y)=>(x,y))",
    "#.Aggregate(#,(x,y)=>#)",
    "Math.Max(#,#)",
    "#.Concat(#)",
    "#.Append(#)",
];

const ENDS: &[&str] = &[
    "#==#",
    "int x=#;return x;",
    "#.Missing",
    "$\"{#}\"",
    "# is int",
    "# switch { 1 => 2, _ => # }",
    "# as string",
    "foreach(var x in #) { }",
    "new List<int> { # }",
    "Math.Abs(#)",
    "# + #",
    "new[] { #, 1 }",
    "#[#]",
    "(int)#",
    "#?.A",
    "var (p, q) = #; return p;",
];

fn csharp(numbers: &mut Numbers) -> String {
    match numbers.below(4) {
        0 => numbers.nested(CSHARP_PAIRS, CSHARP, 64 << 10),
        1 => {
            let first = numbers.one(&["(1,2)", "new[]{1}", "new{A=1}", "\"a\"", "1", "new[]{1}.GroupBy(x=>x)"]);
            let doubling = numbers.one(DOUBLINGS);
            let also = numbers.one(DOUBLINGS);
            let mut text = format!("var a0={first};");
            let count = 1 + numbers.below(120);
            for number in 1..count {
                let by = if numbers.below(4) == 0 { also } else { doubling };
                let _ = write!(text, "var a{number}={};", by.replace('#', &format!("a{}", number - 1)));
            }
            text + &numbers.one(ENDS).replace('#', &format!("a{}", count - 1))
        }
        _ => numbers.repeated(CSHARP, 64 << 10),
    }
}

fn check_csharp(text: &str, names: &Names) {
    let _ = Script::compile(text, names).map_err(|problem| assert!(problem.message.len() <= 1_000, "{text}"));
}

const LIQUID: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "-%}",
    "{{-",
    " ",
    "\n",
    "|",
    ":",
    ",",
    ".",
    "..",
    "[",
    "]",
    "(",
    ")",
    "==",
    "<",
    "if ",
    "endif ",
    "else ",
    "elsif ",
    "for x in y",
    "endfor ",
    "case ",
    "when ",
    "assign a = ",
    "capture a",
    "raw ",
    "endraw ",
    "comment ",
    "endcomment ",
    "liquid ",
    "# ",
    "echo ",
    "cycle ",
    "Variables.",
    "Variables.Name",
    "upcase",
    "date",
    "default",
    "'a'",
    "\"",
    "1",
    "1..",
    "-",
    "{% # a %}",
    "{% liquid # ",
    "{% raw %}",
    "{{ a | upcase }}",
    "{% if a %}",
    "or",
    "and",
    "contains ",
    "a.b",
    "\\",
];

const LIQUID_PAIRS: &[(&str, &str)] = &[
    ("{% if a %}", "{% endif %}"),
    ("{% for x in y %}", "{% endfor %}"),
    ("a[", "]"),
    ("{{ a[", "] }}"),
    ("{% liquid if a\n", "endif %}"),
    ("{% capture a %}", "{% endcapture %}"),
    ("{% case a %}{% when 1 %}", "{% endcase %}"),
    ("(1..", ")"),
    ("{% raw %}", "{% endraw %}"),
];

fn liquid(numbers: &mut Numbers) -> String {
    match numbers.below(3) {
        0 => numbers.nested(LIQUID_PAIRS, LIQUID, 256 << 10),
        _ => numbers.repeated(LIQUID, 256 << 10),
    }
}

const JAVASCRIPT: &[&str] = &[
    "getA",
    "getVariable('A')",
    "setB",
    "variables.A",
    "From",
    "getFrom",
    "getAFromB",
    "Math",
    "prototype",
    "__proto__",
    "return",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    ".",
    "?.",
    "=",
    "==",
    "=>",
    "+",
    "-",
    "!",
    "/",
    "/a/",
    "`",
    "${",
    "'",
    "\"",
    "\\",
    "1",
    "1.5",
    "0x",
    "if",
    "for(;;)",
    "function",
    "class",
    "async",
    "await",
    "eval",
    "//",
    "/*",
    "*/",
    "\n",
    "typeof ",
    "new ",
    "Date",
    "JSON",
];

const JAVASCRIPT_PAIRS: &[(&str, &str)] = &[
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("`${", "}`"),
    ("getA(", ")"),
    ("(a)=>", ""),
    ("!", ""),
    ("a?", ":1"),
    ("new ", ""),
    ("a.", ""),
    ("function(){", "}"),
    ("a=", ""),
    ("-", ""),
    ("({a:", "})"),
    ("typeof ", ""),
    ("/(", ")/"),
];

fn javascript(numbers: &mut Numbers) -> String {
    match numbers.below(3) {
        0 => numbers.nested(JAVASCRIPT_PAIRS, JAVASCRIPT, 64 << 10),
        _ => numbers.repeated(JAVASCRIPT, 64 << 10),
    }
}

const TYPES: &[&str] = &[
    "List<",
    "Dictionary<",
    "Int32",
    "String",
    ",",
    ">",
    "[]",
    "?",
    ".",
    "System.",
    "`1[[",
    "]]",
    "`1",
    "Nullable<",
    "ICollection<",
    " ",
    "ObjectList",
    "List`1[[System.Int32, A]]",
    "[",
    "]",
    "<",
];

const TYPE_PAIRS: &[(&str, &str)] = &[
    ("List<", ">"),
    ("List`1[[", "]]"),
    ("Nullable<", ">"),
    ("Dictionary<String,", ">"),
    ("System.Collections.Generic.List`1[[", "]], A"),
    ("", "[]"),
    ("", "?"),
];

fn type_name(numbers: &mut Numbers) -> String {
    match numbers.below(2) {
        0 => numbers.nested(TYPE_PAIRS, TYPES, 1 << 20),
        _ => numbers.repeated(TYPES, 1 << 20),
    }
}

fn check_type_name(text: &str) {
    let _ = (
        TypeName::parse(text, true),
        DeclaredType::named(text, false).to_string(),
    );
    let _ = (
        is_assignable(text, text),
        is_assignable("Int32", text),
        allows_null(text),
    );
}

const CRON: &[&str] = &[
    "*", "0", "59", "1-5", "22-2", "*/2", "L", "W", "15W", "#", "1#2", "?", ",", "-", "/", " ", "@daily", "JAN", "MON",
    "30 2",
];

fn cron(numbers: &mut Numbers) -> String {
    match numbers.below(3) {
        0 => numbers.repeated(CRON, 1 << 20),
        _ => {
            let fields: Vec<String> = (0..5 + numbers.below(2))
                .map(|_| numbers.repeated(CRON, 40).replace(' ', ""))
                .collect();
            fields.join(" ")
        }
    }
}

/// Generates expressions and checks each, until its time is over; returns how many there were.
fn run(what: &str, seed: u64, time: Duration, generate: fn(&mut Numbers) -> String, check: impl Fn(&str)) -> usize {
    let mut numbers = Numbers(seed);
    let (began, mut count) = (thread_time(), 0);
    let mut longest = Duration::ZERO;
    while thread_time() - began < time {
        let text = generate(&mut numbers);
        let before = thread_time();
        check(&text);
        let took = thread_time() - before;
        longest = longest.max(took);
        let shown: String = text.chars().take(300).collect();
        assert!(
            took < MOST_TIME,
            "{what}, seed {seed}, {} bytes: {took:?}: {shown}",
            text.len()
        );
        let peak = peak_memory();
        assert!(
            peak < MOST_MEMORY,
            "{what}, seed {seed}: {} bytes: {peak} bytes held: {shown}",
            text.len()
        );
        count += 1;
    }
    println!(
        "{what}: {count} expressions, the longest took {longest:?}, at most {} bytes",
        peak_memory()
    );
    count
}

/// The most memory that this process had, in bytes; 0 where that is not known.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// The work of the test below, in a process of its own.
#[test]
#[ignore = "run by generated_expressions_stay_within_their_budget, in a process of its own"]
fn expressions_stay_within_their_budget_alone() {
    let is_long = std::env::var("MAINSPRING_TEST_LONG").is_ok_and(|value| value == "1");
    let (time, seed) = match is_long {
        true => (Duration::from_secs(30 * 60 / 5), rand::random::<u64>() | 1),
        false => (SHORT, 0x9e37_79b9_7f4a_7c15),
    };
    println!("seed {seed}");
    let work = move || {
        let declared = |number: i32| (format!("name-{number}"), DeclaredType::named("Int32", false));
        let names = Names::new((0..2_000).map(declared).collect(), BTreeMap::new());
        let liquid_language = language("Liquid").unwrap();
        let mut scope = ScriptScope::default();
        for number in 0..2_000 {
            scope.variables.insert(format!("name-{number}"), number.into());
            scope
                .outputs
                .insert(format!("from-{number}"), serde_json::json!({"Result": 1}));
        }
        let all = [
            run("C#", seed, time, csharp, |text| check_csharp(text, &names)),
            run("Liquid", seed, time, liquid, |text| drop(liquid_language.check(text))),
            run("JavaScript", seed, time, javascript, |text| search_script(text, &scope)),
            run("type names", seed, time, type_name, check_type_name),
            run("cron", seed, time, cron, |text| drop(Cron::parse(text))),
        ];
        assert!(all.iter().all(|count| *count > 10), "{all:?}");
    };
    // As large as the stack that a script is checked on.
    let thread = std::thread::Builder::new().stack_size(32 << 20).spawn(work);
    thread.unwrap().join().unwrap();
}

#[test]
fn generated_expressions_stay_within_their_budget() {
    let program = std::env::current_exe().unwrap();
    let ran = Command::new(program)
        .args(["--exact", ALONE, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    println!("{output}");
    assert!(
        ran.status.success(),
        "{output}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(output.contains("1 passed"), "{output}");
}

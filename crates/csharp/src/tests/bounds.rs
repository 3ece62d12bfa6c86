//! Hostile scripts: each is stopped within its bounds, without a panic and without using more memory than allowed.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{Fixture, bounds, compile, on_stack};
use crate::{Bounds, Steps, StopKind, Stopped};

const HOSTILE: &[&str] = &[
    "while (true) { }",
    "for (;;) { }",
    "do { } while (true);",
    "var s = \"x\"; while (true) { s += s; }",
    "var s = \"xxxxxxxxxx\"; while (true) { s = s.Replace(\"x\", s); }",
    "var l = new List<object>(); while (true) { l.Add(l); }",
    "var l = new List<int> { 1 }; while (true) { l.AddRange(l); }",
    "var d = new Dictionary<int, object>(); var i = 0; while (true) { d[i++] = d; }",
    "Enumerable.Range(0, 1000000).SelectMany(x => Enumerable.Range(0, 1000000)).Sum()",
    "Enumerable.Range(0, 1000000).Select(x => Enumerable.Range(0, 1000000).Count()).Sum()",
    "Enumerable.Repeat(\"x\", 1000000).Aggregate((a, b) => a + b)",
    "var s = \"x\"; while (true) { s = s.PadLeft(s.Length * 2); }",
    "\"x\".PadLeft(2000000000)",
    "new string('x', 2000000000)",
    "new int[2000000000]",
    "var l = new List<object>(); while (true) { l.Add(new int[1000000]); }",
    "Enumerable.Range(0, 2000000000).ToList()",
    "Enumerable.Repeat(1, 2000000000).Count()",
    "var s = \"xy\"; while (true) { s = string.Join(s, s, s, s); }",
    "var s = \"xy\"; while (true) { s = string.Concat(s, s); }",
    "var s = \"{0}{0}\"; while (true) { s = string.Format(s, s); }",
    "var s = \"{0,100000}\"; while (true) { s = string.Format(s, 1) + \"{0,100000}\"; }",
    "var s = \"ab\"; while (true) { s = $\"{s}{s}{s}\"; }",
    "var l = new List<int>(); for (var i = 0; ; i++) { l.Insert(0, i); }",
    "var l = Enumerable.Range(0, 100000).ToList(); while (true) { l = l.OrderBy(x => -x).ToList(); }",
    "var l = Enumerable.Range(0, 100000).ToList(); while (true) { l.Sort(); }",
    "var l = Enumerable.Range(0, 100000).ToList(); while (l.Count > 0) { l.Contains(-1); }",
    "var l = Enumerable.Range(0, 100000).ToList(); while (true) { l.Reverse(); }",
    "var l = Enumerable.Range(0, 100000).ToList(); while (true) { l.Distinct().Count(); }",
    "var l = Enumerable.Range(0, 1000).ToList(); while (true) { l = l.Concat(l).ToList(); }",
    "var s = JsonSerializer.Serialize(Variables.Order); while (true) { s = JsonSerializer.Serialize(s); }",
    "var o = new ExpandoObject(); while (true) { o[Guid.NewGuid().ToString()] = 1; }",
    "var x = 1m; while (true) { x = x * 1.0000001m / 1.0000001m; }",
    "var s = \"a\"; while (true) { s.Split('a'); }",
    "var s = \"é\"; while (true) { s += s; s.Substring(1); }",
    "Variables.Numbers.Select(a => Variables.Numbers.Select(b => { while (true) { } return 1; }).Count())",
    "var d = DateTime.UtcNow; while (d.Year > 0) { d = d.AddDays(1).AddDays(-1); }",
    "var l = new List<object>(); l.Add(l); return l;",
    "var o = new ExpandoObject(); o.Self = o; return JsonSerializer.Serialize(o);",
    "object o = null; for (var i = 0; i < 100000; i++) { o = new { O = o }; } return o;",
    "var l = new List<string>(); for (var i = 0; i < 100; i++) { l.Add(new string('x', 100000)); } return l;",
    "var s = \"aaaaaaaaaa\"; while (true) { s.IndexOf(s + \"b\"); s += \"a\"; }",
    "object o = null; for (var i = 0; i < 30000; i++) { o = new List<object> { o }; } return o;",
    "object o = null; for (var i = 0; i < 20000; i++) { o = new[] { new { O = o } }; } return o;",
    "object o = (1, 2); for (var i = 0; i < 20000; i++) { o = (o, o); } return o;",
    "return \"a\\0b\";",
    "var a = new string('a', 1000000); return Enumerable.Range(0, 10000).OrderBy(i => a).Count();",
    "var a = new string('a', 1000000); return Enumerable.Range(0, 10000).Max(i => a);",
    "var a = new string('a', 1000000); return Enumerable.Range(0, 10000).OrderBy(i => (a, i)).Count();",
    "var a = new string('a', 1000000); var b = a + \"\"; while (a == b) { } return 1;",
    "var a = new string('a', 1000000); var b = (a + \"\", 1); return Enumerable.Repeat((a, 1), 10000).Count(x => x != b);",
    "var a = new string('a', 1000000); var b = a + \"b\"; return Enumerable.Repeat(a, 10000).Contains(b);",
    "var a = new string('a', 1000000); return Enumerable.Repeat(a, 10000).Distinct().Count();",
    "var a = new string('a', 1000000); return Enumerable.Repeat(a, 10000).GroupBy(x => x).Count();",
    "var a = new string('a', 1000000); var d = new Dictionary<string, int>(); while (true) { d[a] = 1; }",
    "var a = new string('a', 1000000); var d = new Dictionary<string, int>(); while (true) { d.ContainsKey(a); }",
];

#[test]
fn hostile_scripts_are_stopped() {
    assert!(HOSTILE.len() >= 40, "{}", HOSTILE.len());
    for text in HOSTILE {
        let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let began = Instant::now();
        let ended = on_stack(|| script.run(&Fixture::new(), bounds()));
        let stop = ended.map(|result| result.value.to_string().len()).unwrap_err();
        // A build without optimisation takes some µs for a step.
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{text}: {:?}",
            began.elapsed()
        );
        let known = [
            StopKind::Steps,
            StopKind::Memory,
            StopKind::TooLarge,
            StopKind::Thrown,
            StopKind::InvalidText,
        ];
        assert!(known.contains(&stop.kind), "{text}: {stop}");
    }
}

/// A caller that stops a script when it is asked for the third time.
struct Third(Cell<usize>, Stopped);

impl Steps for Third {
    fn check(&self) -> Result<(), Stopped> {
        self.0.set(self.0.get() + 1);
        if self.0.get() < 3 { Ok(()) } else { Err(self.1) }
    }
}

#[test]
fn the_caller_stops_a_script() {
    let script = compile("while (true) { }").unwrap();
    let run = |stopped: Stopped| {
        let caller = Third(Cell::new(0), stopped);
        let bounds = Bounds {
            steps: u64::MAX,
            caller: Some(&caller),
            ..bounds()
        };
        script.run(&Fixture::new(), bounds).unwrap_err().kind
    };
    assert_eq!(run(Stopped::OutOfTime), StopKind::Time);
    assert_eq!(run(Stopped::Cancelled), StopKind::Cancelled);
}

/// The stack of a worker thread of the runtime holds the deepest script, also without optimisation.
#[test]
fn the_deepest_script_fits_into_a_small_stack() {
    let run = || {
        for text in [
            format!("{}1{}", "(1 + ".repeat(95), ")".repeat(95)),
            format!("1{}", " + 1.5".repeat(190)),
            format!("{}true", "!".repeat(95)),
            format!("\"a\"{}", ".Trim()".repeat(190)),
            format!("{}1{}", "new[] { ".repeat(60), " }".repeat(60)),
            format!("{}1{}", "Math.Abs(".repeat(60), ")".repeat(60)),
            format!("{} return 1; ", "if (true) ".repeat(90)),
            (0..20).fold("1".to_owned(), |inner, n| {
                format!("new[] {{ 1 }}.Select(x{n} => {{ return 1 + {inner}; }}).Count()")
            }),
        ] {
            let script = compile(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            drop(script.run(&Fixture::new(), bounds()));
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

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
    "return new DateTimeOffset(2024, 1, 1, 0, 0, 0, new TimeSpan(-1288490188800000000));",
    "return DateTimeOffset.UtcNow.ToOffset(new TimeSpan(-1288490188800000000));",
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
    "int F(int n) => F(n + 1); return F(0);",
    "int F(int n) { return n < 2 ? n : F(n - 1) + F(n - 2); } return F(60);",
    "int F(int n) => G(n); int G(int n) => F(n); return F(1);",
    "Func<int, int> f = null; f = n => f(n + 1); return f(0);",
    "Func<int, int> f = null, g = null; f = n => g(n); g = n => f(n); return f(0);",
    "Func<int, int> f = null; f = n => new[] { n }.Select(x => f(x)).Sum(); return f(0);",
    "Func<int> f = () => 1; while (true) { var g = f; f = () => g() + 1; }",
    "var l = new List<Func<int>>(); while (true) { Func<int> f = () => l.Count; l.Add(f); }",
    "object o = null; Func<object> f = () => o; o = f; while (true) { f(); }",
    "void F() { while (true) { } } F();",
    "while (true) { try { throw new Exception(\"x\"); } catch { } }",
    "while (true) { try { int.Parse(\"x\"); } catch (FormatException e) { } finally { } }",
    "try { while (true) { } } catch { return 1; } finally { while (true) { } }",
    "try { var s = \"x\"; while (true) { s += s; } } catch (Exception) { return 1; }",
    "int F(int n) { try { return F(n + 1); } catch { return F(n + 1); } } return F(0);",
    "int F(int n) { try { return F(n + 1); } finally { F(n + 1); } } return F(0);",
    "while (true) { switch (1) { case 1: break; } }",
    "while (true) { switch (1) { default: continue; } }",
    "var sb = new StringBuilder(\"x\"); while (true) { sb.Append(sb); }",
    "var sb = new StringBuilder(); while (true) { sb.Append('x', 1000000); }",
    "var sb = new StringBuilder(\"é\"); while (true) { sb.Insert(0, \"é\"); }",
    "var sb = new StringBuilder(\"x\"); while (true) { sb.Replace(\"x\", \"xx\"); }",
    "var sb = new StringBuilder(); while (true) { sb.Length = sb.Length + 100000; }",
    "var sb = new StringBuilder(new string('x', 1000000)); while (true) { sb.ToString(); }",
    "var sb = new StringBuilder(); while (true) { sb.AppendFormat(\"{0,100000}\", 1); }",
    "var s = new string('a', 100000); while (true) { Regex.IsMatch(s, \"(a*)*b\"); }",
    "var s = new string('a', 100000); while (true) { Regex.Match(s, \"a+$\"); }",
    "Regex.IsMatch(new string('a', 1000000), \"(?:a?){400}a{400}b\")",
    "var s = new string('a', 20000); return Regex.Matches(s, \"a(.*b)?\").Count + Regex.Matches(s, \"a(.*c)?\").Count;",
    "for (var i = 0; ; i++) { Regex.IsMatch(\"a\", \"a{500}\" + i); }",
    "Regex.IsMatch(\"a\", \"((((a{100}){100}){100}){100}){100}\")",
    "var s = new string('a', 100000); while (true) { s = Regex.Replace(s, \"a\", \"$0$0\"); }",
    "var s = new string('a', 100000); while (true) { Regex.Split(s, \"\"); }",
    "Regex.Replace(new string('a', 100000), \"a\", m => { while (true) { } return \"\"; })",
    "var s = new HashSet<int>(); for (var i = 0; ; i++) { s.Add(i); }",
    "var s = Enumerable.Range(0, 10000).ToHashSet(); while (true) { s.SetEquals(s); }",
    "var s = new HashSet<object>(); while (true) { s.Add(new List<int>()); s.Add(s); }",
    "var d = new SortedDictionary<int, int>(); for (var i = 0; ; i--) { d[i] = i; }",
    "var b = Encoding.UTF8.GetBytes(new string('a', 100000)); while (true) { Convert.ToBase64String(b); }",
    "var s = \"aa\"; while (true) { s = Convert.ToBase64String(Encoding.UTF8.GetBytes(s)); }",
    "var s = new string('a', 1000000); while (true) { var t = s[1..^1]; }",
    "var a = new int[100000]; while (true) { var t = a[1..]; }",
    "foreach (var (a, b) in Enumerable.Range(0, 1000000).Select(x => (x, x))) { while (true) { } }",
    "int a = 1, b = 2; while (true) { (a, b) = (b, a); }",
];

#[test]
fn hostile_scripts_are_stopped() {
    assert!(HOSTILE.len() >= 100, "{}", HOSTILE.len());
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

/// One operation of each makes, copies or compares much. The meter ends it before that is done.
const MUCH_AT_ONCE: &[(&str, StopKind)] = &[
    (
        "return new string('A', 100000).Replace(\"a\", new string('x', 1000000), StringComparison.OrdinalIgnoreCase);",
        StopKind::Memory,
    ),
    (
        "var a = new int[1000]; var b = Enumerable.Repeat(a, 1000); var c = Enumerable.Repeat(b, 1000); \
         return c.GetValue<int[][][]>().Length;",
        StopKind::Memory,
    ),
    (
        "var a = new int[1000]; var b = Enumerable.Repeat(a, 1000); var c = Enumerable.Repeat(b, 1000); \
         Variables.Set(\"c\" + 1, c); return Variables.Get<int[][][]>(\"c\" + 1).Length;",
        StopKind::Memory,
    ),
    (
        "var l = new List<string>(); while (true) { l.Add(new string('中', 1000000)); }",
        StopKind::Memory,
    ),
    (
        "var c = Enumerable.Repeat('x', 100000).ToArray(); var l = new List<string>(); while (true) { l.Add(new string(c)); }",
        StopKind::Memory,
    ),
    (
        "object l = Enumerable.Repeat(new string('x', 1000000), 10000); Outcome.Set(l); return 1;",
        StopKind::Memory,
    ),
    (
        "object l = Enumerable.Repeat(new string('x', 1000000), 10000); return \"x\".Trim(l);",
        StopKind::Memory,
    ),
    (
        "CorrelationId = new string('x', 1000000); var l = new List<string>(); \
         while (true) { CorrelationId = CorrelationId + \"x\"; l.Add(CorrelationId); }",
        StopKind::Memory,
    ),
    (
        "object o = (1, 2), p = (1, 2); for (var i = 0; i < 17; i++) { o = (o, o); p = (p, p); } while (o == p) { } return 1;",
        StopKind::Steps,
    ),
    (
        "var a = new string('a', 60000); return Enumerable.Range(0, 100000).Select(i => (a, i)).Distinct().Count();",
        StopKind::Memory,
    ),
    (
        "var a = new string('a', 60000); var d = new Dictionary<object, int>(); \
         for (var i = 0; i < 100000; i++) { d[(a, i)] = 1; } return d.Count;",
        StopKind::Memory,
    ),
    (
        "var a = new string('a', 60000); return Enumerable.Range(0, 100000).Select(i => a + i).GroupBy(x => x).Count();",
        StopKind::Memory,
    ),
    (
        "var l = new List<object>(); while (true) { l.Add(((1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1))); }",
        StopKind::Memory,
    ),
    (
        "var l = Enumerable.Repeat(new string('x', 100), 4000).ToList(); \
         for (var i = 0; i < 11; i++) { Variables.Set(\"x\" + i, l); } return 1;",
        StopKind::TooLarge,
    ),
    (
        "var s = \"[0\"; var z = \",0\"; for (var i = 0; i < 20; i++) { z = z + z; } \
         return JsonSerializer.Deserialize<List<int>>(s + z + \"]\").Count;",
        StopKind::Memory,
    ),
    (
        "var s = \"[\\\"\\\\\\\\\\\"\"; var z = \",0\"; for (var i = 0; i < 20; i++) { z = z + z; } \
         return JsonSerializer.Deserialize<List<object>>(s + z + \"]\").Count;",
        StopKind::Memory,
    ),
    (
        "var s = string.Join(\",\", Enumerable.Repeat(\"{\\\"a\\\":0}\", 100000)); \
         return JsonSerializer.Deserialize<List<object>>(\"[\" + s + \"]\").Count;",
        StopKind::Memory,
    ),
    ("return Enumerable.Repeat(1, 700000);", StopKind::Memory),
    ("return Enumerable.Repeat(new { A = 1 }, 150000);", StopKind::Memory),
    (
        "return Enumerable.Repeat(new Dictionary<string, int> { [\"A\"] = 1 }, 150000);",
        StopKind::Memory,
    ),
    (
        "object o = (1, 2); for (var i = 0; i < 16; i++) { o = (o, o); } var l = new List<string>(); \
         while (true) { l.Add(Convert.ToString(o)); }",
        StopKind::Memory,
    ),
    (
        "var a = new string('ж', 63); var t = (a, a, a, a, a, a, a); \
         while (true) { Enumerable.Range(0, 100000).OrderBy(i => t).Count(); }",
        StopKind::Steps,
    ),
    (
        "var a = new string('ж', 63); var t = (a, a, a, a, a, a, a); while (true) { Enumerable.Range(0, 1000).Max(i => t); }",
        StopKind::Steps,
    ),
    (
        "object o = 1; for (var i = 0; i < 16; i++) { o = (o, o); } var d = new Dictionary<object, int>(); \
         while (true) { d.ContainsKey(o); }",
        StopKind::Steps,
    ),
    (
        "var a = new string('a', 1000000); while (true) { \"a\".Contains(a, StringComparison.OrdinalIgnoreCase); }",
        StopKind::Steps,
    ),
    (
        "var a = new string('a', 1000000); while (true) { string.Equals(a, a, StringComparison.OrdinalIgnoreCase); }",
        StopKind::Steps,
    ),
    (
        "var a = new string(' ', 1000000); while (true) { string.IsNullOrWhiteSpace(a); }",
        StopKind::Steps,
    ),
    (
        "var a = new string('1', 1000000); while (true) { int.TryParse(a, out var n); }",
        StopKind::Steps,
    ),
    (
        "var a = new string[500000]; while (true) { string.Join(\"\", a); }",
        StopKind::Memory,
    ),
    (
        "var a = new string('é', 1000000); while (true) { var c = a[999999]; }",
        StopKind::Steps,
    ),
    (
        "var l = new List<object>(); while (true) { l.Add(new List<int>()); }",
        StopKind::Memory,
    ),
];

/// Those of the engine, but for the steps.
fn large() -> Bounds<'static> {
    Bounds {
        steps: 5_000_000,
        bytes: 64 << 20,
        ..bounds()
    }
}

#[test]
fn much_at_once_is_counted() {
    for (text, kind) in MUCH_AT_ONCE {
        let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let began = Instant::now();
        let steps = if *kind == StopKind::Steps {
            200_000
        } else {
            large().steps
        };
        let bounds = || Bounds { steps, ..large() };
        let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map(|result| result.value));
        let took = began.elapsed();
        assert_eq!(ended.map_err(|stop| stop.kind), Err(*kind), "{text}");
        assert!(took < Duration::from_secs(30), "{text}: {took:?}");
    }
    // A long text with many holes, which is one text that every hole repeats.
    let text = format!(
        "var a = new string('中', 1000000); return $\"{}\";",
        "{a}".repeat(1_000)
    );
    let script = compile(&text).unwrap();
    let stop = on_stack(|| script.run(&Fixture::new(), large()).unwrap_err());
    assert_eq!(stop.kind, StopKind::Memory);
    // Loops inside of each other read one list, not a copy each.
    let heads = (0..90).map(|number| format!("foreach (var a{number} in l) "));
    let text = format!(
        "var l = new int[1000000]; {}return 1; return 2;",
        heads.collect::<String>()
    );
    let script = compile(&text).unwrap_or_else(|problem| panic!("{problem}"));
    let began = Instant::now();
    assert_eq!(on_stack(|| script.run(&Fixture::new(), large()).unwrap().value), 1);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// These end with their result: to read is work, and takes no memory, however often it is done.
#[test]
fn what_only_reads_takes_no_memory() {
    for (text, value) in [
        ("var s = new string('a', 200000);", "s.Substring(i, 1).Length"),
        (
            "var s = new string('a', 100000); var t = s + \"b\";",
            "string.CompareOrdinal(s, t) + 2",
        ),
        (
            "var d = Enumerable.Range(0, 10000).ToDictionary(x => x);",
            "d.Count / 10000",
        ),
        ("var l = Enumerable.Range(1, 20000).ToList();", "l.First()"),
        ("var l = Enumerable.Range(1, 20000).Reverse().ToList();", "l.Last()"),
        (
            "var l = Enumerable.Range(1, 20000).ToList();",
            "(l.Contains(1) ? 1 : 0)",
        ),
        ("var l = Enumerable.Range(1, 20000).ToArray();", "l.Count() / 20000"),
        ("var l = Enumerable.Range(1, 20000).ToArray();", "l.ElementAt(0)"),
        ("var l = new int[20000]; l[19999] = 1;", "l.Sum()"),
        ("var l = new int[20000]; l[19999] = 1;", "l.Max()"),
        (
            "var l = new int[20000]; l[19999] = 20000;",
            "(l.Average() == 1 ? 1 : 0)",
        ),
    ] {
        let text = format!("{text} var n = 0; for (var i = 0; i < 300; i++) {{ n += {value}; }} return n;");
        let script = compile(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let bounds = || Bounds {
            bytes: 8 << 20,
            ..large()
        };
        let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map_err(|stop| stop.to_string()));
        assert_eq!(ended.map(|result| result.value), Ok(300.into()), "{text}");
    }
}

/// A little of each stays: many of them are stopped.
#[test]
fn what_stays_is_counted() {
    for text in [
        "var l = new List<object> { 1 }; for (var i = 0; i < 100000; i++) { l[0] = l; } return 1;",
        "for (var i = 0; i < 6000; i++) { Variables.Get<object>(\"x\" + i); } return 1;",
        "for (var i = 0; i < 6000; i++) { Variables.Set(\"x\" + i, 1); } return 1;",
    ] {
        let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let bounds = || Bounds {
            bytes: 1 << 20,
            ..large()
        };
        let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map(|result| result.value));
        assert_eq!(ended.map_err(|stop| stop.kind), Err(StopKind::Memory), "{text}");
    }
}

/// These end with their result: what takes them long would be a search in a search.
#[test]
fn searches_are_linear() {
    for (text, value) in [
        (
            "new string('a', 1000000).Replace(new string('a', 500000) + \"b\", \"\", StringComparison.OrdinalIgnoreCase).Length",
            1_000_000,
        ),
        ("new string('a', 1000000).Trim(new string('b', 1000000), 'a').Length", 0),
        (
            "\"xAxÄx\".Replace(\"äX\", \"--\", StringComparison.OrdinalIgnoreCase).Length",
            5,
        ),
    ] {
        let began = Instant::now();
        let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let ended = on_stack(|| script.run(&Fixture::new(), large()).map_err(|stop| stop.to_string()));
        assert_eq!(ended.map(|result| result.value), Ok(value.into()), "{text}");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{text}: {:?}",
            began.elapsed()
        );
    }
}

/// A sort counts what it takes, which leaves room for a list of this length.
#[test]
fn a_long_list_is_sorted() {
    let script = compile("Enumerable.Range(0, 150000).OrderBy(x => -x).Count()").unwrap();
    let ended = on_stack(|| script.run(&Fixture::new(), large()).map_err(|stop| stop.to_string()));
    assert_eq!(ended.map(|result| result.value), Ok(150_000.into()));
}

/// What is inside of a string of JSON begins no value, and an object without members has no room for one.
#[test]
fn json_counts_the_values_that_it_has() {
    for (text, value) in [
        ("\"\\\"\" + new string(',', 1000000) + \"\\\"\"", 1_000_000),
        ("\"\\\"\\\\\\\"\" + new string('[', 1000000) + \"\\\"\"", 1_000_001),
        (
            "\"\\\"\\\\\\\\\\\\\\\"\" + new string('{', 1000000) + \"\\\"\"",
            1_000_002,
        ),
    ] {
        let text = format!("return JsonSerializer.Deserialize<string>({text}).Length;");
        let script = compile(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let ended = on_stack(|| script.run(&Fixture::new(), large()).map_err(|stop| stop.to_string()));
        assert_eq!(ended.map(|result| result.value), Ok(value.into()), "{text}");
    }
    let text = "var s = string.Join(\",\", Enumerable.Repeat(\"{ }\", 100000)); \
                return JsonSerializer.Deserialize<List<object>>(\"[\" + s + \"]\").Count;";
    let script = compile(text).unwrap();
    let ended = on_stack(|| script.run(&Fixture::new(), large()).map_err(|stop| stop.to_string()));
    assert_eq!(ended.map(|result| result.value), Ok(100_000.into()));
}

/// Equal tuples are equal, however many parts they have.
#[test]
fn many_parts_are_compared() {
    let text = "object o = (1, 2), p = (1, 2); for (var i = 0; i < 16; i++) { o = (o, o); p = (p, p); } return o == p;";
    let script = compile(text).unwrap();
    let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map_err(|stop| stop.to_string()));
    assert_eq!(ended.map(|result| result.value), Ok(true.into()));
}

/// A search among many variables takes as many steps: of those of the instance, and of those that the script has read.
#[test]
fn searches_of_variables_are_counted() {
    let mut many = Fixture::new();
    for number in 0..20_000 {
        let name: &str = Box::leak(format!("v{number}").into_boxed_str());
        many.variables.insert(name, Default::default());
    }
    for (world, text) in [
        (
            &many,
            "for (var i = 0; i < 5000; i++) { Variables.Get<object>(\"x\" + i); } return 1;",
        ),
        (
            &Fixture::new(),
            "for (var i = 0; i < 5000; i++) { Variables.Get<object>(\"x\" + i); } return 1;",
        ),
    ] {
        let script = compile(text).unwrap();
        let bounds = Bounds {
            steps: 500_000,
            ..large()
        };
        let ended = script.run(world, bounds).map(|result| result.value);
        assert_eq!(ended.map_err(|stop| stop.kind), Err(StopKind::Steps), "{text}");
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

/// A caller that stops a script at a time.
struct Until(Instant);

impl Steps for Until {
    fn check(&self) -> Result<(), Stopped> {
        if Instant::now() < self.0 {
            Ok(())
        } else {
            Err(Stopped::OutOfTime)
        }
    }
}

/// Each separator is searched for by itself, which takes minutes for all of them: the caller is asked between two searches.
#[test]
fn the_caller_stops_a_split_by_many_separators() {
    let text = "var by = Enumerable.Range(0, 50000).Select(i => \"a\" + i).ToArray(); \
                return new string('a', 1000000).Split(by).Length;";
    let script = compile(text).unwrap();
    let began = Instant::now();
    let ended = on_stack(|| {
        let caller = Until(began + Duration::from_millis(500));
        let bounds = Bounds {
            steps: u64::MAX,
            caller: Some(&caller),
            ..large()
        };
        script.run(&Fixture::new(), bounds).map(|result| result.value)
    });
    assert_eq!(ended.map_err(|stop| stop.kind), Err(StopKind::Time));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Functions that call themselves end before the stack of a script does, also without optimisation; what they hold is freed.
#[test]
fn the_deepest_calls_fit_into_the_stack() {
    for (text, value) in [
        ("int F(int n) => n == 0 ? 0 : 1 + F(n - 1); return F(150);", 150),
        (
            "int F(int n) { if (n == 0) { return 0; } else { return 1 + F(n - 1); } } return F(100);",
            100,
        ),
        (
            "Func<int, int> f = null; f = n => n == 0 ? 0 : 1 + f(n - 1); return f(150);",
            150,
        ),
    ] {
        let script = compile(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map_err(|stop| stop.to_string()));
        assert_eq!(ended.map(|result| result.value), Ok(value.into()), "{text}");
    }
    for body in [
        "F(n + 1)",
        "1 + F(n + 1)",
        "new[] { n }.Select(x => F(x)).Sum()",
        "((((((((((F(n + 1)))))))))))",
        "F(F(F(F(F(n + 1)))))",
        "n switch { 0 => F(1), var m when F(m) > 0 => 1, _ => F(2) }",
        "int.Parse($\"{F(n)}\")",
        "Math.Max(1, Math.Max(2, Math.Max(3, F(n))))",
        "new[] { 1 }.Aggregate(0, (a, b) => new[] { 1 }.Sum(c => F(c)))",
        "new List<int> { new List<int> { F(n) }[0] }[0]",
        "(int?)F(n) ?? F(n)",
        "int.Parse(Regex.Replace(\"a\", \"a\", m => F(n).ToString()))",
    ] {
        for text in [
            format!("int F(int n) => {body}; return F(0);"),
            format!(
                "int F(int n) {{ if (n > -1) {{ foreach (var i in new[] {{ 1 }}) {{ try {{ return {body}; }} finally {{ }} }} }} return 0; }} return F(0);"
            ),
            format!("Func<int, int> F = null; F = n => {body}; return F(0);"),
        ] {
            let script = compile(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            let ended = on_stack(|| script.run(&Fixture::new(), bounds()).map(|result| result.value));
            assert_eq!(ended.map_err(|stop| stop.kind), Err(StopKind::Memory), "{text}");
        }
    }
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

//! The parts of C# that this subset lacks, each with what to write instead.

/// Keywords that cannot be names.
const KEYWORDS: &[&str] = &[
    "abstract",
    "as",
    "base",
    "bool",
    "break",
    "byte",
    "case",
    "catch",
    "char",
    "checked",
    "class",
    "const",
    "continue",
    "decimal",
    "default",
    "delegate",
    "do",
    "double",
    "else",
    "enum",
    "event",
    "explicit",
    "extern",
    "false",
    "finally",
    "fixed",
    "float",
    "for",
    "foreach",
    "goto",
    "if",
    "implicit",
    "in",
    "int",
    "interface",
    "internal",
    "is",
    "lock",
    "long",
    "namespace",
    "new",
    "null",
    "object",
    "operator",
    "out",
    "override",
    "params",
    "private",
    "protected",
    "public",
    "readonly",
    "ref",
    "return",
    "sbyte",
    "sealed",
    "short",
    "sizeof",
    "stackalloc",
    "static",
    "string",
    "struct",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "uint",
    "ulong",
    "unchecked",
    "unsafe",
    "ushort",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "await",
];

pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Words that begin what is refused: what it is, and the remedy.
const WORDS: &[(&str, &str)] = &[
    (
        "await",
        "a script has nothing to wait for; let an activity wait, such as Elsa.Delay or Elsa.Event",
    ),
    (
        "async",
        "a script has nothing to wait for; let an activity wait, such as Elsa.Delay or Elsa.Event",
    ),
    (
        "using",
        "the namespaces of Elsa's scripts are known already; remove the line",
    ),
    ("namespace", "remove it"),
    ("class", "write an anonymous object: new { A = 1 }"),
    ("struct", "write an anonymous object: new { A = 1 }"),
    ("record", "write an anonymous object: new { A = 1 }"),
    ("interface", "remove it"),
    ("enum", "use int or string constants"),
    ("delegate", "write a lambda as the argument of a method: x => x + 1"),
    ("event", "publish an event with the activity Elsa.PublishEvent"),
    ("unsafe", "remove it"),
    ("fixed", "remove it"),
    ("stackalloc", "write new int[n]"),
    ("sizeof", "write the number"),
    ("checked", "convert to long first, which holds more: (long)a * b"),
    ("unchecked", "arithmetic is unchecked already; remove it"),
    ("lock", "a script runs alone; remove it"),
    ("try", "put the activity into a Mainspring.Try, which catches its fault"),
    (
        "catch",
        "put the activity into a Mainspring.Try, which catches its fault",
    ),
    ("goto", "use if, while, break and continue"),
    ("yield", "add to a List<T>, and return it"),
    ("ref", "return the value"),
    ("static", "declare it as a local: var x = …"),
    ("public", "declare it as a local: var x = …"),
    ("private", "declare it as a local: var x = …"),
    ("protected", "declare it as a local: var x = …"),
    ("internal", "declare it as a local: var x = …"),
    ("volatile", "declare it as a local: var x = …"),
    ("extern", "remove it"),
    ("operator", "write a lambda as the argument of a method"),
    ("this", "name what you mean: Variables, Input, Output or Outcome"),
    ("base", "name what you mean: Variables, Input, Output or Outcome"),
    (
        "switch",
        "use a switch expression (x switch { 1 => \"a\", _ => \"b\" }), or if and else",
    ),
    ("typeof", "reflection is not available; compare with is: x is string"),
    ("float", "use double"),
    ("uint", "use long"),
    ("ulong", "use decimal"),
    ("short", "use int"),
    ("ushort", "use int"),
    ("byte", "use int"),
    ("sbyte", "use int"),
    ("nint", "use long"),
    (
        "dynamic",
        "use var: members of a JSON object are found when the script runs",
    ),
];

/// Types and namespaces of .NET that scripts have not.
const TYPES: &[(&str, &str)] = &[
    ("Console", "use the activity Elsa.WriteLine, or return the text"),
    ("Debug", "use the activity Elsa.WriteLine, or return the text"),
    ("Trace", "use the activity Elsa.WriteLine, or return the text"),
    (
        "File",
        "files are not available; let a program read them through an Elsa.RunTask",
    ),
    (
        "Directory",
        "files are not available; let a program read them through an Elsa.RunTask",
    ),
    (
        "Path",
        "files are not available; let a program read them through an Elsa.RunTask",
    ),
    (
        "FileInfo",
        "files are not available; let a program read them through an Elsa.RunTask",
    ),
    (
        "StreamReader",
        "files are not available; let a program read them through an Elsa.RunTask",
    ),
    (
        "StreamWriter",
        "files are not available; let a program write them through an Elsa.RunTask",
    ),
    ("MemoryStream", "use a string or a List<T>"),
    (
        "HttpClient",
        "the network is not available; let a program send the request through an Elsa.RunTask",
    ),
    (
        "WebClient",
        "the network is not available; let a program send the request through an Elsa.RunTask",
    ),
    (
        "Socket",
        "the network is not available; let a program do it through an Elsa.RunTask",
    ),
    (
        "Dns",
        "the network is not available; let a program do it through an Elsa.RunTask",
    ),
    (
        "Task",
        "a script has nothing to wait for; let an activity wait, such as Elsa.Delay",
    ),
    (
        "ValueTask",
        "a script has nothing to wait for; let an activity wait, such as Elsa.Delay",
    ),
    (
        "Thread",
        "a script has nothing to wait for; let an activity wait, such as Elsa.Delay",
    ),
    ("Parallel", "use the activity Elsa.Fork or Elsa.ParallelForEach"),
    ("Timer", "use the activity Elsa.Timer or Elsa.Delay"),
    ("Stopwatch", "subtract two values of DateTime.UtcNow"),
    (
        "Process",
        "processes are not available; let a program do it through an Elsa.RunTask",
    ),
    (
        "Environment",
        "the environment is not available; pass the value as an input of the workflow",
    ),
    ("AppDomain", "reflection is not available"),
    ("Assembly", "reflection is not available"),
    (
        "Activator",
        "reflection is not available; write new List<T>() or new { A = 1 }",
    ),
    ("Type", "reflection is not available; compare with is: x is string"),
    ("GC", "remove it"),
    ("Marshal", "remove it"),
    (
        "Random",
        "a repeated burst must not depend on chance; let an activity of a program choose, or use Guid.NewGuid()",
    ),
    (
        "Regex",
        "use Contains, StartsWith, IndexOf, Split and Replace, or a JavaScript expression",
    ),
    (
        "StringBuilder",
        "use string.Join, string.Concat or an interpolated string",
    ),
    (
        "CultureInfo",
        "the culture is always the invariant one; name no culture except CultureInfo.InvariantCulture",
    ),
    ("Encoding", "use a JavaScript expression: bytesFromString(…)"),
    ("BitConverter", "use a JavaScript expression"),
    ("DateOnly", "use DateTime, and its Date"),
    ("TimeOnly", "use TimeSpan, or the TimeOfDay of a DateTime"),
    ("BigInteger", "use decimal, which holds 28 digits"),
    (
        "XDocument",
        "XML is not available; let a program read it through an Elsa.RunTask",
    ),
    (
        "XmlDocument",
        "XML is not available; let a program read it through an Elsa.RunTask",
    ),
    ("DataTable", "use a List<T> of anonymous objects"),
    (
        "ServiceProvider",
        "services are not available; register an activity of a program",
    ),
    (
        "JObject",
        "use JsonSerializer.Deserialize<ExpandoObject>(text), or index the value itself",
    ),
];

/// What to write instead of what this word begins.
pub(crate) fn remedy(word: &str) -> Option<String> {
    let keyword = WORDS.iter().find(|(known, _)| *known == word);
    let ty = TYPES.iter().find(|(known, _)| *known == word);
    let (word, remedy) = keyword.or(ty)?;
    Some(format!("{word} is not part of the C# that runs here: {remedy}"))
}

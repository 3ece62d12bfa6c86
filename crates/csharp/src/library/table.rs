//! The members of each type that scripts can use, with their signatures.
//!
//! The checker reads arities and types here, and the evaluator implements each line; a test compares the two. A line is
//! `Name:arguments>result`. Arguments are letters; `?` begins the optional ones, and `*` repeats the last one.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A method's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Letters, see [`super::arguments`].
    pub(crate) arguments: Vec<char>,
    pub(crate) least: usize,
    /// The last argument may be repeated.
    pub(crate) repeats: bool,
    pub(crate) result: &'static str,
}

impl Signature {
    pub(crate) fn takes(&self, count: usize) -> bool {
        count >= self.least && (self.repeats || count <= self.arguments.len())
    }

    /// The letter of an argument.
    pub(crate) fn letter(&self, number: usize) -> char {
        let last = self.arguments.len().saturating_sub(1);
        self.arguments.get(number.min(last)).copied().unwrap_or('v')
    }
}

/// Members by type: `.` for those of values, the name of the type for static ones. Letters of arguments:
/// `t` string, `c` char or string, `i` int, `l` long, `n` number, `d` double, `b` bool, `v` any, `D` date, `S` TimeSpan,
/// `y` byte[], `j` RegexOptions, `k` comparison, `o` split option, `r` rounding, `K` kind of date, `s` sequence, `f` lambda, `p` condition, `m` lambda with an index, `g` lambda of
/// two, `x` culture or style, `O` out. Letters of results: the same, and `=` the receiver's type, `I` item, `s` sequence of
/// items, `L` list, `A` array, `F` result of the lambda, `T` the type argument, `_` nothing, `N` the type of the argument,
/// `H` set, `B` StringBuilder, `E` Encoding, `m` Match, `g` GroupCollection, `C` Group, `y` byte.
const METHODS: &[(&str, &str)] = &[
    (".any", "ToString:?tx>t Equals:v>b CompareTo:v>i GetValue:>T"),
    (
        ".string",
        "Contains:c?k>b StartsWith:c?k>b IndexOfAny:c>i EndsWith:c?k>b IndexOf:c?ii>i IndexOf:ck>i LastIndexOf:c?i>i ToUpper:?x>t ToLower:?x>t \
         ToUpperInvariant:>t ToLowerInvariant:>t Trim:?c*>t TrimStart:?c*>t TrimEnd:?c*>t Split:?v*>At Replace:cc?k>t \
         Substring:i?i>t Remove:i?i>t Insert:it>t PadLeft:i?c>t PadRight:i?c>t ToCharArray:>Ac Equals:v?k>b CompareTo:v>i \
         ToString:?x>t",
    ),
    (".bool", "ToString:?x>t"),
    (
        ".DateTime",
        "AddDays:d>= AddHours:d>= AddMinutes:d>= AddSeconds:d>= AddMilliseconds:d>= AddTicks:l>= AddMonths:i>= AddYears:i>= Add:S>= \
         Subtract:v>v ToUniversalTime:>= ToLocalTime:>= ToShortDateString:>t ToLongDateString:>t ToShortTimeString:>t \
         ToLongTimeString:>t ToString:?tx>t ToString:x>t",
    ),
    (
        ".DateTimeOffset",
        "AddDays:d>= AddHours:d>= AddMinutes:d>= AddSeconds:d>= AddMilliseconds:d>= AddTicks:l>= AddMonths:i>= AddYears:i>= Add:S>= \
         Subtract:v>v ToUniversalTime:>= ToLocalTime:>= ToOffset:S>= ToUnixTimeSeconds:>l ToUnixTimeMilliseconds:>l \
         ToString:?tx>t ToString:x>t",
    ),
    (
        ".TimeSpan",
        "Add:S>= Subtract:S>= Negate:>= Duration:>= Multiply:d>= Divide:v>v ToString:?tx>t",
    ),
    (".Nullable", "GetValueOrDefault:?v>P"),
    (
        ".list",
        "Add:v>_ AddRange:s>_ Insert:iv>_ Remove:v>b RemoveAt:i>_ RemoveAll:p>i RemoveRange:ii>_ Clear:>_ IndexOf:v>i Sort:>_ \
         ForEach:f>_ Exists:p>b Find:p>I FindLast:p>I FindAll:p>L FindIndex:p>i TrueForAll:p>b GetRange:ii>L ConvertAll:f>LF",
    ),
    (
        ".sequence",
        "Where:m>s Select:m>sF SelectMany:m?g>sG Any:?p>b All:p>b First:?p>I FirstOrDefault:?q>I Last:?p>I LastOrDefault:?q>I \
         Single:?p>I SingleOrDefault:?q>I Count:?p>i LongCount:?p>l Sum:?f>N Min:?f>N Max:?f>N Average:?f>a MinBy:f>I MaxBy:f>I \
         OrderBy:f>s OrderByDescending:f>s Order:>s OrderDescending:>s ThenBy:f>s ThenByDescending:f>s Distinct:>s DistinctBy:f>s \
         Take:i>s Skip:i>s TakeWhile:m>s SkipWhile:m>s TakeLast:i>s SkipLast:i>s Contains:v>b ToList:>L ToArray:>A ToHashSet:>H \
         ToDictionary:f?f>M GroupBy:f?f>Q Aggregate:g>I Aggregate:vg?f>U Concat:s>s Union:s>s Intersect:s>s Except:s>s \
         Reverse:>s Zip:s?g>Z Append:v>s Prepend:v>s ElementAt:i>I ElementAtOrDefault:i>I DefaultIfEmpty:?v>s Cast:>sT \
         OfType:>sT Chunk:i>v SequenceEqual:s>b AsEnumerable:>s",
    ),
    (
        ".set",
        "Add:v>b Remove:v>b Contains:v>b Clear:>_ UnionWith:s>_ IntersectWith:s>_ ExceptWith:s>_ SymmetricExceptWith:s>_ \
         SetEquals:s>b IsSubsetOf:s>b IsSupersetOf:s>b Overlaps:s>b RemoveWhere:p>i",
    ),
    (
        ".StringBuilder",
        "Append:v>B Append:ci>B AppendLine:?t>B AppendFormat:tv*>B AppendJoin:cv*>B Insert:iv>B Replace:cc>B Remove:ii>B Clear:>B \
         ToString:>t ToString:ii>t",
    ),
    (".Encoding", "GetBytes:t>Ay GetString:y>t GetByteCount:t>i"),
    (
        ".Regex",
        "IsMatch:t>b Match:t>m Matches:t>Lm Replace:tt>t Replace:tf>t Split:t>At Count:t>i",
    ),
    (".Match", "NextMatch:>m"),
    (
        ".map",
        "Add:vv>_ TryAdd:vv>b Remove:v>b ContainsKey:v>b ContainsValue:v>b TryGetValue:vO>b GetValueOrDefault:v?v>V Clear:>_",
    ),
    (
        "string",
        "IsNullOrEmpty:t>b IsNullOrWhiteSpace:t>b Join:cv*>t Concat:v*>t Format:tv*>t Compare:tt?v>i CompareOrdinal:tt>i \
         Equals:tt?k>b",
    ),
    (
        "char",
        "IsDigit:c>b IsLetter:c>b IsLetterOrDigit:c>b IsWhiteSpace:c>b IsUpper:c>b IsLower:c>b IsPunctuation:c>b ToUpper:c?x>c \
         ToLower:c?x>c ToUpperInvariant:c>c ToLowerInvariant:c>c GetNumericValue:c>d ToString:c>t",
    ),
    ("int", "Parse:t?xx>i TryParse:tO>b TryParse:txxO>b"),
    ("long", "Parse:t?xx>l TryParse:tO>b TryParse:txxO>b"),
    (
        "double",
        "Parse:t?xx>d TryParse:tO>b TryParse:txxO>b IsNaN:d>b IsInfinity:d>b",
    ),
    (
        "decimal",
        "Parse:t?xx>e TryParse:tO>b TryParse:txxO>b Round:n?vr>e Floor:n>e Ceiling:n>e Truncate:n>e Negate:n>e Abs:n>e Add:nn>e Subtract:nn>e \
         Multiply:nn>e Divide:nn>e Remainder:nn>e",
    ),
    ("bool", "Parse:t>b TryParse:tO>b"),
    (
        "Math",
        "Abs:n>N Max:nn>W Min:nn>W Round:n?vr>R Floor:n>R Ceiling:n>R Truncate:n>R Sqrt:d>d Pow:dd>d Sign:n>i Clamp:nnn>W Log:d?d>d \
         Log10:d>d Log2:d>d Exp:d>d Sin:d>d Cos:d>d Tan:d>d Asin:d>d Acos:d>d Atan:d>d Atan2:dd>d Cbrt:d>d",
    ),
    (
        "Convert",
        "ToInt32:v?x>i ToInt32:ti>i ToInt64:v?x>l ToInt64:ti>l ToDouble:v?x>d ToDecimal:v?x>e ToBoolean:v?x>b ToString:v?x>t \
         ToString:li>t ToDateTime:v?x>D ToChar:v>c ToBase64String:y>t FromBase64String:t>Ay ToHexString:y>t FromHexString:t>Ay",
    ),
    (
        "DateTime",
        "Parse:t?xx>D ParseExact:ttx?x>D TryParse:tO>b TryParse:txxO>b TryParseExact:ttxxO>b DaysInMonth:ii>i IsLeapYear:i>b \
         SpecifyKind:DK>D Compare:DD>i",
    ),
    (
        "DateTimeOffset",
        "Parse:t?xx>o TryParse:tO>b FromUnixTimeSeconds:l>o FromUnixTimeMilliseconds:l>o",
    ),
    (
        "TimeSpan",
        "FromDays:d>S FromHours:d>S FromMinutes:d>S FromSeconds:d>S FromMilliseconds:d>S FromTicks:l>S Parse:t?x>S TryParse:tO>b",
    ),
    (
        "Regex",
        "IsMatch:tt?j>b Match:tt?j>m Matches:tt?j>Lm Replace:ttt?j>t Replace:ttf?j>t Split:tt?j>At Count:tt?j>i Escape:t>t",
    ),
    ("BitConverter", "ToString:y>t"),
    ("Guid", "NewGuid:>G Parse:t>G TryParse:tO>b"),
    ("Enumerable", "Range:ii>si Repeat:vi>sN Empty:>sT"),
    ("Array", "Empty:>AT IndexOf:sv>i"),
    ("JsonSerializer", "Serialize:v?v>t Deserialize:t?v>T"),
    ("JsonNode", "Parse:t>v"),
    ("Variables", "Get:t>T Set:tv>_"),
    ("Input", "Get:t>T"),
    ("Output", "From:t?t>T Get:t?t>T"),
    ("Outcome", "Set:t*>_"),
    ("Arguments", "Get:t>T ContainsKey:t>b"),
    (
        "ExecutionContext",
        "GetVariable:t>T SetVariable:tv>_ GetInput:t>T CreateEventTriggerUrl:t?vi>t CreateResumeUrl:?vi>t",
    ),
];

const PROPERTIES: &[(&str, &str)] = &[
    (".string", "Length>i"),
    (
        ".DateTime",
        "Year>i Month>i Day>i Hour>i Minute>i Second>i Millisecond>i Ticks>l DayOfWeek>w DayOfYear>i Date>= TimeOfDay>S Kind>K",
    ),
    (
        ".DateTimeOffset",
        "Year>i Month>i Day>i Hour>i Minute>i Second>i Millisecond>i Ticks>l DayOfWeek>w DayOfYear>i Date>D TimeOfDay>S Offset>S \
         UtcDateTime>D DateTime>D LocalDateTime>D UtcTicks>l",
    ),
    (
        ".TimeSpan",
        "Days>i Hours>i Minutes>i Seconds>i Milliseconds>i Ticks>l TotalDays>d TotalHours>d TotalMinutes>d TotalSeconds>d \
         TotalMilliseconds>d",
    ),
    (".Nullable", "HasValue>b Value>P"),
    (".list", "Count>i"),
    (".set", "Count>i"),
    (".StringBuilder", "Length>i"),
    (".Exception", "Message>t"),
    (".Group", "Success>b Value>t Index>i Length>i Name>t"),
    (".Match", "Groups>g"),
    (".GroupCollection", "Count>i Values>LC"),
    ("Encoding", "UTF8>E ASCII>E"),
    (".array", "Length>i"),
    (".map", "Count>i Keys>X Values>Y"),
    ("string", "Empty>t"),
    ("char", "MaxValue>c MinValue>c"),
    ("int", "MaxValue>i MinValue>i"),
    ("long", "MaxValue>l MinValue>l"),
    (
        "double",
        "MaxValue>d MinValue>d NaN>d Epsilon>d PositiveInfinity>d NegativeInfinity>d",
    ),
    ("decimal", "MaxValue>e MinValue>e Zero>e One>e MinusOne>e"),
    ("bool", "TrueString>t FalseString>t"),
    ("Math", "PI>d E>d"),
    ("DateTime", "Now>D UtcNow>D Today>D MinValue>D MaxValue>D UnixEpoch>D"),
    ("DateTimeOffset", "Now>o UtcNow>o MinValue>o MaxValue>o UnixEpoch>o"),
    (
        "TimeSpan",
        "Zero>S MaxValue>S MinValue>S TicksPerDay>l TicksPerHour>l TicksPerMinute>l TicksPerSecond>l TicksPerMillisecond>l",
    ),
    ("Guid", "Empty>G"),
    ("Output", "LastResult>v"),
    ("CultureInfo", "InvariantCulture>v CurrentCulture>v CurrentUICulture>v"),
    (
        "NumberStyles",
        "Any>v None>v Integer>v Float>v Number>v AllowDecimalPoint>v",
    ),
    ("DateTimeStyles", "None>v"),
];

type Methods = HashMap<&'static str, HashMap<&'static str, Vec<Signature>>>;
type Properties = HashMap<&'static str, HashMap<&'static str, &'static str>>;

static BY_TYPE: LazyLock<Methods> = LazyLock::new(|| {
    let mut all: Methods = HashMap::new();
    for (owner, lines) in METHODS {
        let of_type = all.entry(owner).or_default();
        for line in lines.split_whitespace() {
            let (name, rest) = line.split_once(':').unwrap_or((line, ">v"));
            let (arguments, result) = rest.split_once('>').unwrap_or((rest, "v"));
            let required = arguments.split('?').next().unwrap_or_default();
            let repeats = arguments.ends_with('*');
            let letters: Vec<char> = arguments.chars().filter(|c| *c != '?' && *c != '*').collect();
            let mut least = required.chars().filter(|c| *c != '*').count();
            if repeats && least == letters.len() {
                least -= 1;
            }
            of_type.entry(name).or_default().push(Signature {
                arguments: letters,
                least,
                repeats,
                result,
            });
        }
    }
    all
});

static PROPERTIES_BY_TYPE: LazyLock<Properties> = LazyLock::new(|| {
    let mut all: Properties = HashMap::new();
    for (owner, lines) in PROPERTIES {
        let of_type = all.entry(owner).or_default();
        of_type.extend(lines.split_whitespace().filter_map(|line| line.split_once('>')));
    }
    all
});

/// The methods of a name, of the first of these types that has one.
pub(crate) fn methods(owners: &[&str], name: &str) -> Option<&'static [Signature]> {
    let all: &'static Methods = &BY_TYPE;
    let found = owners.iter().find_map(|owner| all.get(*owner)?.get(name));
    found.map(Vec::as_slice)
}

/// Whether a value of any type has a method of this name.
pub(crate) fn any_methods(name: &str) -> Vec<&'static Signature> {
    let of_values = BY_TYPE.iter().filter(|(owner, _)| owner.starts_with('.'));
    of_values
        .filter_map(|(_, methods)| methods.get(name))
        .flatten()
        .collect()
}

/// The letter of a property's type.
pub(crate) fn property(owners: &[&str], name: &str) -> Option<&'static str> {
    owners
        .iter()
        .find_map(|owner| PROPERTIES_BY_TYPE.get(*owner)?.get(name).copied())
}

/// Names of members, for messages.
pub(crate) fn names(owners: &[&str]) -> Vec<&'static str> {
    let methods = owners
        .iter()
        .filter_map(|owner| BY_TYPE.get(owner))
        .flat_map(HashMap::keys);
    let properties = owners
        .iter()
        .filter_map(|owner| PROPERTIES_BY_TYPE.get(owner))
        .flat_map(HashMap::keys);
    let mut all: Vec<&str> = methods.chain(properties).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Every static member and every member of values, for the test that each one is implemented.
#[cfg(test)]
pub(crate) fn every_method() -> Vec<(&'static str, &'static str, Signature)> {
    let of_type = |(owner, methods): (&&'static str, &HashMap<&'static str, Vec<Signature>>)| {
        let owner = *owner;
        let all = methods.iter().flat_map(move |(name, list)| {
            let name = *name;
            list.iter().map(move |signature| (owner, name, signature.clone()))
        });
        all.collect::<Vec<_>>()
    };
    BY_TYPE.iter().flat_map(of_type).collect()
}

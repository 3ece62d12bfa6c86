//! Scripts that cannot change the global object, so that the realm needs no sweep after them.
//!
//! Such a script is one expression of literals, names, members, calls and operators. It assigns nothing, defines no
//! function, and names nothing but Elsa's functions, `variables` and the built-in objects of [`GLOBALS`], none of which
//! gives it the global object, `eval` or the constructor of functions: members are named by identifiers, which are
//! compared with [`REFUSED`], or are numbers. Whatever is not recognized is not pure.

/// What a pure script may name, besides Elsa's functions.
const GLOBALS: &[&str] = &[
    "Boolean",
    "Date",
    "Infinity",
    "JSON",
    "Math",
    "NaN",
    "Number",
    "String",
    "false",
    "isFinite",
    "isNaN",
    "new",
    "null",
    "parseFloat",
    "parseInt",
    "true",
    "typeof",
    "undefined",
    "variables",
];

/// The prefixes of Elsa's functions. Any other global name with such a prefix is an accessor, or does not exist.
const FUNCTIONS: &[&str] = &[
    "get",
    "set",
    "isNull",
    "toJson",
    "parseGuid",
    "new",
    "bytes",
    "stream",
    "string",
];

/// Members that lead to constructors, to what objects inherit, or to another `this`.
const REFUSED: &[&str] = &[
    "apply",
    "arguments",
    "bind",
    "call",
    "callee",
    "caller",
    "constructor",
    "prototype",
];

/// Members that brief scripts may call: what they take grows with the length of the text or number.
const BRIEF_MEMBERS: &[&str] = &[
    "charAt",
    "endsWith",
    "slice",
    "startsWith",
    "substring",
    "toFixed",
    "toLowerCase",
    "toString",
    "toUpperCase",
    "trim",
];

/// A longer text is not searched.
const MAX_TEXT: usize = 4 << 10;

/// The longest brief script.
const MAX_BRIEF: usize = 1 << 10;

/// How deep parentheses and templates of a brief script are: its parser recurses.
const MAX_BRIEF_DEPTH: usize = 16;

/// Whether nothing that this script does outlives it in a realm whose built-in objects are frozen.
pub(super) fn is_pure(script: &str) -> bool {
    script.len() <= MAX_TEXT && Scanner::of(script).finds_nothing_else()
}

/// Whether a script is pure and takes little time, if the values that it reads are small: it calls only functions whose work grows
/// with their arguments, waits for nothing, and has no BigInt.
pub(super) fn is_brief(script: &str) -> bool {
    let mut scanner = Scanner::of(script);
    script.len() <= MAX_BRIEF && scanner.finds_nothing_else() && scanner.is_brief
}

/// What the scanner is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Parentheses,
    /// A part of a template literal, whose text continues after it.
    Template,
}

struct Scanner<'s> {
    rest: &'s str,
    inside: Vec<Inside>,
    /// The last sign is a `.`, so a member follows.
    is_member: bool,
    /// The last token is an operand, so a `/` divides; otherwise it would begin a regular expression, in which quotes
    /// and brackets have no meaning.
    is_operand: bool,
    /// The last token is `Math`.
    is_math: bool,
    /// The last token is a function that a brief script may call.
    is_brief_function: bool,
    /// Nothing was found that a brief script has not.
    is_brief: bool,
}

impl<'s> Scanner<'s> {
    fn of(script: &'s str) -> Self {
        Self {
            rest: script,
            inside: Vec::new(),
            is_member: false,
            is_operand: false,
            is_math: false,
            is_brief_function: false,
            is_brief: true,
        }
    }

    /// Whether the text contains only what is known to be pure.
    fn finds_nothing_else(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let Some(first) = self.rest.chars().next() else {
                return self.inside.is_empty();
            };
            let is_known = match first {
                'a'..='z' | 'A'..='Z' | '_' | '$' => self.word(),
                '0'..='9' => self.number(),
                '\'' | '"' => self.text(first),
                '`' => self.skip(1) && self.template(),
                _ => self.sign(first),
            };
            if !is_known {
                return false;
            }
        }
    }

    fn skip(&mut self, bytes: usize) -> bool {
        let rest = self.rest.get(bytes..);
        self.rest = rest.unwrap_or_default();
        rest.is_some()
    }

    /// Takes the characters for which a predicate holds.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'s str {
        let after = self.rest.trim_start_matches(is_part);
        let taken = self.rest.strip_suffix(after).unwrap_or_default();
        self.rest = after;
        taken
    }

    fn word(&mut self) -> bool {
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        self.is_operand = true;
        let is_of_math = std::mem::replace(&mut self.is_math, word == "Math");
        if std::mem::take(&mut self.is_member) {
            self.is_brief_function = is_of_math || BRIEF_MEMBERS.contains(&word);
            return !REFUSED.contains(&word) && !word.starts_with("__");
        }
        let is_function = || {
            FUNCTIONS.iter().any(|begin| {
                let rest = word.strip_prefix(begin);
                rest.is_some_and(|rest| {
                    rest.is_empty() && *begin != "new" || rest.starts_with(|c: char| c.is_ascii_uppercase())
                })
            })
        };
        self.is_operand = !matches!(word, "new" | "typeof");
        let is_function = is_function();
        // A secret is read from a file.
        self.is_brief_function = is_function && word != "getSecret";
        self.is_brief &= word != "new";
        GLOBALS.contains(&word) || is_function
    }

    /// Digits, and a fraction. A member of a number is not recognized.
    fn number(&mut self) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let digits = self.take(is_part);
        self.is_brief &= !digits.ends_with('n');
        let fraction = self.rest.strip_prefix('.');
        if fraction.is_some_and(|fraction| fraction.starts_with(|c: char| c.is_ascii_digit())) {
            self.skip(1);
            self.take(is_part);
        }
        self.is_operand = true;
        !std::mem::take(&mut self.is_member) && !self.rest.starts_with('.')
    }

    fn text(&mut self, quote: char) -> bool {
        if self.is_member || !self.skip(1) {
            return false;
        }
        self.is_operand = true;
        loop {
            self.take(|c| c != quote && c != '\\' && c != '\n');
            if self.rest.starts_with(quote) {
                return self.skip(1);
            }
            if !self.rest.starts_with('\\') || !self.escape() {
                return false;
            }
        }
    }

    /// A backslash and the character after it.
    fn escape(&mut self) -> bool {
        let escaped = self.rest.chars().nth(1);
        escaped.is_some_and(|escaped| self.skip(1 + escaped.len_utf8()))
    }

    /// The text of a template literal, up to its end or the next expression in it.
    fn template(&mut self) -> bool {
        if self.is_member {
            return false;
        }
        loop {
            self.take(|c| !matches!(c, '`' | '\\' | '$'));
            if self.rest.starts_with('`') {
                self.is_operand = true;
                return self.skip(1);
            }
            if self.rest.starts_with("${") {
                self.is_brief &= self.inside.len() < MAX_BRIEF_DEPTH;
                self.inside.push(Inside::Template);
                self.is_operand = false;
                return self.skip(2);
            }
            let is_part = if self.rest.starts_with('$') {
                self.skip(1)
            } else {
                self.escape()
            };
            if !is_part {
                return false;
            }
        }
    }

    fn sign(&mut self, first: char) -> bool {
        if self.is_member {
            return false;
        }
        let next = self.rest.chars().nth(1);
        let was_operand = std::mem::replace(&mut self.is_operand, matches!(first, ')' | '['));
        let is_called = std::mem::take(&mut self.is_brief_function);
        match (first, next) {
            ('(', _) => {
                self.is_brief &= (!was_operand || is_called) && self.inside.len() < MAX_BRIEF_DEPTH;
                self.inside.push(Inside::Parentheses);
                self.skip(1)
            }
            (')', _) => self.inside.pop() == Some(Inside::Parentheses) && self.skip(1),
            // Only the index of an element, as a number.
            ('[', Some('0'..='9')) if was_operand => {
                self.skip(1);
                self.take(|c| c.is_ascii_digit());
                self.rest.starts_with(']') && self.skip(1)
            }
            ('}', _) => self.inside.pop() == Some(Inside::Template) && self.skip(1) && self.template(),
            ('.', Some('0'..='9')) => !was_operand && self.skip(1) && self.number(),
            ('.', _) => {
                self.is_member = true;
                was_operand && self.skip(1)
            }
            // Before a bracket it is an element or a call.
            ('?', Some('.')) => {
                self.skip(2);
                self.is_member = self
                    .rest
                    .starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
                self.is_operand = was_operand && self.rest.starts_with(['[', '(']);
                self.is_member || self.is_operand
            }
            ('+' | '-' | '~' | ':' | ',', _) => next != Some('=') && next != Some(first) && self.skip(1),
            ('=' | '!' | '<' | '>' | '*' | '/' | '%' | '&' | '|' | '^' | '?', _) => {
                let operator =
                    self.take(|c| matches!(c, '=' | '!' | '<' | '>' | '*' | '%' | '&' | '|' | '^' | '?' | '/'));
                is_pure_operator(operator) && (was_operand || operator.starts_with('!'))
            }
            _ => false,
        }
    }
}

/// Whether a run of signs changes nothing: a comparison, or another operator without an assignment.
fn is_pure_operator(operator: &str) -> bool {
    // As in `a || !b`.
    let of_two = match operator.trim_end_matches('!') {
        "" if operator.starts_with('!') => return true,
        other => other,
    };
    matches!(
        of_two,
        "==" | "==="
            | "!="
            | "!=="
            | "<"
            | "<="
            | ">"
            | ">="
            | "<<"
            | ">>"
            | ">>>"
            | "*"
            | "**"
            | "/"
            | "%"
            | "&"
            | "&&"
            | "|"
            | "||"
            | "^"
            | "?"
            | "??"
    )
}

#[cfg(test)]
mod tests {
    use super::{is_brief, is_pure};

    #[test]
    fn scripts_that_only_read_and_compute_are_brief() {
        for script in [
            "1 + 2",
            "`V is ${variables.V + 1}`",
            "getCounter() + 1 > 3 && !getDone()",
            "getVariable('A') ?? \"none\"",
            "Math.max(getA(), .5) / 2 >= 3 && !isNullOrEmpty(getB())",
            "variables.price.toFixed(2)",
            "variables.order.lines[0].price * 1.19",
            "(getA() + getB()) * 2",
            "setOutcome('Done')",
        ] {
            assert!(is_brief(script), "{script}");
        }
    }

    #[test]
    fn what_may_take_long_is_not_brief() {
        for script in [
            "'a'.repeat(1e9)",
            "('a'.repeat)(1e9)",
            "(1 ? 'a'.repeat : getA)(1e9)",
            "9n ** 9999999n",
            "getText().split('')",
            "getText().indexOf('aaaa')",
            "new Date().getTime()",
            "JSON.stringify(variables.x)",
            "JSON.parse(getText())",
            "await getSecret('x')",
            "getSecret('x')",
            "'a'?.padStart(1e9)",
            "variables.list.map(String)",
            "x = 1",
        ] {
            assert!(!is_brief(script), "{script}");
        }
        assert!(!is_brief(&format!("{}1{}", "(".repeat(20), ")".repeat(20))));
        assert!(!is_brief(&"1+".repeat(600)));
    }

    #[test]
    fn ordinary_expressions_are_pure() {
        for script in [
            "1 + 2",
            "getCounter() + 1",
            "variables.order.lines[0].price * 1.19",
            "getVariable('A') ?? \"none\"",
            "`Hello ${getName()}, ${variables.count > 1 ? `all ${variables.count}` : 'one'} of you`",
            "Math.max(getA(), .5) / 2 >= 3 && !isNullOrEmpty(getB())",
            "variables.a === 'x' || !variables.b?.c",
            "JSON.stringify(variables.order).length % 7 === 0",
            "new Date(getDue()).getFullYear() - 1",
            "setOutcome('Done')",
            "typeof getInput('x') !== 'undefined'",
            "toJson(getLastResult())",
            "'it\\'s'.toUpperCase()",
            "newGuid()",
            "variables.x?.[0] ?? -1",
        ] {
            assert!(is_pure(script), "{script}");
        }
    }

    #[test]
    fn what_may_reach_the_global_object_is_not_pure() {
        for script in [
            "x = 1",
            "variables.x = 1",
            "variables.x += 1",
            "variables.x ??= 1",
            "variables.x **= 2",
            "variables.x >>>= 2",
            "variables.x++",
            "--variables.x",
            "globalThis",
            "this.x",
            "eval('x')",
            "Function('return this')()",
            "getA.constructor('return this')()",
            "getA?.constructor('x')",
            "getA. constructor('x')",
            "1..constructor.constructor('return this')()",
            "1.5.constructor",
            "1e3.constructor",
            ".5.constructor",
            "1n.constructor",
            "''['constr' + 'uctor']",
            "''[getA()]",
            "[]",
            "[0].constructor",
            "({})",
            "(() => 1)()",
            "getA.call(1)",
            "getA\\u002econstructor",
            "getA.con\\u0073tructor",
            "Object.getPrototypeOf('')",
            "Reflect.get('', 'x')",
            "''.__proto__",
            "Date.prototype",
            "delete variables.x",
            "/'/, (globalThis.x = 1), /'/",
            "getA()\n/'/, (globalThis.x = 1), /'/g",
            "(1, /`/, globalThis.x = 1, /`/)",
            "typeof /'/, (x = 1), /'/",
            "1 // '\n, (x = 1) // '",
            "1 /* ' */, (x = 1) /* ' */",
            "`${x = 1}`",
            "`${`${x = 1}`}`",
            "'a' 'b', x = '",
            "`a",
            "'a\n'",
            "import('x')",
            "await getSecret('x')",
            "été",
            "((1)",
            "1)",
            "...getA()",
            "#x",
            "a;b",
            "<!-- '\n x = 1 //'",
        ] {
            assert!(!is_pure(script), "{script}");
        }
        assert!(!is_pure(&"1+".repeat(4000)));
    }
}

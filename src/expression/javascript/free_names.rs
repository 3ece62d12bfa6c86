//! The names that a script reads and does not declare, found in its text without running it.
//!
//! Only what is certain is found: a name counts as declared if any part of the script may declare it, wherever that is, and a
//! text whose meaning depends on more than its tokens has no free names. A name behind `typeof` is asked for, and not read.

use std::collections::{HashMap, HashSet};

use super::tokens::{BEFORE_PARENTHESES, Token, tokens_of};
use crate::expression::language::Place;

/// Words that are no names, or name what every function has.
const WORDS: &[&str] = &[
    "arguments",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// The most tokens between `class` and its body.
const MOST_BEFORE_BODY: usize = 200;

/// The most brackets between `typeof` and a name.
const MOST_BRACKETS: usize = 8;

/// The names that are read and nowhere declared, each at its first place.
pub(super) fn free_names(script: &str) -> Vec<(String, Place)> {
    let Some(tokens) = tokens_of(script) else {
        return Vec::new();
    };
    let text = Tokens::of(&tokens);
    if text.hands_out_the_global_object() {
        return Vec::new();
    }
    let declared = text.declared();
    let asked = text.asked();
    let mut seen = HashSet::new();
    let mut free = Vec::new();
    for (index, (token, place)) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        let is_free = text.is_read(index)
            && !WORDS.contains(name)
            && !declared.contains(name)
            && !asked.contains(name)
            && seen.insert(*name);
        if is_free {
            free.push(((*name).to_owned(), *place));
        }
    }
    free
}

/// The tokens of a script, and which brackets belong together.
struct Tokens<'t, 's> {
    tokens: &'t [(Token<'s>, Place)],
    /// The closing bracket of an opening one, and the other way round.
    pairs: HashMap<usize, usize>,
    /// The colons that belong to a `?`.
    of_conditions: HashSet<usize>,
}

impl<'t, 's> Tokens<'t, 's> {
    fn of(tokens: &'t [(Token<'s>, Place)]) -> Self {
        let mut pairs = HashMap::new();
        let mut of_conditions = HashSet::new();
        // The brackets that are open, and how many `?` wait for their colon in them.
        let mut open = vec![(usize::MAX, 0_usize)];
        for (index, (token, _)) in tokens.iter().enumerate() {
            match token {
                Token::Open | Token::Sign("(" | "[" | "{") => open.push((index, 0)),
                Token::Close | Token::Sign(")" | "]" | "}") => {
                    if let Some((opening, _)) = open.pop() {
                        pairs.insert(opening, index);
                        pairs.insert(index, opening);
                    }
                }
                Token::Sign("?") => {
                    if let Some((_, waiting)) = open.last_mut() {
                        *waiting += 1;
                    }
                }
                Token::Sign(":") => {
                    if let Some((_, waiting)) = open.last_mut().filter(|(_, waiting)| *waiting > 0) {
                        *waiting -= 1;
                        of_conditions.insert(index);
                    }
                }
                _ => {}
            }
        }
        Self {
            tokens,
            pairs,
            of_conditions,
        }
    }

    fn at(&self, index: usize) -> Option<Token<'s>> {
        self.tokens.get(index).map(|(token, _)| *token)
    }

    fn before(&self, index: usize) -> Option<Token<'s>> {
        self.at(index.checked_sub(1)?)
    }

    fn is_sign(&self, index: usize, sign: &str) -> bool {
        self.at(index) == Some(Token::Sign(sign))
    }

    fn is_member(&self, index: usize) -> bool {
        matches!(self.before(index), Some(Token::Sign("." | "?.")))
    }

    /// Whether the name is read here: it is no member and no key.
    fn is_read(&self, index: usize) -> bool {
        let before = self.before(index);
        let is_member = self.is_member(index) || matches!(before, Some(Token::Name("break" | "continue")));
        // A key or a label, but for the value of a condition or of a case.
        let is_key = self.is_sign(index + 1, ":")
            && !self.of_conditions.contains(&(index + 1))
            && before != Some(Token::Name("case"));
        !is_member && !is_key && !self.is_method(index)
    }

    /// Whether this is the name of a method: parentheses with a block behind them follow.
    fn is_method(&self, index: usize) -> bool {
        let end = self.pairs.get(&(index + 1)).filter(|_| self.is_sign(index + 1, "("));
        end.is_some_and(|end| self.is_sign(end + 1, "{"))
    }

    /// Whether names may be defined by members of the global object.
    fn hands_out_the_global_object(&self) -> bool {
        let is_handed_out = |index: usize| match self.at(index) {
            Some(Token::Name("globalThis")) => !self.is_sign(index + 1, "."),
            Some(Token::Name("this")) => self.is_sign(index + 1, "["),
            _ => false,
        };
        (0..self.tokens.len()).any(is_handed_out)
    }

    /// The names behind a `typeof`, also in brackets.
    fn asked(&self) -> HashSet<&'s str> {
        let mut asked = HashSet::new();
        for index in 0..self.tokens.len() {
            let behind = (index + 1..)
                .take_while(|index| self.is_sign(*index, "("))
                .take(MOST_BRACKETS)
                .count();
            if self.at(index) == Some(Token::Name("typeof")) {
                self.one(index + 1 + behind, &mut asked);
            }
        }
        asked
    }

    /// All names that any part of the script may declare.
    fn declared(&self) -> HashSet<&'s str> {
        let mut declared = HashSet::new();
        // The end of the brackets whose names are declared: what is inside of them is, too.
        let mut end_of_known = 0;
        for index in 0..self.tokens.len() {
            match self.at(index) {
                Some(Token::Name("let" | "const" | "var")) => self.bindings(index + 1, &mut declared),
                // A label, wherever it stands.
                Some(Token::Name("break" | "continue")) => self.one(index + 1, &mut declared),
                Some(Token::Name("class")) if !self.is_member(index) => {
                    self.one(index + 1, &mut declared);
                    self.members(index + 1, &mut declared);
                }
                Some(Token::Name("function")) => {
                    self.one(index + 1 + usize::from(self.is_sign(index + 1, "*")), &mut declared);
                }
                Some(Token::Name(name)) if self.is_target(index + 1) => {
                    declared.insert(name);
                }
                Some(Token::Sign(bracket @ ("(" | "{" | "["))) if index >= end_of_known => {
                    let end = self.pairs.get(&index).copied().unwrap_or(index);
                    let is_condition =
                        matches!(self.before(index), Some(Token::Name(word)) if BEFORE_PARENTHESES.contains(&word));
                    // The parameters of a function, of a method, of an arrow, and what a `catch` has.
                    let is_list = bracket == "(" && self.is_sign(end + 1, "{") && !is_condition;
                    if is_list || self.is_target(end + 1) {
                        (index..end).for_each(|between| self.one(between, &mut declared));
                        end_of_known = end;
                    }
                }
                _ => {}
            }
        }
        declared
    }

    /// Whether what ends before this is assigned to, or is the parameter of an arrow, or that of a loop.
    fn is_target(&self, index: usize) -> bool {
        matches!(self.at(index), Some(Token::Sign("=" | "=>") | Token::Name("of" | "in")))
    }

    fn one(&self, index: usize, declared: &mut HashSet<&'s str>) {
        if let Some(Token::Name(name)) = self.at(index) {
            declared.insert(name);
        }
    }

    /// The names directly in the body of a class.
    fn members(&self, from: usize, declared: &mut HashSet<&'s str>) {
        let near = (from..self.tokens.len()).take(MOST_BEFORE_BODY);
        let Some(body) = near.into_iter().find(|index| self.is_sign(*index, "{")) else {
            return;
        };
        let end = self.pairs.get(&body).copied().unwrap_or(body);
        let mut index = body + 1;
        while index < end {
            self.one(index, declared);
            index = self.pairs.get(&index).copied().unwrap_or(index).max(index) + 1;
        }
    }

    /// What a declaration binds: names, or patterns, with or without values, up to the end of the statement, or to the next
    /// declaration.
    fn bindings(&self, from: usize, declared: &mut HashSet<&'s str>) {
        let mut index = from;
        let mut is_binding = true;
        while let Some(token) = self.at(index) {
            match token {
                Token::Sign(";" | ")" | "]" | "}") | Token::Close | Token::Name("let" | "const" | "var") => return,
                Token::Sign(",") => is_binding = true,
                // A pattern is assigned to, which `declared` finds.
                Token::Sign("{" | "[" | "(") | Token::Open => {
                    index = self.pairs.get(&index).copied().unwrap_or(index);
                    is_binding = false;
                }
                Token::Name(name) => {
                    if is_binding {
                        declared.insert(name);
                    }
                    is_binding = false;
                }
                Token::Sign(_) | Token::Literal => is_binding = false,
            }
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(script: &str) -> String {
        let names: Vec<String> = free_names(script).into_iter().map(|(name, _)| name).collect();
        names.join(" ")
    }

    #[test]
    fn free_names_are_found() {
        for (script, expected) in [
            ("totl * 2", "totl"),
            ("order.total + order?.tax", "order"),
            ("a ? b : c", "a b c"),
            ("`${name} has ${items.length} of ${`${inner}`}`", "name items inner"),
            ("({ key: value, short, [computed]: 1 })", "value short computed"),
            ("const sum = list.reduce((a, b) => a + b + c, 0); return sum", "list c"),
            ("foo(bar)[baz]", "foo bar baz"),
            ("return /x[/]y/g.test(text) / half / 2", "text half"),
            ("for (const x of xs) { y += x }", "xs y"),
            ("!isDone && go()", "isDone go"),
            ("[...rest, ...more]", "rest more"),
            ("const { a, b: c = d, ...e } = given; return a + c + e", "given"),
            ("let x = 1, y = z, w\nx + y + w", "z"),
            ("if (totl > 3) { a = 1 }", "totl"),
            ("[a, b].includes(c)", "a b c"),
            ("a ?? b ? c?.d : (e ? f : g)", "a b c e f g"),
            ("({ k: a ? b : c, l: d })", "a b c d"),
        ] {
            assert_eq!(free(script), expected, "{script}");
        }
    }

    #[test]
    fn declared_names_members_and_keys_are_not_free() {
        for script in [
            "let a = 1; a + 1",
            "function f(x, { y, z = 1 }, ...rest) { return x + y + z + rest.length } f(1, {})",
            "(x, y) => x + y",
            "async x => x",
            "try { f() } catch (error) { error.message } function f() {}",
            "class A { m(x) { return x } static s = 1; get g() { return this.m(1) } } new A().g",
            "typeof maybe !== 'undefined' && maybe.x",
            "implicit = 5; implicit + 1",
            "[p, q] = [1, 2]; p + q",
            "({ m(x) { return x }, get g() { return 1 } })",
            "outer: for (;;) { break outer }",
            "for (let i = 0, n = 3; i < n; i++) {}",
            "for (const [k, v] of [[1, 2]]) { k + v }",
            "'text with names' + \"and quotes\" + `and ${1}` // and comments\n/* more names */",
            "x = { a: 1, b: { c: 2 } }, x.a.b.c",
            "1e+5 + 0xff + .5 + 1_000 + 10n",
            "if (true) { } /maybe/.test('')",
            "var self = 1; switch (self) { case 1: break; default: }",
            "undefined === null && this && arguments",
            "/*/ hello */ 1 / 1",
            "// a\rlet x = 1\nx",
            "<!-- note\n1",
            "if (1) /ab c/.test('x')",
            "let i = 1; i++ / 2; let q = 1 / 1; q",
            "let o = {in: 4}, a = o.in / 2, r = 1 / 1; r",
            "let of = 6; of / 2; let q = 1 / 1; q",
            "let n = 0\nouter: for (;;) { break outer }",
            "if (0) ; else lab: for (;;) break lab",
            "class A { count; static n; a = 1; b\nm() { return this.count } } new A().m()",
            "({ return(value) { return { value } } })",
            "typeof(maybe) === 'undefined' || typeof ((maybe))",
            "with ({ total: 1 }) { total }",
            "(p) = 1; p",
            "globalThis['t'] = 5; t",
            "Object.assign(globalThis, { t: 5 }); t",
            "if (0) 1; else lab: 2",
            "do lab: 1; while (0)",
            "let n = 0\nouter: for (; n < 1; n++) {}",
            "switch (1) { case 1: n: 2 } let n",
            "for ((w) of [1]) w",
            "function re\u{301}el() {} re\u{301}el()",
            "let a·b = 1; [a·b]",
            "for (x in { a: 1 }) { x }",
            "const [a, { b }] = [1, { b: 2 }], { c } = { c: 1 }; a + b + c",
        ] {
            assert_eq!(free(script), "", "{script}");
        }
    }

    #[test]
    fn a_place_is_line_and_column() {
        let found = free_names("let a = 1;\n  a + ünknown");
        assert_eq!(found, [("ünknown".to_owned(), (2, 7))]);
    }

    #[test]
    fn broken_texts_have_none_and_do_not_panic() {
        for script in [
            "'",
            "`${",
            "(",
            "a)",
            "/",
            "/*",
            "a#b",
            "\\u0061",
            "`${a}",
            "}{",
            "\u{1f600}",
            "'\\",
        ] {
            free_names(script);
        }
        assert_eq!(free("(a"), "");
    }

    #[test]
    fn a_long_text_is_searched_once() {
        for script in [
            "var a\n".repeat(10_000),
            format!("{}a,{}", "(a=".repeat(5_000), ")=>1".repeat(5_000)),
            format!("{}a{}", "[".repeat(10_000), "]=1".repeat(10_000)),
            "class A { ".repeat(5_000) + &"}".repeat(5_000),
            "typeof (".repeat(5_000),
            "x.class+".repeat(8_000) + "1",
            "class extends f(".repeat(4_000) + &")".repeat(4_000),
        ] {
            let time = crate::testing::thread_time();
            free_names(&script);
            let taken = crate::testing::thread_time() - time;
            assert!(
                taken < std::time::Duration::from_secs(2),
                "{}: {taken:?}",
                &script[..20]
            );
        }
    }
}

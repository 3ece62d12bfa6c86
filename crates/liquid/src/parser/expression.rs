//! Values, comparisons and filters.

use super::{Parsed, Parser, offset};
use crate::comparison::Operator;
use crate::filters;
use crate::syntax::{Connective, FilterCall, Path, PathSegment, TemplateExpression};
use mainspring_language::Decimal;

/// The operators of comparisons; those that begin with another one come first.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<>", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
];

const WORDS: [(&str, Operator); 3] = [
    ("contains", Operator::Contains),
    ("startswith", Operator::StartsWith),
    ("endswith", Operator::EndsWith),
];

impl Parser<'_> {
    /// A value with its filters.
    pub(super) fn filtered(&mut self) -> Parsed<TemplateExpression> {
        let input = self.logic()?;
        let mut calls = Vec::new();
        while self.cursor.eat_after_space("|") {
            self.cursor.skip_white_space();
            let at = self.cursor.at;
            let Some(name) = self.cursor.name() else {
                return self.problem(at, "the name of a filter has to follow the |");
            };
            let Some(filter) = filters::find(name) else {
                return self.problem(at, format!("there is no filter {name}; {}", filters::instead_of(name)));
            };
            let mut arguments = Vec::new();
            if self.cursor.eat_after_space(":") {
                loop {
                    arguments.push(self.argument(name)?);
                    if !self.cursor.eat_after_space(",") {
                        break;
                    }
                }
            }
            if arguments.len() < filter.required {
                return self.problem(
                    at,
                    format!(
                        "the filter {name} needs {}; write | {}",
                        required(filter.required),
                        filter.usage
                    ),
                );
            }
            calls.push(FilterCall {
                at: offset(at),
                filter,
                arguments,
            });
        }
        if calls.is_empty() {
            return Ok(input);
        }
        Ok(TemplateExpression::Filtered {
            input: Box::new(input),
            calls,
        })
    }

    fn argument(&mut self, filter: &str) -> Parsed<(Option<Box<str>>, TemplateExpression)> {
        let start = self.cursor.at;
        if let Some(name) = self.cursor.name()
            && self.cursor.eat_after_space(":")
        {
            return Ok((Some(name.into()), self.primary("the value of a named argument")?));
        }
        self.cursor.at = start;
        Ok((None, self.primary(&format!("an argument of the filter {filter}"))?))
    }

    /// Comparisons with `and` and `or`.
    pub(super) fn logic(&mut self) -> Parsed<TemplateExpression> {
        let first = self.comparison()?;
        let mut rest = Vec::new();
        loop {
            let connective = if self.cursor.eat_word("or") {
                Connective::Or
            } else if self.cursor.eat_word("and") {
                Connective::And
            } else {
                break;
            };
            rest.push((connective, self.comparison()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(TemplateExpression::Logic {
            first: Box::new(first),
            rest,
        })
    }

    fn comparison(&mut self) -> Parsed<TemplateExpression> {
        let left = self.primary("a value")?;
        let symbol = OPERATORS.iter().find(|(symbol, _)| self.cursor.eat_after_space(symbol));
        let Some((_, operator)) = symbol.or_else(|| WORDS.iter().find(|(word, _)| self.cursor.eat_word(word))) else {
            return Ok(left);
        };
        let right = self.primary("the right side of a comparison")?;
        Ok(TemplateExpression::Compare(Box::new((left, *operator, right))))
    }

    /// A text, a number, a name with its members, or a range.
    pub(super) fn primary(&mut self, what: &str) -> Parsed<TemplateExpression> {
        self.cursor.skip_white_space();
        let at = self.cursor.at;
        match self.cursor.peek() {
            Some(quote @ ('"' | '\'')) => return self.quoted(quote).map(TemplateExpression::Text),
            Some('(') => return self.range(),
            _ => {}
        }
        if let Some(name) = self.cursor.name() {
            let path = self.members(name, at)?;
            if path.segments.is_empty() {
                match &*path.root {
                    "empty" => return Ok(TemplateExpression::Empty),
                    "blank" => return Ok(TemplateExpression::Blank),
                    "true" => return Ok(TemplateExpression::Boolean(true)),
                    "false" => return Ok(TemplateExpression::Boolean(false)),
                    _ => {}
                }
            }
            return Ok(TemplateExpression::Path(path));
        }
        match self.number()? {
            Some(number) => Ok(TemplateExpression::Number(number)),
            None => self.problem(
                at,
                format!("{what} is missing; write a text in quotes, a number, or a name such as Variables.Name"),
            ),
        }
    }

    /// The members of a name: `.name`, `.0` and `[index]`, without space before them.
    fn members(&mut self, root: &str, at: usize) -> Parsed<Path> {
        let mut segments = Vec::new();
        loop {
            let before = self.cursor.at;
            if self.cursor.eat("[") {
                let index = self.nested(|parser| parser.primary("an index"))?;
                if !self.cursor.eat_after_space("]") {
                    return self.problem(before, "the index is not closed; write ] after it");
                }
                segments.push(PathSegment::Index(index));
            } else if self.cursor.eat(".") {
                if let Some(name) = self.cursor.name() {
                    segments.push(PathSegment::Member(name.into()));
                    continue;
                }
                self.cursor.skip_white_space();
                let digits = self.cursor.digits();
                if digits.is_empty() {
                    self.cursor.at = before;
                    break;
                }
                segments.push(PathSegment::Member(digits.into()));
            } else {
                break;
            }
        }
        if self.cursor.eat_after_space("(") {
            return self.problem(
                self.cursor.at - 1,
                format!(
                    "{root} cannot be called: templates have no functions; use a filter, as in {{{{ value | upcase }}}}"
                ),
            );
        }
        Ok(Path {
            at: offset(at),
            root: root.into(),
            segments,
        })
    }

    /// Two whole numbers or names in parentheses, with two dots between them.
    pub(super) fn range(&mut self) -> Parsed<TemplateExpression> {
        let at = self.cursor.at;
        let parsed = self.nested(|parser| {
            parser.cursor.eat("(");
            let Some(from) = parser.range_end()? else {
                return Ok(None);
            };
            if !parser.cursor.eat_after_space("..") {
                return Ok(None);
            }
            let Some(to) = parser.range_end()? else { return Ok(None) };
            Ok(parser.cursor.eat_after_space(")").then_some((from, to)))
        })?;
        match parsed {
            Some(ends) => Ok(TemplateExpression::Range(Box::new(ends))),
            None => self.problem(
                at,
                "parentheses hold a range of two whole numbers or names, as (1..5); they do not group: assign a part of the \
                 condition to a variable first",
            ),
        }
    }

    fn range_end(&mut self) -> Parsed<Option<TemplateExpression>> {
        self.cursor.skip_white_space();
        let at = self.cursor.at;
        if let Some(name) = self.cursor.name() {
            return self.members(name, at).map(TemplateExpression::Path).map(Some);
        }
        let is_negative = self.cursor.eat("-");
        if !is_negative {
            self.cursor.eat("+");
        }
        let Some(number) = Decimal::parse(self.cursor.digits()) else {
            return Ok(None);
        };
        let number = if is_negative { number.negate() } else { number };
        Ok(Some(TemplateExpression::Number(number)))
    }

    fn number(&mut self) -> Parsed<Option<Decimal>> {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let is_negative = self.cursor.eat("-");
        if !is_negative {
            self.cursor.eat("+");
        }
        let whole = self.cursor.digits();
        let dot = self.cursor.at;
        let has_fraction = self.cursor.eat(".") && !self.cursor.digits().is_empty();
        if !has_fraction {
            self.cursor.at = dot;
        }
        if whole.is_empty() && !has_fraction {
            self.cursor.at = start;
            return Ok(None);
        }
        let text = rest.get(..self.cursor.at - start).unwrap_or_default();
        match Decimal::parse(text) {
            Some(number) => Ok(Some(number)),
            None => self.problem(start, "the number has more than the 28 digits that a template supports"),
        }
    }

    /// A text in quotes, with the escapes of JavaScript.
    fn quoted(&mut self, quote: char) -> Parsed<Box<str>> {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            if c == quote {
                self.cursor.at = start + at + 1;
                return Ok(text.into());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let escaped = characters.next().map(|(_, escaped)| escaped);
            let mut code = |digits: usize| {
                let hex: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                let code = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == digits);
                code.and_then(char::from_u32)
            };
            let meant = match escaped {
                Some(same @ ('\'' | '"' | '\\')) => Some(same),
                Some('b') => Some('\u{8}'),
                Some('f') => Some('\u{c}'),
                Some('n') => Some('\n'),
                Some('r') => Some('\r'),
                Some('t') => Some('\t'),
                Some('v') => Some('\u{b}'),
                Some('u') => code(4),
                Some('x') => code(2),
                _ => None,
            };
            match meant {
                Some(c) => text.push(c),
                None => {
                    return self.problem(
                        start + at,
                        "the escape is unknown; write a backslash twice, and other characters as they are",
                    );
                }
            }
        }
        self.problem(start, format!("the text is not closed; write {quote} after it"))
    }
}

fn required(count: usize) -> String {
    match count {
        1 => "an argument".to_owned(),
        count => format!("{count} arguments"),
    }
}

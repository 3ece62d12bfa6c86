//! The parser: recursive descent, with precedence climbing for operators.
//!
//! It is bounded by the length of the text, the number of its nodes and the depth of the tree, which also bounds the
//! recursion of everything that walks it.

mod blocks;
mod expressions;
mod postfix;
mod primary;
mod refused;
mod statements;
mod type_names;

use std::sync::Arc;

pub(super) use refused::remedy;

use super::problem::{Checked, Position, Problem};
use super::syntax::{Expr, Kind, Lexed, Statement, StatementKind, Token, lex};

/// The longest script.
pub(super) const LONGEST: usize = 64 << 10;

/// The deepest tree.
const DEEPEST: usize = 200;

/// The most nodes.
const MOST_NODES: usize = 50_000;

/// A parsed script, and how deep it is.
pub(super) struct ParsedScript {
    pub(super) statements: Vec<Statement>,
    pub(super) depth: usize,
    /// It may call functions of its own, which may call each other without end.
    pub(super) has_functions: bool,
}

/// Parses a whole script: statements, of which the last may be an expression, as C# scripts allow.
pub(super) fn parse(text: &str) -> Checked<ParsedScript> {
    if text.len() > LONGEST {
        let message = format!(
            "the script has {} bytes, more than {LONGEST}; move parts of it into activities of their own",
            text.len()
        );
        return Err(Problem::new(Position { line: 1, column: 1 }, message));
    }
    let tokens = lex(text)?;
    let mut parser = Parser::new(&tokens, 0, 0);
    let mut statements = Vec::new();
    while !parser.is_end() {
        statements.push(parser.statement()?);
    }
    Ok(ParsedScript {
        statements,
        depth: parser.made.max(parser.deepest),
        has_functions: parser.has_functions,
    })
}

struct Parser<'t> {
    tokens: &'t [Lexed],
    next: usize,
    depth: usize,
    /// The deepest place so far.
    deepest: usize,
    /// The depth of the deepest expression so far.
    made: usize,
    nodes: usize,
    /// The `and` and `or` of the pattern that is parsed.
    alternatives: usize,
    has_functions: bool,
}

impl<'t> Parser<'t> {
    fn new(tokens: &'t [Lexed], depth: usize, nodes: usize) -> Self {
        Self {
            tokens,
            next: 0,
            depth,
            deepest: 0,
            made: 0,
            nodes,
            alternatives: 0,
            has_functions: false,
        }
    }

    fn token(&self) -> &'t Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> &'t Token {
        self.tokens
            .get(self.next + count)
            .map_or(&Token::End, |lexed| &lexed.token)
    }

    fn at(&self) -> Position {
        let known = self.tokens.get(self.next).or_else(|| self.tokens.last());
        known.map(|lexed| lexed.at).unwrap_or_default()
    }

    fn is_end(&self) -> bool {
        *self.token() == Token::End
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len());
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    fn is_sign_ahead(&self, count: usize, sign: &str) -> bool {
        matches!(self.ahead(count), Token::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Word(found) if **found == *word)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> Checked<()> {
        if self.eat(sign) {
            return Ok(());
        }
        Err(Problem::new(
            self.at(),
            format!("{sign} is expected, not {}", self.shown()),
        ))
    }

    /// A name that is no keyword.
    fn name(&mut self) -> Checked<Arc<str>> {
        let name = match self.token() {
            Token::EscapedName(name) => name,
            Token::Word(name) if !refused::is_keyword(name) => name,
            _ => {
                return Err(Problem::new(
                    self.at(),
                    format!("a name is expected, not {}", self.shown()),
                ));
            }
        };
        self.advance();
        Ok(Arc::clone(name))
    }

    /// The next token, as a message shows it.
    fn shown(&self) -> String {
        match self.token() {
            Token::Word(word) | Token::EscapedName(word) => word.chars().take(60).collect(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "the end of the script".to_owned(),
            Token::Text(_) | Token::Interpolated(_) => "a string".to_owned(),
            Token::Char(_) => "a char".to_owned(),
            Token::Int(_) | Token::Long(_) | Token::Double(_) | Token::Decimal(_) => "a number".to_owned(),
        }
    }

    /// Parses something inside something else.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > DEEPEST {
            return Err(too_deep(self.at()));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Parses something, and says how deep the expressions in it are.
    fn measured<T>(&mut self, parse: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<(T, usize)> {
        let before = std::mem::take(&mut self.made);
        let parsed = parse(self)?;
        let made = self.made;
        self.made = before.max(made);
        Ok((parsed, made))
    }

    /// Makes an expression over others, of which the deepest is given.
    fn make(&mut self, at: Position, below: usize, kind: Kind) -> Checked<Expr> {
        self.nodes += 1;
        if below >= DEEPEST {
            return Err(too_deep(at));
        }
        self.made = self.made.max(below + 1);
        if self.nodes > MOST_NODES {
            return Err(Problem::new(
                at,
                format!("the script has more than {MOST_NODES} parts; divide it"),
            ));
        }
        Ok(Expr {
            at,
            depth: below + 1,
            kind,
        })
    }

    fn make_statement(&mut self, at: Position, kind: StatementKind) -> Checked<Statement> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(Problem::new(
                at,
                format!("the script has more than {MOST_NODES} parts; divide it"),
            ));
        }
        Ok(Statement { at, kind })
    }

    /// Tries to parse; without success nothing is consumed.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Checked<Option<T>>) -> Option<T> {
        let (next, depth) = (self.next, self.depth);
        let parsed = parse(self).ok().flatten();
        if parsed.is_none() {
            (self.next, self.depth) = (next, depth);
        }
        parsed
    }
}

fn too_deep(at: Position) -> Problem {
    let message = format!(
        "the script is nested more than {DEEPEST} levels deep; divide it into statements, or join texts by string.Join or an \
         interpolated string"
    );
    Problem::new(at, message)
}

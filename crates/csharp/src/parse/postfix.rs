//! What follows an operand: members, calls, indexers, `?.`, `++` and `!`.

use std::sync::Arc;

use super::Parser;
use crate::problem::{Checked, Problem};
use crate::syntax::{Argument, Call, Expr, Kind, Token, TypeName};
use crate::types::Ty;

impl Parser<'_> {
    pub(super) fn postfix(&mut self) -> Checked<Expr> {
        let operand = self.primary()?;
        self.chain(operand)
    }

    fn chain(&mut self, mut operand: Expr) -> Checked<Expr> {
        loop {
            let at = self.at();
            match self.token() {
                Token::Sign("?.") => {
                    self.advance();
                    return self.conditional_chain(operand, false);
                }
                Token::Sign("?") if self.is_sign_ahead(1, "[") && self.is_index() => {
                    self.advance();
                    return self.conditional_chain(operand, true);
                }
                Token::Sign(step @ ("++" | "--")) => {
                    self.advance();
                    let below = operand.depth;
                    let change = if *step == "++" { 1 } else { -1 };
                    operand = self.make(at, below, Kind::Step(false, change, Box::new(operand)))?;
                }
                // `x!`, which only silences a warning.
                Token::Sign("!") if self.ends_operand() => self.advance(),
                _ => match self.link(operand)? {
                    (next, true) => operand = next,
                    (end, false) => return Ok(end),
                },
            }
        }
    }

    fn ends_operand(&self) -> bool {
        matches!(
            self.ahead(1),
            Token::Sign("." | ")" | "]" | "," | ";" | "?." | "??" | "[" | "}") | Token::End
        )
    }

    /// Whether `?[` is an indexer, and not a condition with a collection behind it.
    fn is_index(&self) -> bool {
        let (mut open, mut count) = (0usize, 1);
        loop {
            match self.ahead(count) {
                Token::Sign("[") => open += 1,
                Token::Sign("]") => {
                    open -= 1;
                    if open == 0 {
                        return true;
                    }
                }
                Token::End => return false,
                _ => {}
            }
            count += 1;
            if count > 200 {
                return true;
            }
        }
    }

    /// What is behind `?.` up to the end of the chain runs only if there is a value.
    fn conditional_chain(&mut self, value: Expr, is_index: bool) -> Checked<Expr> {
        let at = self.at();
        let target = self.make(at, value.depth, Kind::Target)?;
        let first = if is_index {
            let (first, _) = self.link(target)?;
            first
        } else {
            self.member(target)?
        };
        let chain = self.nested(|parser| parser.chain(first))?;
        let below = chain.depth.max(value.depth);
        self.make(at, below, Kind::Conditional(Box::new(value), Box::new(chain)))
    }

    /// One member, call or index; returns false if there is none.
    fn link(&mut self, operand: Expr) -> Checked<(Expr, bool)> {
        if self.eat(".") {
            return Ok((self.member(operand)?, true));
        }
        let at = self.at();
        if self.is_sign("[") {
            self.advance();
            let index = self.index()?;
            self.one_dimension()?;
            self.expect("]")?;
            let below = operand.depth.max(index.depth);
            return Ok((
                self.make(at, below, Kind::Index(Box::new(operand), Box::new(index)))?,
                true,
            ));
        }
        if self.is_sign("(") {
            let arguments = self.arguments()?;
            let below = arguments.iter().map(|argument| argument.value.depth).max().unwrap_or(0);
            let below = below.max(operand.depth);
            self.has_functions = true;
            return Ok((self.make(at, below, Kind::Invoke(Box::new(operand), arguments))?, true));
        }
        Ok((operand, false))
    }

    /// What is in an indexer: a value, `^1` or a range.
    fn index(&mut self) -> Checked<Expr> {
        let at = self.at();
        let first = if self.is_sign("..") {
            None
        } else {
            Some(self.index_end()?)
        };
        if !self.eat("..") {
            return match first {
                Some(first) => Ok(first),
                None => self.expression(),
            };
        }
        let last = if self.is_sign("]") {
            None
        } else {
            Some(self.index_end()?)
        };
        let depth = |end: &Option<Expr>| end.as_ref().map_or(0, |end| end.depth);
        let below = depth(&first).max(depth(&last));
        self.make(at, below, Kind::Range(first.map(Box::new), last.map(Box::new)))
    }

    fn index_end(&mut self) -> Checked<Expr> {
        let at = self.at();
        if !self.eat("^") {
            return self.expression();
        }
        let value = self.nested(Self::unary)?;
        self.make(at, value.depth, Kind::FromEnd(Box::new(value)))
    }

    fn member(&mut self, target: Expr) -> Checked<Expr> {
        let at = self.at();
        let name = match self.token() {
            Token::Word(word) | Token::EscapedName(word) => Arc::clone(word),
            _ => {
                return Err(Problem::new(
                    at,
                    format!("the name of a member is expected, not {}", self.shown()),
                ));
            }
        };
        self.advance();
        let type_arguments = if self.is_sign("<") {
            self.attempt(Self::type_arguments).unwrap_or_default()
        } else {
            Vec::new()
        };
        if !self.is_sign("(") {
            if !type_arguments.is_empty() {
                return Err(Problem::new(
                    self.at(),
                    format!("the arguments of {name} are missing; call it: {name}<T>(…)"),
                ));
            }
            let below = target.depth;
            return self.make(at, below, Kind::Member(Box::new(target), name));
        }
        let arguments = self.arguments()?;
        let below = arguments.iter().map(|argument| argument.value.depth).max().unwrap_or(0);
        let below = below.max(target.depth);
        let call = Call {
            target,
            name,
            type_arguments,
            types: Vec::new(),
            arguments,
            result: Ty::Dynamic,
            takes_null: false,
        };
        self.make(at, below, Kind::Call(Box::new(call)))
    }

    /// `<T>` before the parentheses of a call; otherwise the sign compares.
    fn type_arguments(parser: &mut Self) -> Checked<Option<Vec<TypeName>>> {
        parser.expect("<")?;
        let list = parser.type_list()?;
        parser.expect(">")?;
        Ok(parser.is_sign("(").then_some(list))
    }

    pub(super) fn arguments(&mut self) -> Checked<Vec<Argument>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.is_sign(")") {
            arguments.push(self.argument()?);
            if !self.eat(",") {
                break;
            }
            if self.is_sign(")") {
                return Err(Problem::new(self.at(), "an argument is expected after the comma"));
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    pub(super) fn argument(&mut self) -> Checked<Argument> {
        let at = self.at();
        if self.eat_word("out") {
            let written = if self.eat_word("var") {
                None
            } else if matches!(self.ahead(1), Token::Sign("," | ")")) {
                // An existing local, or `_`.
                let value = self.expression()?;
                return Ok(Argument {
                    name: Some("out".into()),
                    value,
                    out: None,
                });
            } else {
                Some(Arc::new(self.type_name(false)?))
            };
            let place = self.place(written)?;
            let value = self.make(at, 0, Kind::Name(Arc::clone(&place.name)))?;
            return Ok(Argument {
                name: None,
                value,
                out: Some(place),
            });
        }
        if self.is_word("ref") || self.is_word("in") {
            return Err(Problem::new(
                at,
                "ref is not part of the C# that runs here: pass the value",
            ));
        }
        let name = match (self.token(), self.ahead(1)) {
            (Token::Word(name), Token::Sign(":")) => Some(Arc::clone(name)),
            _ => None,
        };
        if name.is_some() {
            self.advance();
            self.advance();
        }
        Ok(Argument {
            name,
            value: self.expression()?,
            out: None,
        })
    }
}

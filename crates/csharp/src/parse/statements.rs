//! Statements.

use std::sync::Arc;

use super::{Parser, refused, type_names};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Expr, Initializer, ItemType, Kind, Place, Statement, StatementKind, Suffix, Token};
use crate::types::Ty;

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Checked<Statement> {
        self.nested(Self::plain_statement)
    }

    fn plain_statement(&mut self) -> Checked<Statement> {
        let at = self.at();
        if self.eat(";") {
            return self.make_statement(at, StatementKind::Empty);
        }
        if self.eat("{") {
            let mut list = Vec::new();
            while !self.is_sign("}") {
                if self.is_end() {
                    return Err(Problem::new(at, "this { is not closed by }"));
                }
                list.push(self.statement()?);
            }
            self.advance();
            return self.make_statement(at, StatementKind::Block(list));
        }
        if let Token::Word(word) = self.token() {
            match &**word {
                "if" => return self.if_statement(at),
                "foreach" => return self.foreach(at),
                "for" => return self.for_statement(at),
                "while" => return self.while_statement(at),
                "do" => return self.do_statement(at),
                "return" => return self.return_statement(at),
                "break" | "continue" => return self.jump(at),
                "switch" => return self.switch_statement(at),
                "try" => return self.try_statement(at),
                "using" => return self.using_line(at),
                "throw" if self.is_sign_ahead(1, ";") => {
                    self.advance();
                    self.advance();
                    return self.make_statement(at, StatementKind::Rethrow);
                }
                "const" => {
                    self.advance();
                    return self.declaration(at);
                }
                "yield" if matches!(self.ahead(1), Token::Word(next) if matches!(&**next, "return" | "break")) => {
                    return Err(Problem::new(at, refused::remedy(word).unwrap_or_default()));
                }
                "await" if !self.is_sign_ahead(1, ".") => {
                    return Err(Problem::new(at, refused::remedy(word).unwrap_or_default()));
                }
                _ => {}
            }
            if self.is_local_function() {
                return self.local_function(at);
            }
        }
        if let Some(places) = self.attempt(Self::deconstruction) {
            let value = self.expression()?;
            self.expect(";")?;
            return self.make_statement(at, StatementKind::Deconstruct(places, value));
        }
        if self.is_declaration() {
            return self.declaration(at);
        }
        let expression = self.expression()?;
        let is_closed = self.eat(";");
        // The value of a script is that of the expression that ends it.
        if !is_closed && self.is_end() {
            return self.make_statement(at, StatementKind::Return(Some(expression)));
        }
        if !is_closed {
            return Err(Problem::new(self.at(), format!("; is expected, not {}", self.shown())));
        }
        let is_effect = matches!(
            expression.kind,
            Kind::Assign(..)
                | Kind::Step(..)
                | Kind::Call(_)
                | Kind::Invoke(..)
                | Kind::Throw(_)
                | Kind::Conditional(..)
        );
        if !is_effect {
            return Err(Problem::new(
                at,
                "this value is not used; write return before it, or leave out the ; after it",
            ));
        }
        self.make_statement(at, StatementKind::Expression(expression))
    }

    /// `var (a, b) =` and `(int a, string b) =`.
    fn deconstruction(parser: &mut Self) -> Checked<Option<Vec<Place>>> {
        let Some(places) = parser.parts()? else {
            return Ok(None);
        };
        parser.expect("=")?;
        Ok(Some(places))
    }

    /// `var (a, b)` or `(int a, var b)`.
    fn parts(&mut self) -> Checked<Option<Vec<Place>>> {
        let is_var = self.eat_word("var");
        if !self.eat("(") {
            return Ok(None);
        }
        let mut places = Vec::new();
        loop {
            let is_discard = self.is_word("_") && matches!(self.ahead(1), Token::Sign("," | ")"));
            let written = if is_var || is_discard {
                None
            } else {
                Some(self.type_name(false)?).filter(|written| !matches!(&*written.name, "var" | "dynamic"))
            };
            places.push(self.place(written.map(Arc::new))?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok((places.len() > 1).then_some(places))
    }

    /// A type and a name behind it.
    fn is_declaration(&mut self) -> bool {
        // `int[,] a`, which the declaration refuses.
        if matches!(self.token(), Token::Word(_)) && self.is_sign_ahead(1, "[") && self.is_sign_ahead(2, ",") {
            return true;
        }
        let (next, depth) = (self.next, self.depth);
        let starts = match self.token() {
            Token::Word(word) => type_names::is_predefined(word) || !refused::is_keyword(word),
            _ => false,
        };
        let is_typed = starts && self.type_name(false).is_ok();
        let is_name = match self.token() {
            Token::EscapedName(_) => true,
            Token::Word(word) => {
                !refused::is_keyword(word) && !["switch", "and", "or", "is", "as", "when"].contains(&&**word)
            }
            _ => false,
        };
        let is_set = matches!(self.ahead(1), Token::Sign("=" | ";" | ",") | Token::End);
        (self.next, self.depth) = (next, depth);
        is_typed && is_name && is_set
    }

    fn declaration(&mut self, at: Position) -> Checked<Statement> {
        let kind = self.declaration_parts()?;
        if !self.is_end() {
            self.expect(";")?;
        }
        self.make_statement(at, kind)
    }

    fn declaration_parts(&mut self) -> Checked<StatementKind> {
        let written = self.type_name(false)?;
        let is_bytes = &*written.name == "byte" && written.suffixes.first() == Some(&Suffix::Array);
        let remedy = refused::remedy(&written.name).filter(|_| &*written.name != "dynamic" && !is_bytes);
        if let Some(remedy) = remedy {
            return Err(Problem::new(written.at, remedy));
        }
        let is_var = matches!(&*written.name, "var" | "dynamic");
        let written = (!is_var).then(|| Arc::new(written));
        let mut list = Vec::new();
        loop {
            let place = self.place(written.clone())?;
            let value = if self.eat("=") { Some(self.initial()?) } else { None };
            if is_var && value.is_none() {
                return Err(Problem::new(
                    place.at,
                    format!("var {} needs a value: var {} = …", place.name, place.name),
                ));
            }
            list.push((place, value));
            if !self.eat(",") {
                return Ok(StatementKind::Declare(list));
            }
        }
    }

    /// The value of a declaration, which may be the items of an array in braces.
    fn initial(&mut self) -> Checked<Expr> {
        let at = self.at();
        if !self.is_sign("{") {
            return self.expression();
        }
        let items = self.nested(Self::items)?;
        let below = items.iter().map(|item| item.depth).max().unwrap_or(0);
        let initializer = Initializer::Array(ItemType::Declared, Ty::Dynamic, items);
        self.make(at, below, Kind::New(Box::new(initializer)))
    }

    pub(super) fn condition(&mut self) -> Checked<Expr> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn if_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let condition = self.condition()?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.eat_word("else") {
            Some(Box::new(self.statement()?))
        } else {
            None
        };
        self.make_statement(at, StatementKind::If(condition, then, otherwise))
    }

    fn foreach(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        self.expect("(")?;
        if let Some(places) = self.attempt(Self::parts) {
            if !self.eat_word("in") {
                return Err(Problem::new(self.at(), format!("in is expected, not {}", self.shown())));
            }
            let list = self.expression()?;
            self.expect(")")?;
            let body = Box::new(self.statement()?);
            return self.make_statement(at, StatementKind::ForEachParts(places, list, body));
        }
        let written = self.type_name(false)?;
        let is_var = matches!(&*written.name, "var" | "dynamic");
        let place = self.place((!is_var).then(|| Arc::new(written)))?;
        if !self.eat_word("in") {
            return Err(Problem::new(self.at(), format!("in is expected, not {}", self.shown())));
        }
        let list = self.expression()?;
        self.expect(")")?;
        let body = Box::new(self.statement()?);
        self.make_statement(at, StatementKind::ForEach(place, list, body))
    }

    fn for_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        self.expect("(")?;
        let mut first = Vec::new();
        let begin = self.at();
        if !self.is_sign(";") {
            let kind = if self.is_declaration() {
                self.declaration_parts()?
            } else {
                StatementKind::Expression(self.expression()?)
            };
            first.push(self.make_statement(begin, kind)?);
        }
        self.expect(";")?;
        let condition = if self.is_sign(";") {
            None
        } else {
            Some(self.expression()?)
        };
        self.expect(";")?;
        let mut steps = Vec::new();
        while !self.is_sign(")") {
            steps.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        let body = Box::new(self.statement()?);
        self.make_statement(at, StatementKind::For(first, condition, steps, body))
    }

    fn while_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let condition = self.condition()?;
        let body = Box::new(self.statement()?);
        self.make_statement(at, StatementKind::While(condition, body))
    }

    fn do_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let body = Box::new(self.statement()?);
        if !self.eat_word("while") {
            return Err(Problem::new(
                self.at(),
                format!("while is expected, not {}", self.shown()),
            ));
        }
        let condition = self.condition()?;
        self.expect(";")?;
        self.make_statement(at, StatementKind::DoWhile(body, condition))
    }

    fn return_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let value = if self.is_sign(";") || self.is_end() || self.is_sign("}") {
            None
        } else {
            Some(self.expression()?)
        };
        // The last one may lack it.
        if !self.eat(";") && !self.is_end() {
            return Err(Problem::new(self.at(), format!("; is expected, not {}", self.shown())));
        }
        self.make_statement(at, StatementKind::Return(value))
    }

    fn jump(&mut self, at: Position) -> Checked<Statement> {
        let kind = if self.is_word("break") {
            StatementKind::Break
        } else {
            StatementKind::Continue
        };
        self.advance();
        self.expect(";")?;
        self.make_statement(at, kind)
    }
}

//! Statements of several blocks: `switch`, `try`, local functions, and `using` lines.

use std::sync::Arc;

use super::{Parser, refused, type_names};
use crate::object::is_exception;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Catch, Label, LocalFunction, Section, Statement, StatementKind, Token, Try};

/// The first parts of the namespaces that a script may name.
const NAMESPACES: &[&str] = &["System", "Elsa", "Microsoft", "Newtonsoft"];

impl Parser<'_> {
    /// `using System.Linq;`: the types that scripts have need no namespace.
    pub(super) fn using_line(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let refuse = |what: &str, remedy: &str| {
            let message = format!("{what} is not part of the C# that runs here: {remedy}");
            Err(Problem::new(at, message))
        };
        if self.is_word("static") {
            return refuse(
                "using static",
                "write the name of the type before its member, as in Math.Max(1, 2)",
            );
        }
        if self.is_sign("(") || self.is_word("var") || self.is_word("await") {
            return refuse(
                "using with a value",
                "nothing here must be disposed of; declare a local: var x = …",
            );
        }
        let name = self.name()?;
        if self.is_sign("=") {
            return refuse("an alias", "write the type itself");
        }
        if !NAMESPACES.contains(&&*name) {
            let message = format!("the namespace {name} is unknown; remove the line");
            return Err(Problem::new(at, message));
        }
        while self.eat(".") {
            self.name()?;
        }
        if !matches!(self.token(), Token::Sign(";")) {
            return refuse(
                "using with a value",
                "nothing here must be disposed of; declare a local: var x = …",
            );
        }
        self.advance();
        self.make_statement(at, StatementKind::Empty)
    }

    pub(super) fn switch_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let value = self.condition()?;
        self.expect("{")?;
        let mut sections = Vec::new();
        while !self.eat("}") {
            let mut labels = Vec::new();
            while self.is_word("case") || (self.is_word("default") && self.is_sign_ahead(1, ":")) {
                labels.push(self.label()?);
            }
            if labels.is_empty() {
                return Err(Problem::new(
                    self.at(),
                    format!("case is expected, not {}", self.shown()),
                ));
            }
            let mut body = Vec::new();
            while !(self.is_word("case") || self.is_word("default") || self.is_sign("}")) {
                if self.is_end() {
                    return Err(Problem::new(at, "this switch is not closed by }"));
                }
                body.push(self.statement()?);
            }
            sections.push(Section { labels, body });
        }
        self.make_statement(at, StatementKind::Switch(value, sections))
    }

    fn label(&mut self) -> Checked<Label> {
        let is_case = self.is_word("case");
        self.advance();
        let (mut pattern, mut when) = (None, None);
        if is_case {
            pattern = Some(self.whole_pattern()?);
            if self.eat_word("when") {
                when = Some(self.expression()?);
            }
        }
        self.expect(":")?;
        Ok(Label { pattern, when })
    }

    fn block(&mut self) -> Checked<Statement> {
        if !self.is_sign("{") {
            return Err(Problem::new(self.at(), format!("{{ is expected, not {}", self.shown())));
        }
        self.statement()
    }

    pub(super) fn try_statement(&mut self, at: Position) -> Checked<Statement> {
        self.advance();
        let body = self.block()?;
        let mut catches: Vec<Catch> = Vec::new();
        while self.is_word("catch") {
            let place = self.at();
            if catches
                .last()
                .is_some_and(|last| &*last.exception == "Exception" && last.when.is_none())
            {
                let message = "the catch before this one catches every exception; put it last";
                return Err(Problem::new(place, message));
            }
            catches.push(self.catch()?);
        }
        let finally = if self.eat_word("finally") {
            Some(self.block()?)
        } else {
            None
        };
        if catches.is_empty() && finally.is_none() {
            return Err(Problem::new(at, "try needs catch or finally behind its block"));
        }
        let whole = Try { body, catches, finally };
        self.make_statement(at, StatementKind::Try(Box::new(whole)))
    }

    fn catch(&mut self) -> Checked<Catch> {
        self.advance();
        let (mut exception, mut place): (Arc<str>, _) = ("Exception".into(), None);
        if self.eat("(") {
            let written = self.type_name(false)?;
            if !is_exception(&written.name) {
                let message = format!("the exception {} is unknown; catch Exception", written.name);
                return Err(Problem::new(written.at, message));
            }
            exception = written.name;
            if !self.is_sign(")") {
                place = Some(self.place(None)?);
            }
            self.expect(")")?;
        }
        let when = if self.eat_word("when") {
            Some(self.condition()?)
        } else {
            None
        };
        let body = self.block()?;
        Ok(Catch {
            exception,
            place,
            when,
            body,
        })
    }

    /// A type, a name and parameters behind them.
    pub(super) fn is_local_function(&mut self) -> bool {
        let (next, depth) = (self.next, self.depth);
        if self.is_word("static") {
            self.advance();
        }
        let starts = match self.token() {
            Token::Word(word) => type_names::is_predefined(word) || &**word == "void" || !refused::is_keyword(word),
            _ => false,
        };
        let is_typed = starts && (self.eat_word("void") || self.type_name(false).is_ok());
        let is_named = matches!(self.token(), Token::Word(word) if !refused::is_keyword(word)
            && !["switch", "and", "or", "is", "as", "when", "with"].contains(&&**word));
        let is_function = is_typed && is_named && self.is_sign_ahead(1, "(");
        (self.next, self.depth) = (next, depth);
        is_function
    }

    pub(super) fn local_function(&mut self, at: Position) -> Checked<Statement> {
        self.eat_word("static");
        let result = if self.eat_word("void") {
            None
        } else {
            let written = self.type_name(false)?;
            let is_known = matches!(&*written.name, "dynamic" | "byte");
            if let Some(remedy) = refused::remedy(&written.name).filter(|_| !is_known) {
                return Err(Problem::new(written.at, remedy));
            }
            Some(written)
        };
        let name = self.name()?;
        self.expect("(")?;
        let (mut parameters, mut defaults) = (Vec::new(), Vec::new());
        while !self.is_sign(")") {
            if let Token::Word(word) = self.token()
                && matches!(&**word, "ref" | "out" | "in" | "params" | "this")
            {
                let message =
                    format!("{word} is not part of the C# that runs here: pass the value, and return the result");
                return Err(Problem::new(self.at(), message));
            }
            let written = self.type_name(false)?;
            parameters.push(self.place(Some(Arc::new(written)))?);
            defaults.push(if self.eat("=") { Some(self.expression()?) } else { None });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        let is_arrow = self.is_sign("=>");
        let (lambda, _) = self.function_body(at, parameters)?;
        if is_arrow && !self.eat(";") && !self.is_end() {
            return Err(Problem::new(self.at(), format!("; is expected, not {}", self.shown())));
        }
        let function = LocalFunction {
            name,
            result,
            defaults,
            lambda: Arc::new(lambda),
        };
        self.has_functions = true;
        self.make_statement(at, StatementKind::Function(Box::new(function)))
    }
}

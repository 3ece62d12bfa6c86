//! Types as scripts write them: `int`, `List<string>?`, `Dictionary<string, object>[]`.

use std::sync::Arc;

use super::{Parser, refused};
use crate::expression::csharp::problem::{Checked, Problem};
use crate::expression::csharp::syntax::{Suffix, Token, TypeName};

/// The keywords that name a type.
const PREDEFINED: &[&str] = &[
    "bool", "int", "long", "double", "decimal", "string", "char", "object", "float", "uint", "ulong", "short",
    "ushort", "byte", "sbyte", "dynamic", "var",
];

pub(super) fn is_predefined(word: &str) -> bool {
    PREDEFINED.contains(&word)
}

impl Parser<'_> {
    /// A type. With `is_pattern` a `?` behind it belongs to a condition.
    pub(super) fn type_name(&mut self, is_pattern: bool) -> Checked<TypeName> {
        self.nested(|parser| parser.plain_type_name(is_pattern))
    }

    fn plain_type_name(&mut self, is_pattern: bool) -> Checked<TypeName> {
        let at = self.at();
        let name: Arc<str> = match self.token() {
            Token::Word(word) if is_predefined(word) => {
                self.advance();
                Arc::clone(word)
            }
            Token::Word(word) if refused::is_keyword(word) => {
                let message = refused::remedy(word).unwrap_or_else(|| format!("a type is expected, not {word}"));
                return Err(Problem::new(at, message));
            }
            _ => self.qualified_name()?,
        };
        let mut arguments = Vec::new();
        if self.eat("<") {
            loop {
                arguments.push(self.type_name(false)?);
                if !self.eat(",") {
                    break;
                }
            }
            self.close_angle()?;
        }
        let mut suffixes = Vec::new();
        loop {
            if self.is_sign("[") && self.is_sign_ahead(1, "]") {
                self.advance();
                self.advance();
                suffixes.push(Suffix::Array);
            } else if self.is_sign("?") && !is_pattern {
                self.advance();
                suffixes.push(Suffix::Nullable);
            } else {
                return Ok(TypeName {
                    at,
                    name,
                    arguments,
                    suffixes,
                });
            }
            if suffixes.len() > 4 {
                return Err(Problem::new(at, "this type has too many [] and ?"));
            }
        }
    }

    /// The name of a type, whose namespace is dropped: `System.Collections.Generic.List`.
    fn qualified_name(&mut self) -> Checked<Arc<str>> {
        let mut name = self.name()?;
        while self.is_sign(".") && matches!(self.ahead(1), Token::Word(_)) {
            self.advance();
            name = self.name()?;
        }
        Ok(name)
    }

    /// The `>` of type arguments.
    fn close_angle(&mut self) -> Checked<()> {
        self.expect(">")
    }
}

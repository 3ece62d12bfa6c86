//! Types as scripts write them: `int`, `List<string>?`, `Dictionary<string, object>[]`.

use std::sync::Arc;

use super::{Parser, refused};
use crate::problem::{Checked, Problem};
use crate::syntax::{Suffix, Token, TypeName};
use crate::types::Size;

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
        self.nested_type_name(is_pattern, &mut 0)
    }

    /// The types between `<` and `>`.
    pub(super) fn type_list(&mut self) -> Checked<Vec<TypeName>> {
        self.counted_type_list(&mut 0)
    }

    fn counted_type_list(&mut self, parts: &mut u32) -> Checked<Vec<TypeName>> {
        let mut list = vec![self.nested_type_name(false, parts)?];
        while self.eat(",") {
            list.push(self.nested_type_name(false, parts)?);
        }
        Ok(list)
    }

    fn nested_type_name(&mut self, is_pattern: bool, parts: &mut u32) -> Checked<TypeName> {
        self.nested(|parser| parser.plain_type_name(is_pattern, parts))
    }

    fn plain_type_name(&mut self, is_pattern: bool, parts: &mut u32) -> Checked<TypeName> {
        let at = self.at();
        *parts += 1;
        if *parts > Size::MOST_PARTS {
            let message = format!("this type is made of more than {} types", Size::MOST_PARTS);
            return Err(Problem::new(at, message));
        }
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
            arguments = self.counted_type_list(parts)?;
            self.close_angle()?;
        }
        let mut suffixes = Vec::new();
        loop {
            if self.is_sign("[") && self.is_sign_ahead(1, "]") {
                self.advance();
                self.advance();
                suffixes.push(Suffix::Array);
            } else if self.is_sign("[") && self.is_sign_ahead(1, ",") {
                self.advance();
                self.one_dimension()?;
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

    /// Refuses a comma in the brackets of an array.
    pub(super) fn one_dimension(&self) -> Checked<()> {
        if self.is_sign(",") {
            let message = "arrays have one dimension here; write an array of arrays (int[][]), or a List<List<int>>";
            return Err(Problem::new(self.at(), message));
        }
        Ok(())
    }

    /// The name of a type, whose namespace is dropped: `System.Collections.Generic.List`.
    fn qualified_name(&mut self) -> Checked<Arc<str>> {
        if self.is_word("global") && self.is_sign_ahead(1, "::") {
            self.advance();
            self.advance();
        }
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

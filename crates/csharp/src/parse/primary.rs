//! Operands: literals, names, parentheses, tuples, `new` and `default`.

use std::sync::Arc;

use super::{Parser, refused, type_names};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Argument, Constant, Expr, Hole, Initializer, ItemType, Kind, Piece, Token, TypeName};
use crate::types::Ty;

/// The most members of an anonymous object.
const MOST_MEMBERS: usize = 255;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Checked<Expr> {
        let at = self.at();
        let constant = match self.token() {
            Token::Int(value) => Constant::Int(*value),
            Token::Long(value) => Constant::Long(*value),
            Token::Double(value) => Constant::Double(*value),
            Token::Decimal(value) => Constant::Decimal(*value),
            Token::Char(value) => Constant::Char(*value),
            Token::Text(value) => Constant::Text(Arc::clone(value)),
            Token::Interpolated(pieces) => {
                self.advance();
                return self.interpolated(at, pieces);
            }
            Token::Sign("(") => return self.parentheses(at),
            Token::Sign("[") => {
                let message = "collection expressions are not supported; write new[] { … } or new List<T> { … }";
                return Err(Problem::new(at, message));
            }
            Token::EscapedName(name) => {
                self.advance();
                return self.make(at, 0, Kind::Name(Arc::clone(name)));
            }
            Token::Word(word) => return self.word(at, word),
            Token::Sign("=>") => {
                return Err(Problem::new(
                    at,
                    "a lambda needs its parameters before =>, as in x => x + 1",
                ));
            }
            _ => {
                return Err(Problem::new(
                    at,
                    format!("an expression is expected, not {}", self.shown()),
                ));
            }
        };
        self.advance();
        self.make(at, 0, Kind::Constant(constant))
    }

    fn word(&mut self, at: Position, word: &Arc<str>) -> Checked<Expr> {
        let constant = match &**word {
            "true" => Constant::Bool(true),
            "false" => Constant::Bool(false),
            "null" => Constant::Null,
            "new" => return self.new_value(at),
            "default" => return self.default_value(at),
            "nameof" if self.is_sign_ahead(1, "(") => return self.name_of(at),
            word if type_names::is_predefined(word) && self.is_sign_ahead(1, ".") => {
                if let Some(remedy) = refused::remedy(word) {
                    return Err(Problem::new(at, remedy));
                }
                self.advance();
                return self.make(at, 0, Kind::Name(word.into()));
            }
            word if refused::is_keyword(word) || word == "async" => {
                let message = refused::remedy(word).unwrap_or_else(|| format!("an expression is expected, not {word}"));
                return Err(Problem::new(at, message));
            }
            "Comparer" | "EqualityComparer" if self.is_sign_ahead(1, "<") => {
                return Err(Problem::new(at, refused::remedy(word).unwrap_or_default()));
            }
            "from" if matches!((self.ahead(1), self.ahead(2)), (Token::Word(_), Token::Word(next)) if &**next == "in") =>
            {
                let message = "query syntax (from … in …) is not part of the C# that runs here: write xs.Where(x => …).Select(x => …)";
                return Err(Problem::new(at, message));
            }
            _ => {
                self.advance();
                // Namespaces of the types that scripts have.
                if &**word == "global" && self.is_sign("::") {
                    self.advance();
                    self.advance();
                    return self.qualified(at);
                }
                if &**word == "System" && self.is_sign(".") {
                    return self.qualified(at);
                }
                return self.make(at, 0, Kind::Name(Arc::clone(word)));
            }
        };
        self.advance();
        self.make(at, 0, Kind::Constant(constant))
    }

    /// `System.Text.Json.JsonSerializer` is `JsonSerializer`.
    fn qualified(&mut self, at: Position) -> Checked<Expr> {
        const NAMESPACES: &[&str] = &[
            "Text",
            "Json",
            "Linq",
            "Collections",
            "Generic",
            "Globalization",
            "Dynamic",
            "RegularExpressions",
            "Nodes",
            "Serialization",
            "Net",
            "IO",
            "Threading",
            "Tasks",
            "Security",
            "Cryptography",
            "Immutable",
            "Concurrent",
            "Diagnostics",
            "Reflection",
        ];
        loop {
            self.expect(".")?;
            let name = self.name()?;
            if !(NAMESPACES.contains(&&*name) && self.is_sign(".")) {
                return self.make(at, 0, Kind::Name(name));
            }
        }
    }

    fn name_of(&mut self, at: Position) -> Checked<Expr> {
        self.advance();
        self.advance();
        let mut name = self.name()?;
        loop {
            if self.is_sign("<") {
                self.advance();
                self.type_list()?;
                self.expect(">")?;
            }
            if !self.eat(".") {
                break;
            }
            name = self.name()?;
        }
        self.expect(")")?;
        self.make(at, 0, Kind::Constant(Constant::Text(name)))
    }

    fn default_value(&mut self, at: Position) -> Checked<Expr> {
        self.advance();
        let written = if self.eat("(") {
            let written = self.type_name(false)?;
            self.expect(")")?;
            Some(written)
        } else {
            None
        };
        self.make(at, 0, Kind::Default(written, Ty::Null))
    }

    fn parentheses(&mut self, at: Position) -> Checked<Expr> {
        self.advance();
        let first = self.argument()?;
        if first.name.is_none() && self.eat(")") {
            return Ok(first.value);
        }
        let mut parts = vec![first];
        while self.eat(",") {
            parts.push(self.argument()?);
        }
        self.expect(")")?;
        if parts.len() < 2 || parts.len() > 7 {
            return Err(Problem::new(at, "a tuple has two to seven parts"));
        }
        let below = parts.iter().map(|part| part.value.depth).max().unwrap_or(0);
        self.make(at, below, Kind::Tuple(parts))
    }

    fn interpolated(&mut self, at: Position, pieces: &[Piece]) -> Checked<Expr> {
        let mut holes = Vec::new();
        let mut below = 0;
        for piece in pieces {
            match piece {
                Piece::Text(text) => holes.push(Hole::Text(Arc::clone(text))),
                Piece::Hole {
                    tokens,
                    alignment,
                    format,
                } => {
                    let mut inner = Parser::new(tokens, self.depth, self.nodes);
                    let value = inner.expression()?;
                    if !inner.is_end() {
                        let message = format!(
                            "}} is expected, not {}; a condition in {{…}} needs parentheses",
                            inner.shown()
                        );
                        return Err(Problem::new(inner.at(), message));
                    }
                    self.nodes = inner.nodes;
                    self.has_functions |= inner.has_functions;
                    self.deepest = self.deepest.max(inner.deepest);
                    self.made = self.made.max(inner.made);
                    below = below.max(value.depth);
                    holes.push(Hole::Value {
                        value,
                        alignment: *alignment,
                        format: format.clone(),
                    });
                }
            }
        }
        self.make(at, below, Kind::Interpolated(holes))
    }

    fn new_value(&mut self, at: Position) -> Checked<Expr> {
        self.advance();
        let initializer = if self.is_sign("{") {
            self.advance();
            Initializer::Anonymous(self.anonymous()?)
        } else if self.is_sign("[") {
            self.advance();
            self.one_dimension()?;
            self.expect("]")?;
            Initializer::Array(ItemType::Shared, Ty::Dynamic, self.items()?)
        } else if self.is_sign("(") {
            // Its type is that of what it is assigned to.
            let written = TypeName {
                at,
                name: "".into(),
                arguments: Vec::new(),
                suffixes: Vec::new(),
            };
            self.new_object(written)?
        } else {
            self.new_typed(at)?
        };
        let below = deepest(&initializer);
        self.make(at, below, Kind::New(Box::new(initializer)))
    }

    fn new_typed(&mut self, at: Position) -> Checked<Initializer> {
        let written = self.type_name(false)?;
        if let Some(remedy) = refused::remedy(&written.name) {
            return Err(Problem::new(at, remedy));
        }
        if written.suffixes.last() == Some(&crate::syntax::Suffix::Array) {
            let mut item = written;
            item.suffixes.pop();
            return Ok(Initializer::Array(ItemType::Written(item), Ty::Dynamic, self.items()?));
        }
        if self.eat("[") {
            let size = self.expression()?;
            self.one_dimension()?;
            self.expect("]")?;
            if self.is_sign("[") {
                let message = "an array of arrays is made of its items here; write new List<T[]>(), and add each array";
                return Err(Problem::new(self.at(), message));
            }
            if self.is_sign("{") {
                return Ok(Initializer::Array(
                    ItemType::Written(written),
                    Ty::Dynamic,
                    self.items()?,
                ));
            }
            return Ok(Initializer::Sized(written, Ty::Dynamic, size));
        }
        self.new_object(written)
    }

    fn new_object(&mut self, written: TypeName) -> Checked<Initializer> {
        let arguments = if self.is_sign("(") {
            self.arguments()?
        } else {
            Vec::new()
        };
        let (mut items, mut pairs) = (Vec::new(), Vec::new());
        if self.eat("{") {
            while !self.is_sign("}") {
                self.initializer_item(&written, &mut items, &mut pairs)?;
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("}")?;
        }
        Ok(Initializer::Object {
            written,
            ty: Ty::Dynamic,
            arguments,
            items,
            pairs,
        })
    }

    /// `value`, `{ key, value }` or `[key] = value`.
    fn initializer_item(
        &mut self,
        written: &TypeName,
        items: &mut Vec<Expr>,
        pairs: &mut Vec<(Expr, Expr)>,
    ) -> Checked<()> {
        let at = self.at();
        if self.eat("{") {
            let key = self.expression()?;
            self.expect(",")?;
            let value = self.expression()?;
            self.expect("}")?;
            pairs.push((key, value));
        } else if self.eat("[") {
            let key = self.expression()?;
            self.expect("]")?;
            self.expect("=")?;
            pairs.push((key, self.expression()?));
        } else if matches!(self.token(), Token::Word(_)) && self.is_sign_ahead(1, "=") {
            return Err(Problem::new(
                at,
                format!(
                    "the members of {} cannot be set; write an anonymous object: new {{ A = 1 }}",
                    written.name
                ),
            ));
        } else {
            items.push(self.expression()?);
        }
        Ok(())
    }

    pub(super) fn items(&mut self) -> Checked<Vec<Expr>> {
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.is_sign("}") {
            items.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(items)
    }

    /// `A = 1, x.B`: a member without a name has that of what it is.
    fn anonymous(&mut self) -> Checked<Vec<Argument>> {
        let mut fields: Vec<Argument> = Vec::new();
        while !self.is_sign("}") {
            let at = self.at();
            let named = matches!(self.token(), Token::Word(_) | Token::EscapedName(_)) && self.is_sign_ahead(1, "=");
            let (name, value) = if named {
                let name = self.name()?;
                self.advance();
                (name, self.expression()?)
            } else {
                let value = self.expression()?;
                let name = match &value.kind {
                    Kind::Name(name) | Kind::Member(_, name) => Arc::clone(name),
                    _ => return Err(Problem::new(at, "this member needs a name, as in new { A = … }")),
                };
                (name, value)
            };
            if fields.iter().any(|field| field.name.as_ref() == Some(&name)) {
                return Err(Problem::new(at, format!("the member {name} occurs twice")));
            }
            if fields.len() >= MOST_MEMBERS {
                let message = format!("an anonymous object has more than {MOST_MEMBERS} members; use a dictionary");
                return Err(Problem::new(at, message));
            }
            fields.push(Argument {
                name: Some(name),
                value,
                out: None,
            });
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(fields)
    }
}

fn deepest(initializer: &Initializer) -> usize {
    let of = |list: &[Expr]| list.iter().map(|item| item.depth).max().unwrap_or(0);
    let of_arguments = |list: &[Argument]| list.iter().map(|item| item.value.depth).max().unwrap_or(0);
    match initializer {
        Initializer::Object {
            arguments,
            items,
            pairs,
            ..
        } => {
            let pairs = pairs.iter().map(|(key, value)| key.depth.max(value.depth)).max();
            of_arguments(arguments).max(of(items)).max(pairs.unwrap_or(0))
        }
        Initializer::Array(_, _, items) => of(items),
        Initializer::Sized(_, _, size) => size.depth,
        Initializer::Anonymous(fields) => of_arguments(fields),
    }
}

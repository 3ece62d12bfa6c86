//! Expressions: operators by precedence, conditions, assignments and lambdas.

use std::sync::Arc;

use super::{Parser, refused};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{
    Arm, AssignOp, BinaryOp, Constant, Expr, Kind, Lambda, Pattern, Place, Statement, StatementKind, Token, TypeName,
    UnaryOp,
};
use crate::types::Ty;

/// The operators of each level, the loosest first; `is`, `as` and `switch` are with the comparisons.
const LEVELS: &[&[(&str, BinaryOp)]] = &[
    &[("|", BinaryOp::Or)],
    &[("^", BinaryOp::Xor)],
    &[("&", BinaryOp::And)],
    &[("==", BinaryOp::Equal), ("!=", BinaryOp::NotEqual)],
    &[
        ("<=", BinaryOp::LessOrEqual),
        (">=", BinaryOp::GreaterOrEqual),
        ("<", BinaryOp::Less),
        (">", BinaryOp::Greater),
    ],
    &[("<<", BinaryOp::ShiftLeft), (">>", BinaryOp::ShiftRight)],
    &[("+", BinaryOp::Add), ("-", BinaryOp::Subtract)],
    &[
        ("*", BinaryOp::Multiply),
        ("/", BinaryOp::Divide),
        ("%", BinaryOp::Remainder),
    ],
];

const COMPARISONS: usize = 4;

const ASSIGNMENTS: &[(&str, AssignOp)] = &[
    ("=", AssignOp::Set),
    ("??=", AssignOp::Coalesce),
    ("+=", AssignOp::With(BinaryOp::Add)),
    ("-=", AssignOp::With(BinaryOp::Subtract)),
    ("*=", AssignOp::With(BinaryOp::Multiply)),
    ("/=", AssignOp::With(BinaryOp::Divide)),
    ("%=", AssignOp::With(BinaryOp::Remainder)),
    ("&=", AssignOp::With(BinaryOp::And)),
    ("|=", AssignOp::With(BinaryOp::Or)),
    ("^=", AssignOp::With(BinaryOp::Xor)),
    ("<<=", AssignOp::With(BinaryOp::ShiftLeft)),
    (">>=", AssignOp::With(BinaryOp::ShiftRight)),
];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Checked<Expr> {
        self.nested(Self::assignment)
    }

    fn assignment(&mut self) -> Checked<Expr> {
        let at = self.at();
        if self.is_lambda() {
            return self.lambda();
        }
        if self.is_word("throw") {
            self.advance();
            let thrown = self.expression()?;
            let below = thrown.depth;
            return self.make(at, below, Kind::Throw(Box::new(thrown)));
        }
        let target = self.conditional()?;
        let Token::Sign(sign) = self.token() else {
            return Ok(target);
        };
        let Some((_, op)) = ASSIGNMENTS.iter().find(|(known, _)| known == sign) else {
            return Ok(target);
        };
        let place = self.at();
        let is_place = match &target.kind {
            Kind::Name(_) | Kind::Member(..) | Kind::Index(..) => true,
            // `(a, b) = (b, a)`.
            Kind::Tuple(parts) => *op == AssignOp::Set && parts.iter().all(is_tuple_place),
            _ => false,
        };
        if !is_place {
            return Err(Problem::new(
                place,
                format!("{sign} needs a variable on its left; to compare, write =="),
            ));
        }
        self.advance();
        let value = self.expression()?;
        let below = target.depth.max(value.depth);
        self.make(at, below, Kind::Assign(*op, Box::new(target), Box::new(value)))
    }

    fn conditional(&mut self) -> Checked<Expr> {
        let at = self.at();
        let condition = self.coalesce()?;
        if !self.is_sign("?") {
            return Ok(condition);
        }
        self.advance();
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.expression()?;
        let below = condition.depth.max(then.depth).max(otherwise.depth);
        let parts = (Box::new(condition), Box::new(then), Box::new(otherwise));
        self.make(at, below, Kind::Choose(parts.0, parts.1, parts.2))
    }

    fn coalesce(&mut self) -> Checked<Expr> {
        let at = self.at();
        let left = self.or()?;
        if !self.is_sign("??") {
            return Ok(left);
        }
        self.advance();
        // To the right.
        let right = self.nested(|parser| {
            if parser.is_word("throw") {
                parser.assignment()
            } else {
                parser.coalesce()
            }
        })?;
        let below = left.depth.max(right.depth);
        self.make(at, below, Kind::Coalesce(Box::new(left), Box::new(right)))
    }

    fn or(&mut self) -> Checked<Expr> {
        let at = self.at();
        let mut left = self.and()?;
        while self.eat("||") {
            let right = self.and()?;
            let below = left.depth.max(right.depth);
            left = self.make(at, below, Kind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Checked<Expr> {
        let at = self.at();
        let mut left = self.binary(0)?;
        while self.eat("&&") {
            let right = self.binary(0)?;
            let below = left.depth.max(right.depth);
            left = self.make(at, below, Kind::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    /// Operators of a level and the tighter ones, by climbing: one call for all levels without an operator.
    fn binary(&mut self, level: usize) -> Checked<Expr> {
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            if level <= COMPARISONS && (self.is_word("is") || self.is_word("as")) {
                left = self.type_test(left)?;
                continue;
            }
            if self.is_word("switch") {
                left = self.switch(left)?;
                continue;
            }
            let Some((found, op, tokens)) = self.operator().filter(|(found, ..)| *found >= level) else {
                return Ok(left);
            };
            for _ in 0..tokens {
                self.advance();
            }
            let right = self.binary(found + 1)?;
            let below = left.depth.max(right.depth);
            left = self.make(at, below, Kind::Binary(op, Box::new(left), Box::new(right)))?;
        }
    }

    /// The operator that is next: its level, and of how many tokens it is.
    fn operator(&self) -> Option<(usize, BinaryOp, usize)> {
        let Token::Sign(sign) = self.token() else { return None };
        let is_shift = *sign == ">" && self.is_sign_ahead(1, ">") && self.is_adjacent();
        let sign = if is_shift { ">>" } else { *sign };
        LEVELS.iter().enumerate().find_map(|(level, operators)| {
            let (_, op) = operators.iter().find(|(known, _)| *known == sign)?;
            Some((level, *op, if is_shift { 2 } else { 1 }))
        })
    }

    fn is_adjacent(&self) -> bool {
        let column = |count: usize| {
            self.tokens
                .get(self.next + count)
                .map(|lexed| (lexed.at.line, lexed.at.column))
        };
        match (column(0), column(1)) {
            (Some((line, first)), Some((next, second))) => line == next && second == first + 1,
            _ => false,
        }
    }

    fn type_test(&mut self, value: Expr) -> Checked<Expr> {
        let at = self.at();
        let below = value.depth;
        if self.eat_word("as") {
            let written = self.type_name(true)?;
            return self.make(at, below, Kind::As(Box::new(value), written, Ty::Dynamic));
        }
        self.advance();
        let (pattern, inside) = self.measured(Self::whole_pattern)?;
        self.make(at, below.max(inside), Kind::Is(Box::new(value), Box::new(pattern)))
    }

    fn switch(&mut self, value: Expr) -> Checked<Expr> {
        let at = self.at();
        self.advance();
        self.expect("{")?;
        let mut below = value.depth;
        let mut arms = Vec::new();
        while !self.is_sign("}") {
            let (pattern, inside) = self.measured(Self::whole_pattern)?;
            below = below.max(inside);
            let when = if self.eat_word("when") {
                Some(self.expression()?)
            } else {
                None
            };
            self.expect("=>")?;
            let value = self.expression()?;
            below = below.max(value.depth).max(when.as_ref().map_or(0, |when| when.depth));
            arms.push(Arm { pattern, when, value });
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        self.make(at, below, Kind::Switch(Box::new(value), arms))
    }

    /// A pattern that is in no other one.
    pub(super) fn whole_pattern(&mut self) -> Checked<Pattern> {
        let around = std::mem::take(&mut self.alternatives);
        let pattern = self.pattern();
        self.alternatives = around;
        pattern
    }

    fn pattern(&mut self) -> Checked<Pattern> {
        self.nested(|parser| {
            let mut left = parser.pattern_and()?;
            while parser.eat_word("or") {
                parser.bound_pattern()?;
                left = Pattern::Or(Box::new(left), Box::new(parser.pattern_and()?));
            }
            Ok(left)
        })
    }

    fn pattern_and(&mut self) -> Checked<Pattern> {
        let mut left = self.pattern_single()?;
        while self.eat_word("and") {
            self.bound_pattern()?;
            left = Pattern::And(Box::new(left), Box::new(self.pattern_single()?));
        }
        Ok(left)
    }

    /// Counts the parts of a pattern, with those in its parentheses: each makes the tree of the pattern a level deeper.
    fn bound_pattern(&mut self) -> Checked<()> {
        self.alternatives += 1;
        if self.alternatives > 50 {
            return Err(Problem::new(
                self.at(),
                "this pattern has more than 50 alternatives; use a list and Contains",
            ));
        }
        Ok(())
    }

    fn pattern_single(&mut self) -> Checked<Pattern> {
        if self.eat_word("not") {
            return Ok(Pattern::Not(Box::new(self.nested(Self::pattern_single)?)));
        }
        if self.is_word("_") {
            self.advance();
            return Ok(Pattern::Any);
        }
        if self.eat("(") {
            let inner = self.pattern()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.is_sign("{") {
            let at = self.at();
            self.advance();
            if !self.eat("}") {
                return Err(Problem::new(
                    at,
                    "property patterns are not supported; compare the members with && and ==",
                ));
            }
            return Ok(Pattern::NotNull);
        }
        for (sign, op) in [
            ("<=", BinaryOp::LessOrEqual),
            (">=", BinaryOp::GreaterOrEqual),
            ("<", BinaryOp::Less),
            (">", BinaryOp::Greater),
        ] {
            if self.eat(sign) {
                return Ok(Pattern::Compare(
                    op,
                    self.nested(|parser| parser.binary(COMPARISONS + 1))?,
                ));
            }
        }
        if self.eat_word("var") {
            return Ok(Pattern::Var(self.place(None)?));
        }
        if self.starts_type_pattern() {
            let written = self.type_name(true)?;
            let is_name = matches!(self.token(), Token::Word(word)
                if !refused::is_keyword(word) && !["and", "or", "when", "not"].contains(&&**word));
            let place = if is_name { Some(self.place(None)?) } else { None };
            return Ok(Pattern::Type(written, Ty::Dynamic, place));
        }
        let value = self.nested(|parser| parser.binary(COMPARISONS + 1))?;
        Ok(Pattern::Value(value))
    }

    /// A predefined type, or a name that is not followed by a member that is a constant.
    fn starts_type_pattern(&self) -> bool {
        match self.token() {
            Token::Word(word) if super::type_names::is_predefined(word) => !self.is_sign_ahead(1, "."),
            Token::Word(word) => {
                let known = [
                    "DateTime",
                    "DateTimeOffset",
                    "TimeSpan",
                    "Guid",
                    "List",
                    "IList",
                    "IEnumerable",
                    "ICollection",
                ];
                let more = [
                    "Dictionary",
                    "IDictionary",
                    "ExpandoObject",
                    "JsonObject",
                    "JsonArray",
                    "JsonNode",
                    "String",
                ];
                let numbers = ["Int32", "Int64", "Double", "Decimal", "Boolean", "Char", "Object"];
                let is_known = known.iter().chain(&more).chain(&numbers).any(|known| *known == &**word);
                is_known && !self.is_sign_ahead(1, ".")
            }
            _ => false,
        }
    }

    pub(super) fn place(&mut self, written: Option<Arc<TypeName>>) -> Checked<Place> {
        let at = self.at();
        let name = self.name()?;
        Ok(Place {
            at,
            name,
            written,
            ty: Ty::Dynamic,
            slot: 0,
        })
    }

    pub(super) fn unary(&mut self) -> Checked<Expr> {
        let at = self.at();
        let op = match self.token() {
            Token::Sign("+") => Some(UnaryOp::Plus),
            Token::Sign("-") => Some(UnaryOp::Minus),
            Token::Sign("!") => Some(UnaryOp::Not),
            Token::Sign("~") => Some(UnaryOp::Complement),
            _ => None,
        };
        if let Some(op) = op {
            self.advance();
            let operand = self.nested(Self::unary)?;
            return self.negated(at, op, operand);
        }
        for (sign, step) in [("++", 1), ("--", -1)] {
            if self.eat(sign) {
                let operand = self.nested(Self::unary)?;
                let below = operand.depth;
                return self.make(at, below, Kind::Step(true, step, Box::new(operand)));
            }
        }
        if self.is_sign("(")
            && let Some(written) = self.attempt(Self::cast_type)
        {
            let operand = self.nested(Self::unary)?;
            let below = operand.depth;
            let ty = Ty::Dynamic;
            return self.make(at, below, Kind::Cast(written, ty, Box::new(operand)));
        }
        self.postfix()
    }

    /// A minus before the literals of which only the negative exists.
    fn negated(&mut self, at: Position, op: UnaryOp, operand: Expr) -> Checked<Expr> {
        let below = operand.depth;
        let kind = match (op, &operand.kind) {
            (UnaryOp::Minus, Kind::Constant(Constant::Long(2_147_483_648))) => Kind::Constant(Constant::Int(i32::MIN)),
            (UnaryOp::Minus, Kind::Constant(Constant::Long(i64::MIN))) => Kind::Constant(Constant::Long(i64::MIN)),
            _ => Kind::Unary(op, Box::new(operand)),
        };
        self.make(at, below, kind)
    }

    /// `(Type)` before an operand: what follows decides whether the parentheses hold a type.
    fn cast_type(parser: &mut Self) -> Checked<Option<TypeName>> {
        parser.expect("(")?;
        let predefined = matches!(parser.token(), Token::Word(word) if super::type_names::is_predefined(word));
        let written = parser.type_name(false)?;
        parser.expect(")")?;
        let follows = match parser.token() {
            Token::Sign(sign) => ["(", "!", "~"].contains(sign) || (predefined && ["-", "+"].contains(sign)),
            Token::Word(word) => !["is", "as", "switch", "and", "or", "when"].contains(&&**word),
            Token::End => false,
            _ => true,
        };
        Ok(follows.then_some(written))
    }

    pub(super) fn is_lambda(&self) -> bool {
        match self.token() {
            Token::Word(word) if **word == *"async" || **word == *"static" => false,
            Token::Word(_) | Token::EscapedName(_) => self.is_sign_ahead(1, "=>"),
            Token::Sign("(") => {
                let (mut open, mut count) = (0usize, 0);
                loop {
                    match self.ahead(count) {
                        Token::Sign("(") => open += 1,
                        Token::Sign(")") => {
                            open -= 1;
                            if open == 0 {
                                return self.is_sign_ahead(count + 1, "=>");
                            }
                        }
                        // Parameters are names and types.
                        Token::Word(_) | Token::EscapedName(_) | Token::Sign("," | "<" | ">" | "?" | "[" | "]") => {}
                        _ => return false,
                    }
                    count += 1;
                }
            }
            _ => false,
        }
    }

    fn lambda(&mut self) -> Checked<Expr> {
        let at = self.at();
        let parameters = if self.eat("(") {
            let mut parameters = Vec::new();
            while !self.is_sign(")") {
                let is_typed = !matches!(self.ahead(1), Token::Sign("," | ")"));
                let written = if is_typed {
                    Some(Arc::new(self.type_name(false)?))
                } else {
                    None
                };
                parameters.push(self.place(written)?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            parameters
        } else {
            vec![self.place(None)?]
        };
        let (lambda, below) = self.function_body(at, parameters)?;
        self.make(at, below, Kind::Lambda(Arc::new(lambda)))
    }

    /// `=> value` or `{ … }` behind parameters, and how deep the expressions in it are.
    pub(super) fn function_body(&mut self, at: Position, parameters: Vec<Place>) -> Checked<(Lambda, usize)> {
        let deepest = std::mem::replace(&mut self.deepest, self.depth);
        let is_arrow = self.eat("=>");
        let is_expression = is_arrow && !self.is_sign("{");
        let (body, below) = if is_expression {
            let body = self.expression()?;
            let (at, below) = (body.at, body.depth);
            let kind = StatementKind::Expression(body);
            (Statement { at, kind }, below)
        } else if self.is_sign("{") {
            self.measured(Self::statement)?
        } else {
            return Err(Problem::new(self.at(), format!("{{ is expected, not {}", self.shown())));
        };
        let inside = self.deepest - self.depth;
        self.deepest = self.deepest.max(deepest);
        let lambda = Lambda {
            at,
            parameters,
            body,
            is_expression,
            depth: inside + below,
            slots: (0, 0),
        };
        Ok((lambda, below))
    }
}

fn is_tuple_place(part: &crate::syntax::Argument) -> bool {
    part.out.is_none() && matches!(part.value.kind, Kind::Name(_) | Kind::Member(..) | Kind::Index(..))
}

//! The tree of a script. The parser makes it, the checker resolves its names, and the evaluator walks it.

use std::sync::Arc;

use crate::problem::Position;
use crate::types::{FunctionTy, Ty};
use mainspring_language::Decimal;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
    Char(u16),
    Text(Arc<str>),
}

/// A type as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeName {
    pub(crate) at: Position,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Vec<TypeName>,
    /// `?` and `[]`, in their order.
    pub(crate) suffixes: Vec<Suffix>,
}

/// What follows the name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suffix {
    Nullable,
    Array,
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) at: Position,
    /// How deep the tree below it is: the evaluator recurses as deep.
    pub(crate) depth: usize,
    pub(crate) kind: Kind,
}

/// What Elsa gives a script by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    Variables,
    Input,
    Output,
    Outcome,
    ExecutionContext,
    Arguments,
    WorkflowInstanceId,
    CorrelationId,
    WorkflowInstanceName,
}

impl Global {
    /// Whether it is a text, and no object with methods of its own.
    pub(crate) fn is_text(self) -> bool {
        matches!(
            self,
            Self::WorkflowInstanceId | Self::CorrelationId | Self::WorkflowInstanceName
        )
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Constant(Constant),
    Interpolated(Vec<Hole>),
    /// A name; the checker turns it into one of the next four.
    Name(Arc<str>),
    Local(usize),
    Global(Global),
    /// A type as the target of a member, as `Math`.
    Type(Ty),
    /// A static class of functions, as `Math` and `Convert`.
    Class(&'static str),
    /// The value before `?.`, in the chain behind it.
    Target,
    Member(Box<Expr>, Arc<str>),
    /// A variable by its name in the definition.
    Variable(Arc<str>),
    /// An input by its name in the definition, and its type.
    Input(Arc<str>, Ty),
    Index(Box<Expr>, Box<Expr>),
    /// A target, and the chain that is evaluated unless it is null.
    Conditional(Box<Expr>, Box<Expr>),
    Call(Box<Call>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// The same where an operand may be null by its type: then the result is null.
    Lifted(BinaryOp, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Coalesce(Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    Assign(AssignOp, Box<Expr>, Box<Expr>),
    /// Whether it comes before the operand, and the step.
    Step(bool, i32, Box<Expr>),
    Cast(TypeName, Ty, Box<Expr>),
    /// A conversion that the checker adds.
    Convert(Ty, Box<Expr>),
    Is(Box<Expr>, Box<Pattern>),
    As(Box<Expr>, TypeName, Ty),
    Switch(Box<Expr>, Vec<Arm>),
    New(Box<Initializer>),
    Tuple(Vec<Argument>),
    /// As the argument of a method, which calls it while it runs.
    Lambda(Arc<Lambda>),
    /// As a value, which may outlive the statements around it.
    Function(Arc<Lambda>, Arc<FunctionTy>),
    /// A call of a value, or of a function by its name; the checker turns the latter into the next one.
    Invoke(Box<Expr>, Vec<Argument>),
    /// A call of a local function by its number.
    CallFunction(usize, Vec<Argument>),
    /// `a..b` in an indexer.
    Range(Option<Box<Expr>>, Option<Box<Expr>>),
    /// `^a` in an indexer.
    FromEnd(Box<Expr>),
    /// `e.GetType().Name` of an exception.
    ExceptionName(Box<Expr>),
    Default(Option<TypeName>, Ty),
    Throw(Box<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Hole {
    Text(Arc<str>),
    Value {
        value: Expr,
        alignment: Option<i32>,
        format: Option<Arc<str>>,
    },
}

/// A call of a method.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: Expr,
    pub(crate) name: Arc<str>,
    pub(crate) type_arguments: Vec<TypeName>,
    pub(crate) types: Vec<Ty>,
    pub(crate) arguments: Vec<Argument>,
    /// What the checker knows of its result.
    pub(crate) result: Ty,
    /// The target may be null by its type, which has this method all the same.
    pub(crate) takes_null: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    /// `name: value`, and the names of fields and of parts of a tuple.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) value: Expr,
    /// `out var x`: the local that receives it.
    pub(crate) out: Option<Place>,
}

/// A local of a script: its declared type, and where its value is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) at: Position,
    pub(crate) name: Arc<str>,
    /// `None` means `var`.
    pub(crate) written: Option<Arc<TypeName>>,
    pub(crate) ty: Ty,
    pub(crate) slot: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Lambda {
    pub(crate) at: Position,
    pub(crate) parameters: Vec<Place>,
    pub(crate) body: Statement,
    /// The body is an expression, whose value it returns.
    pub(crate) is_expression: bool,
    /// About how deep the evaluator recurses in it.
    pub(crate) depth: usize,
    /// The slots of its own locals, with those of the lambdas in it.
    pub(crate) slots: (usize, usize),
}

/// A function that is declared by a statement.
#[derive(Clone, Debug)]
pub(crate) struct LocalFunction {
    pub(crate) name: Arc<str>,
    /// `None` means `void`.
    pub(crate) result: Option<TypeName>,
    /// The values of parameters that a call may leave out.
    pub(crate) defaults: Vec<Option<Expr>>,
    pub(crate) lambda: Arc<Lambda>,
}

/// A part of a switch statement: its labels, and what they lead to.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) labels: Vec<Label>,
    pub(crate) body: Vec<Statement>,
}

/// `case pattern when condition:`; `default:` has no pattern.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) pattern: Option<Pattern>,
    pub(crate) when: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Try {
    pub(crate) body: Statement,
    pub(crate) catches: Vec<Catch>,
    pub(crate) finally: Option<Statement>,
}

/// `catch (Type name) when (condition)`.
#[derive(Clone, Debug)]
pub(crate) struct Catch {
    pub(crate) exception: Arc<str>,
    pub(crate) place: Option<Place>,
    pub(crate) when: Option<Expr>,
    pub(crate) body: Statement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Plus,
    Minus,
    Not,
    Complement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignOp {
    Set,
    Coalesce,
    With(BinaryOp),
}

#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// A value, as `null` or `5`.
    Value(Expr),
    Type(TypeName, Ty, Option<Place>),
    Compare(BinaryOp, Expr),
    Not(Box<Pattern>),
    And(Box<Pattern>, Box<Pattern>),
    Or(Box<Pattern>, Box<Pattern>),
    /// `var x`.
    Var(Place),
    Any,
    /// `{ }`: not null.
    NotNull,
}

/// An arm of a switch expression.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) pattern: Pattern,
    pub(crate) when: Option<Expr>,
    pub(crate) value: Expr,
}

/// A `new` expression.
#[derive(Clone, Debug)]
pub(crate) enum Initializer {
    Object {
        written: TypeName,
        ty: Ty,
        arguments: Vec<Argument>,
        items: Vec<Expr>,
        /// Pairs of a dictionary.
        pairs: Vec<(Expr, Expr)>,
    },
    /// `new[] { … }`, `new int[] { … }` and `{ … }`.
    Array(ItemType, Ty, Vec<Expr>),
    /// `new int[3]`.
    Sized(TypeName, Ty, Expr),
    Anonymous(Vec<Argument>),
}

/// Where the items of an array have their type from.
#[derive(Clone, Debug)]
pub(crate) enum ItemType {
    /// `new int[] { … }` names it.
    Written(TypeName),
    /// `new[] { … }` has the one that its items share.
    Shared,
    /// `int[] a = { … }` has that of the declaration.
    Declared,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) at: Position,
    pub(crate) kind: StatementKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    Expression(Expr),
    Declare(Vec<(Place, Option<Expr>)>),
    /// `var (a, b) = …`.
    Deconstruct(Vec<Place>, Expr),
    /// `foreach (var (a, b) in …)`.
    ForEachParts(Vec<Place>, Expr, Box<Statement>),
    Switch(Expr, Vec<Section>),
    Try(Box<Try>),
    /// `throw;`
    Rethrow,
    Function(Box<LocalFunction>),
    If(Expr, Box<Statement>, Option<Box<Statement>>),
    ForEach(Place, Expr, Box<Statement>),
    For(Vec<Statement>, Option<Expr>, Vec<Expr>, Box<Statement>),
    While(Expr, Box<Statement>),
    DoWhile(Box<Statement>, Expr),
    Return(Option<Expr>),
    Break,
    Continue,
    Block(Vec<Statement>),
    Empty,
}

//! The parsed form of a template.

use std::ops::Range;

use super::comparison::Operator;
use super::filters::Filter;
use mainspring_language::Decimal;

/// Statements in their order.
pub(super) type Block = Vec<Statement>;

#[derive(Debug)]
pub(super) enum Statement {
    /// A part of the template's text.
    Text(Range<u32>),
    Output {
        at: u32,
        value: TemplateExpression,
    },
    Assign {
        at: u32,
        name: Box<str>,
        value: TemplateExpression,
    },
    Capture {
        name: Box<str>,
        body: Block,
    },
    If {
        at: u32,
        branches: Vec<(Condition, Block)>,
        otherwise: Option<Block>,
    },
    Case {
        at: u32,
        subject: TemplateExpression,
        whens: Vec<(Vec<TemplateExpression>, Block)>,
        otherwise: Option<Block>,
    },
    For(Box<Loop>),
    Cycle {
        at: u32,
        group: Option<TemplateExpression>,
        values: Vec<TemplateExpression>,
    },
    /// `increment` and `decrement`.
    Count {
        name: Box<str>,
        by: i8,
    },
    Break,
    Continue,
    /// `liquid`.
    Group(Block),
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) value: TemplateExpression,
    /// `unless`.
    pub(super) is_negated: bool,
}

#[derive(Debug)]
pub(super) struct Loop {
    pub(super) at: u32,
    pub(super) name: Box<str>,
    pub(super) source: TemplateExpression,
    pub(super) limit: Option<TemplateExpression>,
    pub(super) offset: Option<LoopOffset>,
    pub(super) is_reversed: bool,
    pub(super) body: Block,
    pub(super) otherwise: Option<Block>,
}

#[derive(Debug)]
pub(super) enum LoopOffset {
    Value(TemplateExpression),
    /// `offset: continue`: where the last loop over the same name ended.
    Continue,
}

#[derive(Debug)]
pub(super) enum TemplateExpression {
    Empty,
    Blank,
    Boolean(bool),
    Number(Decimal),
    Text(Box<str>),
    Path(Path),
    Range(Box<(TemplateExpression, TemplateExpression)>),
    Compare(Box<(TemplateExpression, Operator, TemplateExpression)>),
    /// Grouped from the right, without precedence: `a and b or c` is `a and (b or c)`.
    Logic {
        first: Box<TemplateExpression>,
        rest: Vec<(Connective, TemplateExpression)>,
    },
    Filtered {
        input: Box<TemplateExpression>,
        calls: Vec<FilterCall>,
    },
}

/// A name and its members.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) at: u32,
    pub(super) root: Box<str>,
    pub(super) segments: Vec<PathSegment>,
}

#[derive(Debug)]
pub(super) enum PathSegment {
    Member(Box<str>),
    Index(TemplateExpression),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connective {
    And,
    Or,
}

#[derive(Debug)]
pub(super) struct FilterCall {
    pub(super) at: u32,
    pub(super) filter: &'static Filter,
    pub(super) arguments: Vec<(Option<Box<str>>, TemplateExpression)>,
}

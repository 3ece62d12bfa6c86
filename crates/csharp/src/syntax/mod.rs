//! What a script is made of: tokens, and the tree that they make.

mod lexer;
mod number;
mod token;
mod tree;

pub(super) use lexer::lex;
pub(super) use token::{Lexed, Piece, Token};
pub(super) use tree::{
    Argument, Arm, AssignOp, BinaryOp, Call, Catch, Constant, Expr, Global, Hole, Initializer, ItemType, Kind, Label,
    Lambda, LocalFunction, Pattern, Place, Section, Statement, StatementKind, Suffix, Try, TypeName, UnaryOp,
};

//! What a script is made of: tokens, and the tree that they make.

mod lexer;
mod number;
mod token;
mod tree;

pub(super) use lexer::lex;
pub(super) use token::{Lexed, Piece, Token};
pub(super) use tree::{
    Argument, Arm, AssignOp, BinaryOp, Call, Constant, Expr, Global, Hole, Initializer, Kind, Lambda, Pattern, Place,
    Statement, StatementKind, Suffix, TypeName, UnaryOp,
};

//! Users, roles, applications, and the tokens of users.
//!
//! # Layout
//!
//! - `admin`: what changes users, roles and applications, from any node or from a program without one: `users`, `roles`,
//!   `applications`; `names`: the texts that they may have.
//! - `sign_in`: passwords for tokens, and refresh tokens for others; `tokens`: their form; `callers`: who shows a token or a key.

pub(crate) mod admin;
pub(crate) mod applications;
pub(crate) mod callers;
mod names;
pub(crate) mod roles;
pub(crate) mod sign_in;
pub(crate) mod tokens;
pub(crate) mod users;

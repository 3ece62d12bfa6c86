//! Who sends a request, and what that caller may do. Nothing here knows how a credential is checked or where it is kept.
//!
//! # Layout
//!
//! - `permission`: the permissions that routes ask for, and sets of them.
//! - `caller`: who sends a request; `origin`: where it comes from, for the audit.

mod caller;
mod origin;
mod permission;

pub(crate) use caller::{Caller, CallerKind};
pub(crate) use origin::RequestOrigin;
pub(crate) use permission::{Permission, Permissions};

//! JavaScript: bounded, isolated and deterministic enough to be run again.
//!
//! A [`ScriptEngine`] owns a bounded pool of threads. A burst opens a [`ScriptSession`] and evaluates its scripts with
//! it, each in its own [`ScriptScope`]. These invariants hold for every script:
//!
//! - **It ends.** After [`ScriptOptions::time_limit`] it is interrupted: in its own code, in a regular expression, in a
//!   sort, in a promise chain, in a getter that the conversion of its result calls. If it hangs in native code all
//!   the same, its caller receives a timeout, and the thread is replaced.
//! - **It does not block others.** A script that takes longer than 50 ms goes on beside the others, in time slices;
//!   if no slot is free for it, its burst is deferred ([`ScriptErrorKind::Busy`]).
//! - **It is bounded.** Its heap, its stack and its result have limits, each with its own error kind.
//! - **It is isolated.** It sees its scope and the language, but nothing of the host: no files, no network, no modules,
//!   and only those settings and secrets that the operator lists. It sees nothing that an earlier script did, whether
//!   of its own instance or of another one: see `realm`.
//! - **It has no effects of its own.** Writes are collected and returned; a script that fails has none.
//! - **Its text can be stored.** U+0000, which PostgreSQL cannot store, is refused ([`ScriptErrorKind::InvalidText`]); half of a
//!   surrogate pair becomes U+FFFD.
//!
//! # Layout
//! - `thread_pool`: sessions and their queues; `script_queue`: a queue and its thread's state;
//!   `script_thread`: the loop of a thread; `task`: one evaluation; `brief_scripts`: those that need no other thread.
//! - `slow_scripts`: slots, time slices and the backlog; `interrupt`: whether a running script may go on.
//! - `language`: JavaScript as one of the languages; `declarations`: the names that scripts can use, as TypeScript for
//!   an editor.
//! - `realm`: one JavaScript heap; `heap_allocator`: its memory; `script_watch`: whether the heap may grow and the
//!   script may continue; `realm_functions`: Elsa's functions in it; `realm_bytecode`: the built-in scripts;
//!   `compiled_scripts`: the scripts that it has compiled; `language_change`: which scripts are refused; `pure_script`:
//!   which scripts need no sweep afterwards.
//! - `thrown`: what an error says, and its place. `syntax`: whether a script parses; `tokens`: its words and signs; `free_names`:
//!   the names that it does not declare; `unknown_names`: those of them that
//!   nothing else defines. `accessor`: which of Elsa's generated functions a script needs; `convert`: values between JSON and
//!   JavaScript; `locale_compare`: the order of words.

mod accessor;
mod brief_scripts;
mod compiled_scripts;
mod convert;
mod declarations;
mod free_names;
mod heap_allocator;
mod interrupt;
mod language;
mod language_change;
mod locale_compare;
mod pure_script;
mod realm;
mod realm_bytecode;
mod realm_functions;
mod script_queue;
mod script_thread;
mod script_watch;
mod slow_scripts;
mod syntax;
mod task;
#[cfg(test)]
mod tests;
mod thread_pool;
mod thrown;
mod tokens;
mod unknown_names;

#[cfg(doc)]
use super::script::{ScriptErrorKind, ScriptScope};
#[cfg(doc)]
use super::session::{ScriptEngine, ScriptSession};
pub(super) use language::JavaScript;
#[cfg(test)]
pub(crate) use realm::search_script;
pub(super) use thread_pool::{PoolSession, ScriptPool};

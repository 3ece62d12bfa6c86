//! The scripts that a realm has compiled, by their text.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use rquickjs::{Function, Persistent};

/// Texts of at most this many bytes are kept.
const MAX_TEXT: usize = 16 << 10;

/// The older texts are dropped as soon as the younger ones reach this many bytes or this number.
const MAX_BYTES: usize = 128 << 10;
const MAX_SCRIPTS: usize = 512;

/// How a script runs.
#[derive(Clone)]
pub(super) enum Compiled {
    /// By a call of this arrow function. A script cannot reach it, so it cannot leave anything on it.
    Function {
        function: Persistent<Function<'static>>,
        /// Nothing that it does outlives the call.
        is_pure: bool,
    },
    /// By a call of this async function.
    Async { function: Persistent<Function<'static>> },
    /// By a direct `eval`.
    Program,
}

/// Two generations of compiled scripts: a script that is used again moves to the younger one.
#[derive(Default)]
pub(super) struct CompiledScripts {
    young: RefCell<HashMap<Box<str>, Compiled>>,
    old: RefCell<HashMap<Box<str>, Compiled>>,
    bytes: Cell<usize>,
}

impl CompiledScripts {
    pub(super) fn get(&self, script: &str) -> Option<Compiled> {
        if let Some(compiled) = self.young.borrow().get(script) {
            return Some(compiled.clone());
        }
        let compiled = self.old.borrow_mut().remove(script)?;
        self.insert(script, &compiled);
        Some(compiled)
    }

    pub(super) fn insert(&self, script: &str, compiled: &Compiled) {
        if script.len() > MAX_TEXT {
            return;
        }
        let bytes = self.bytes.get() + script.len();
        self.bytes.set(bytes);
        let mut young = self.young.borrow_mut();
        young.insert(script.into(), compiled.clone());
        if bytes > MAX_BYTES || young.len() > MAX_SCRIPTS {
            self.bytes.set(0);
            let old = self.old.replace(std::mem::take(&mut *young));
            drop(young);
            drop(old);
        }
    }

    /// Whether a text that parses as an expression means the same as a program: a text that begins with `{` or
    /// `function` does not. Nor does a text that begins with a comment, which may hide such a beginning, or contains
    /// one of HTML.
    pub(super) fn may_be_expression(script: &str) -> bool {
        let start = script.trim_start();
        let word = start
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
            .next();
        script.len() <= MAX_TEXT
            && !start.is_empty()
            && !["{", "//", "/*"].iter().any(|begin| start.starts_with(begin))
            && !matches!(
                word,
                Some("function" | "async" | "class" | "let" | "return" | "const" | "var" | "if" | "for")
            )
            && !script.contains("<!--")
            && !script.contains("-->")
    }
}

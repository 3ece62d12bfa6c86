//! The scripts, and the arguments of their calls. In a cluster each call has one key of a lock, and everything beside the
//! key is in its hash slot.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::lock::request::LockMode;
use crate::redis_server::HashSlot;

/// A script. Its keys and arguments are described in its file.
#[derive(Clone, Copy)]
pub(super) enum Script {
    Exchange,
    Extend,
    Token,
    TakeOver,
}

pub(super) const SCRIPTS: [Script; 4] = [Script::Exchange, Script::Extend, Script::Token, Script::TakeOver];

/// Where the key of the counter is: the first of the keys.
const ALONE: &str = "local counter, from, asked = KEYS[1], 1, false\n";
/// In a cluster it is no key of the call: while its hash slot moves, a call with several keys would be refused.
const IN_CLUSTER: &str = "local counter, from, asked = ARGV[#ARGV - 1], 0, ARGV[#ARGV] == '1'\n";

impl Script {
    /// What a server is given to load.
    pub(super) fn text(self, is_cluster: bool) -> String {
        let head = if is_cluster { IN_CLUSTER } else { ALONE };
        let body = match self {
            Self::Exchange => include_str!("exchange.lua"),
            Self::Extend => include_str!("extend.lua"),
            Self::Token => include_str!("token.lua"),
            Self::TakeOver => include_str!("take_over.lua"),
        };
        [head, include_str!("tokens.lua"), body].concat()
    }
}

/// What is written for a grant.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) mode: LockMode,
}

impl Written {
    fn arguments(&self) -> [String; 2] {
        let mode = match self.mode {
            LockMode::Exclusive => "x",
            LockMode::Shared => "s",
        };
        [self.value.clone(), mode.to_owned()]
    }
}

/// One call of a script.
pub(super) struct ScriptCall {
    script: Script,
    counter: String,
    keys: Vec<String>,
    arguments: Vec<String>,
    /// Where its key is; `None` if it is for the only server.
    pub(super) slot: Option<HashSlot>,
}

impl ScriptCall {
    /// The command, by the digests of [`SCRIPTS`].
    pub(super) fn command(&self, digests: &[String], asking: bool) -> Cmd {
        let digest = digests.get(self.script as usize).map_or("", String::as_str);
        let mut command = redis::cmd("EVALSHA");
        command.arg(digest);
        if self.slot.is_some() {
            let asked = if asking { "1" } else { "0" };
            command.arg(self.keys.len()).arg(&self.keys).arg(&self.arguments);
            command.arg(&self.counter).arg(asked);
        } else {
            command.arg(self.keys.len() + 1).arg(&self.counter).arg(&self.keys);
            command.arg(&self.arguments);
        }
        command
    }
}

/// What became of a call.
#[derive(Clone)]
pub(super) enum CallAnswer {
    Done(Value),
    /// The script has not run, and may later.
    NotRun,
    /// It may have run.
    InDoubt,
}

/// How calls are made: all keys in one, or each key in its own.
pub(super) struct CallForm {
    pub(super) prefix: String,
    pub(super) channel: String,
    pub(super) expiry: Duration,
    pub(super) is_cluster: bool,
}

impl CallForm {
    pub(super) fn new(prefix: &str, channel: String, expiry: Duration, is_cluster: bool) -> Self {
        Self {
            prefix: prefix.to_owned(),
            channel,
            expiry,
            is_cluster,
        }
    }

    /// Releases, then takes: in one call, or those to release in one each, then those to take.
    pub(super) fn exchange(&self, released: &[Written], taken: &[Written]) -> Vec<ScriptCall> {
        if !self.is_cluster {
            return vec![self.exchange_call(released, taken)];
        }
        let releases = released.iter().map(std::slice::from_ref);
        let takes = taken.iter().map(std::slice::from_ref);
        releases
            .map(|one| self.exchange_call(one, &[]))
            .chain(takes.map(|one| self.exchange_call(&[], one)))
            .collect()
    }

    fn exchange_call(&self, released: &[Written], taken: &[Written]) -> ScriptCall {
        let keys: Vec<String> = released.iter().chain(taken).map(|one| one.key.clone()).collect();
        let slot = self.slot_of(&keys);
        let mut arguments = vec![
            self.expiry.as_millis().to_string(),
            released.len().to_string(),
            self.channel.clone(),
            self.prefix.len().to_string(),
            match slot {
                Some(slot) => format!("mainspring:waiting:{{{}}}:", slot.tag()),
                None => "mainspring:waiting:".to_owned(),
            },
        ];
        arguments.extend(released.iter().chain(taken).flat_map(Written::arguments));
        self.call(Script::Exchange, keys, arguments)
    }

    /// Extends: in one call, or each in its own.
    pub(super) fn extend(&self, written: &[Written]) -> Vec<ScriptCall> {
        self.each(written, |page| {
            let mut arguments = vec![self.expiry.as_millis().to_string()];
            arguments.extend(page.iter().flat_map(Written::arguments));
            (Script::Extend, arguments)
        })
    }

    /// Draws a token of at least this number for what is held together.
    pub(super) fn token(&self, written: &[Written], least: u64) -> Vec<ScriptCall> {
        self.each(written, |page| {
            let mut arguments: Vec<String> = page.iter().flat_map(Written::arguments).collect();
            arguments.push(least.to_string());
            (Script::Token, arguments)
        })
    }

    /// Replaces the values that were met.
    pub(super) fn take_over(&self, met: &[(Written, String)]) -> Vec<ScriptCall> {
        let pages = if self.is_cluster { 1 } else { met.len().max(1) };
        let call = |page: &[(Written, String)]| {
            let keys = page.iter().map(|(written, _)| written.key.clone()).collect();
            let mut arguments = vec![self.expiry.as_millis().to_string()];
            arguments.extend(page.iter().flat_map(|(one, met)| [met.clone(), one.value.clone()]));
            self.call(Script::TakeOver, keys, arguments)
        };
        met.chunks(pages).map(call).collect()
    }

    fn each(&self, written: &[Written], of_page: impl Fn(&[Written]) -> (Script, Vec<String>)) -> Vec<ScriptCall> {
        let pages = if self.is_cluster { 1 } else { written.len().max(1) };
        let call = |page: &[Written]| {
            let (script, arguments) = of_page(page);
            let keys = page.iter().map(|one| one.key.clone()).collect();
            self.call(script, keys, arguments)
        };
        written.chunks(pages).map(call).collect()
    }

    fn slot_of(&self, keys: &[String]) -> Option<HashSlot> {
        keys.first().filter(|_| self.is_cluster).map(|key| HashSlot::of(key))
    }

    fn call(&self, script: Script, keys: Vec<String>, arguments: Vec<String>) -> ScriptCall {
        let slot = self.slot_of(&keys);
        let counter = match slot {
            Some(slot) => format!("mainspring:tokens:{{{}}}:{}", slot.tag(), self.prefix),
            None => format!("mainspring:tokens:{}", self.prefix),
        };
        ScriptCall {
            script,
            counter,
            keys,
            arguments,
            slot,
        }
    }
}

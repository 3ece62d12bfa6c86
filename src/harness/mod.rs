//! What the program and its benchmarks share: child nodes, a private PostgreSQL, a client of the REST API, the exit code
//! and the message of a failure. Nothing here knows a command.

#![cfg_attr(
    not(feature = "bench"),
    allow(dead_code, reason = "the benchmarks use more of it than the program")
)]

#[cfg(feature = "failpoints")]
pub(crate) mod call_activity;
pub(crate) mod client;
pub(crate) mod failure;
pub(crate) mod nodes;
pub(crate) mod private_postgres;
pub(crate) mod scratch;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod stop;
pub(crate) mod work_activity;

use std::io::{self, Write};

/// Prints one line on standard output and flushes it. A closed pipe is no failure.
pub fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// JSON without the controls of terminals that it may have in texts of others.
pub(crate) fn without_controls(json: &str) -> String {
    let is_control = |character: char| matches!(character, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if is_control(character) {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_controls_of_terminals() {
        assert_eq!(
            without_controls("{\"a\": \"\u{9b}31m\u{202e}ü\"}"),
            r#"{"a": "\u009b31m\u202eü"}"#
        );
    }
}

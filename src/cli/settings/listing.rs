//! `mainspring settings`: all settings of `serve`, as a file for `--config` with each of them commented out.

use clap::{Arg, ArgAction};

use super::command_line;

/// The longest line of a comment, in characters.
const WIDTH: usize = 110;

/// The lines of the file.
pub(crate) fn listing() -> Vec<String> {
    let program = command_line();
    let serve = program.find_subcommand("serve").into_iter();
    let all = program
        .get_arguments()
        .chain(serve.flat_map(clap::Command::get_arguments));
    let mut lines = vec!["# Remove the # before `name =` to set it.".to_owned()];
    for argument in all {
        let name = argument.get_long().filter(|name| *name != "config");
        if let Some(name) = name {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            lines.push(String::new());
            lines.extend(wrapped(&help));
            lines.push(format!("# {name} = {}", default_of(argument)));
        }
    }
    lines
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec!["##".to_owned()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("## {word}")),
        }
    }
    lines
}

fn default_of(argument: &Arg) -> String {
    let quoted = |text: &str| match text.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{text}\""),
    };
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    match (argument.get_action(), argument.get_value_delimiter()) {
        (ArgAction::SetTrue, _) => "false".to_owned(),
        (_, Some(delimiter)) => {
            let items: Vec<String> = defaults
                .iter()
                .flat_map(|all| all.split(delimiter))
                .map(quoted)
                .collect();
            format!("[{}]", items.join(", "))
        }
        _ => quoted(&defaults.concat()),
    }
}

//! The settings: names, documentation, and precedence of their sources.

use std::time::Duration;

use super::*;

const DOCS: &str = include_str!("../../../docs/reference/operating.md");

fn each_setting(mut visit: impl FnMut(&str, &clap::Arg)) {
    let program = command_line();
    let mut commands = vec![&program];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for argument in command.get_arguments() {
            let is_word = argument.is_positional();
            if argument.get_id() != "help" && argument.get_id() != "version" && !is_word {
                visit(command.get_name(), argument);
            }
        }
    }
}

#[test]
fn every_setting_has_its_name_in_the_environment() {
    command_line().debug_assert();
    let mut count = 0;
    each_setting(|command, argument| {
        count += 1;
        let flag = argument
            .get_long()
            .unwrap_or_else(|| panic!("{command}: {} has no flag", argument.get_id()));
        let name = format!("MAINSPRING_{}", flag.replace('-', "_").to_uppercase());
        assert_eq!(
            argument.get_env(),
            Some(std::ffi::OsStr::new(&name)),
            "{command} --{flag}"
        );
        // Help would print a password.
        assert!(argument.is_hide_env_values_set(), "{command} --{flag}");
    });
    assert!(count > 15);
}

#[test]
fn an_older_name_of_a_setting_stays_valid() {
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(serve(&["--dead-letter-lifetime", "24h"]).dead_letter_lifetime, day);
    assert_eq!(serve(&["--letter-lifetime", "24h"]).dead_letter_lifetime, day);
    let older = |name: &str| (name == "MAINSPRING_LETTER_LIFETIME").then(|| OsString::from("24h"));
    let lifetime = |arguments: &[&str]| {
        let program = with_environment(ProgramArguments::command(), older);
        let all = ["mainspring", "serve"].iter().chain(arguments);
        let matches = program.try_get_matches_from(all).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        *matches.get_one::<Duration>("dead_letter_lifetime").unwrap()
    };
    assert_eq!(lifetime(&[]), day);
    assert_eq!(lifetime(&["--dead-letter-lifetime", "1h"]), Duration::from_secs(3600));
    let mut program = command_line();
    let serve = program.find_subcommand_mut("serve").unwrap();
    let help = serve.render_long_help().to_string();
    assert!(
        help.contains("--dead-letter-lifetime") && !help.contains("--letter-lifetime"),
        "{help}"
    );
}

#[test]
fn every_setting_is_documented_with_its_default() {
    // One sentence names all variables of the environment; a test above proves that it is true of each.
    let rule = "The variable of `--some-flag` in the environment is `MAINSPRING_SOME_FLAG`";
    assert!(DOCS.contains(rule), "docs/reference/operating.md lacks: {rule}");
    each_setting(|command, argument| {
        let flag = argument.get_long().unwrap_or_default();
        let row = DOCS.lines().find(|line| line.starts_with(&format!("| `--{flag}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/operating.md has no row for --{flag} of {command}"));
        if argument.get_action().takes_values() {
            for value in argument.get_default_values() {
                assert!(row.contains(&format!("`{}`", value.to_string_lossy())), "{row}");
            }
        }
    });
}

/// A key of the minimum length.
const KEY: &str = "k123456789abcdef";

fn serve(arguments: &[&str]) -> Serve {
    let all = ["mainspring", "serve"].iter().chain(arguments);
    match ProgramArguments::try_parse_from(all).unwrap().command {
        Command::Serve(serve) => *serve,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_public_address_needs_a_key() {
    assert!(serve(&[]).check().is_ok());
    assert!(serve(&["--listen", "[::1]:0"]).check().is_ok());
    assert!(serve(&["--listen", "localhost:80"]).check().is_ok());
    for open in ["0.0.0.0:5001", "[::]:5001", "10.0.0.7:80"] {
        assert!(serve(&["--listen", open]).check().is_err(), "{open}");
        assert!(serve(&["--listen", open, "--api-key", ""]).check().is_err(), "{open}");
        assert!(serve(&["--listen", open, "--api-key", KEY]).check().is_ok(), "{open}");
        // A short one can be guessed.
        assert!(
            serve(&["--listen", open, "--api-key", &KEY[1..]]).check().is_err(),
            "{open}"
        );
    }
    // Anonymous access needs a flag, and requests of web pages are refused even then.
    assert!(serve(&["--listen", "0.0.0.0:80", "--allow-anonymous"]).check().is_ok());
    assert!(serve(&["--listen", "0.0.0.0:80", "--allow-anonymous"]).is_open());
    assert!(!serve(&["--listen", "0.0.0.0:80", "--allow-anonymous", "--api-key", KEY]).is_open());
    assert!(serve(&["--allow-anonymous", "--allowed-host", "*"]).check().is_err());
    assert!(serve(&["--allowed-host", "*"]).check().is_err());
    assert!(serve(&["--allowed-host", "a,b", "--allowed-host", "c"]).allowed_host == ["a", "b", "c"]);
    assert!(serve(&["--api-key", "sixteen and space"]).check().is_err());
}

#[test]
fn a_missing_database_is_a_usage_error() {
    let common = |arguments: &[&str]| ProgramArguments::try_parse_from(arguments).unwrap().common;
    let given = common(&["mainspring", "migrate", "--database-url", "postgres://u:p@h/d"]);
    assert_eq!(given.database_url().unwrap(), "postgres://u:p@h/d");
    assert!(!format!("{given:?}").contains(":p@"));
    assert_eq!(common(&["mainspring", "--schema", "other", "migrate"]).schema, "other");
    let failure = common(&["mainspring", "migrate", "--database-url", ""])
        .database_url()
        .unwrap_err();
    assert!(format!("{failure:?}").contains("MAINSPRING_DATABASE_URL"));
}

//! The settings: names, documentation, and precedence of their sources.

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
        // The key of an Elsa server is not that of this one.
        let of = if command == "report" {
            flag.replace("api-key", "elsa-api-key")
        } else {
            flag.to_owned()
        };
        let name = format!("MAINSPRING_{}", of.replace('-', "_").to_uppercase());
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
fn serve_has_few_flags_and_refuses_the_others() {
    let mut program = command_line();
    program.build();
    let serve = program.find_subcommand("serve").unwrap();
    let flags = serve.get_arguments().filter(|argument| !argument.is_hide_set());
    let flags: Vec<&str> = flags.filter_map(clap::Arg::get_long).collect();
    assert!(flags.len() <= 41, "{} flags: {flags:?}", flags.len());
    for flag in SERVE_FLAGS {
        assert!(flags.contains(&flag), "--{flag} is not a setting of serve");
    }
    let refused = of(&["serve", "--claim-mib", "9"]).unwrap_err().to_string();
    assert!(
        refused.contains("set MAINSPRING_CLAIM_MIB, or claim-mib in the --config file"),
        "{refused}"
    );
    // Other commands have them as flags.
    assert!(of(&["eval", "--script-time-limit", "1s"]).is_ok());
}

fn of(arguments: &[&str]) -> Result<ProgramArguments, clap::Error> {
    let all = ["mainspring"].iter().chain(arguments).map(OsString::from);
    of_arguments(ElsaEnvironment::default(), &all.collect::<Vec<_>>())
}

/// The settings with a file of this text.
fn with_file_of(text: &str, elsa: ElsaEnvironment, arguments: &[&str]) -> ProgramArguments {
    let path = std::env::temp_dir().join(format!("mainspring-{}.toml", uuid::Uuid::new_v4()));
    std::fs::write(&path, text).unwrap();
    let all = ["mainspring"].iter().chain(arguments).map(OsString::from);
    let all: Vec<OsString> = all.chain(["--config".into(), path.clone().into()]).collect();
    let program = of_arguments(elsa, &all);
    std::fs::remove_file(&path).unwrap();
    program.unwrap()
}

#[test]
fn the_file_stands_between_the_environment_and_the_defaults() {
    let text = "listen = \"10.0.0.7:80\"\nclaim-mib = 9\nworkers = 7\nallow-anonymous = true\nallowed-host = \"a,b\"\n\
                cors-origin = [\"https://a\", \"https://b\"]\n\
                schema = \"other\"\napi-key-file = \"/dev/null\"\nlog = \"warn\"";
    let program = with_file_of(
        text,
        ElsaEnvironment::default(),
        &["serve", "--workers", "3", "--api-key", KEY],
    );
    assert_eq!(
        (program.common.schema.as_str(), program.common.log.as_str()),
        ("other", "warn")
    );
    let Command::Serve(serve) = program.command else {
        panic!("another command");
    };
    assert_eq!((serve.workers, serve.limits.claimed_bytes()), (3, 9 << 20));
    assert_eq!(serve.listen.to_string(), "10.0.0.7:80");
    assert!(serve.allow_anonymous);
    assert_eq!(serve.allowed_host, ["a", "b"]);
    assert_eq!(serve.cors_origin.len(), 2);
    // The flag replaces the form with a file, too.
    assert_eq!(serve.api_key(), Some(KEY));
    // Other commands read what all commands have.
    assert_eq!(
        with_file_of(text, ElsaEnvironment::default(), &["check"]).common.schema,
        "other"
    );
}

#[test]
fn a_database_that_is_given_replaces_all_that_the_file_says_of_one() {
    let text = "direct-database-url = \"postgres://of-file\"\ndatabase-password-file = \"/run/secrets/of-file\"";
    let given = with_file_of(
        text,
        ElsaEnvironment::default(),
        &["check", "--database-url", "postgres://given"],
    );
    assert_eq!(given.common.given_database_url(), Some("postgres://given"));
    assert!(given.common.database_password_file.is_none());
    let of_file = with_file_of(text, ElsaEnvironment::default(), &["check"]).common;
    assert_eq!(of_file.given_database_url(), Some("postgres://of-file"));
    assert!(of_file.database_password_file.is_some());
}

#[test]
fn the_listing_is_a_file_of_settings() {
    let lines = super::listing();
    let comment = |line: &String| line.starts_with("# ") && line.contains(" = ");
    let set: Vec<&str> = lines
        .iter()
        .filter(|line| comment(line))
        .filter_map(|line| line.strip_prefix("# "))
        .collect();
    assert!(
        set.contains(&"claim-mib = 24") && set.contains(&"roles = [\"api\", \"worker\", \"scheduler\"]"),
        "{set:?}"
    );
    assert!(set.len() > SERVE_FLAGS.len());
    // What has no default is empty.
    let text: Vec<&str> = set.into_iter().filter(|line| !line.ends_with("\"\"")).collect();
    let Command::Serve(serve) = with_file_of(&text.join("\n"), ElsaEnvironment::default(), &["serve"]).command else {
        panic!("another command");
    };
    assert_eq!(format!("{serve:?}"), format!("{:?}", self::serve(&[])));
}

#[test]
fn every_setting_is_documented_with_its_default() {
    // One sentence names all variables of the environment; a test above proves that it is true of each.
    let rule = "A setting `some-name` is `MAINSPRING_SOME_NAME` in the environment";
    assert!(DOCS.contains(rule), "docs/reference/operating.md lacks: {rule}");
    each_setting(|command, argument| {
        let flag = argument.get_long().unwrap_or_default();
        let shown = if argument.is_hide_set() {
            flag.to_owned()
        } else {
            format!("--{flag}")
        };
        let row = DOCS.lines().find(|line| line.starts_with(&format!("| `{shown}` |")));
        let other = DOCS.lines().find(|line| line.starts_with(&format!("| `{flag}` |")));
        // A flag of another command alone stands among the settings without a flag.
        let row = row
            .or(other)
            .unwrap_or_else(|| panic!("docs/reference/operating.md has no row for {shown} of {command}"));
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
    let check = |arguments: &[&str]| serve(arguments).check_open(false);
    assert!(check(&[]).is_ok());
    assert!(check(&["--listen", "[::1]:0"]).is_ok());
    assert!(check(&["--listen", "localhost:80"]).is_ok());
    for open in ["0.0.0.0:5001", "[::]:5001", "10.0.0.7:80"] {
        assert!(check(&["--listen", open]).is_err(), "{open}");
        assert!(serve(&["--listen", open]).check_open(true).is_ok(), "{open}");
        assert!(serve(&["--listen", open, "--api-key", ""]).check().is_err(), "{open}");
        assert!(check(&["--listen", open, "--api-key", KEY]).is_ok(), "{open}");
        // A short one can be guessed.
        assert!(
            serve(&["--listen", open, "--api-key", &KEY[1..]]).check().is_err(),
            "{open}"
        );
    }
    // Anonymous access needs a flag, and requests of web pages are refused even then.
    assert!(check(&["--listen", "0.0.0.0:80", "--allow-anonymous"]).is_ok());
    assert!(serve(&["--listen", "0.0.0.0:80", "--allow-anonymous"]).is_open(false));
    assert!(!serve(&["--listen", "0.0.0.0:80", "--allow-anonymous"]).is_open(true));
    assert!(!serve(&["--listen", "0.0.0.0:80", "--allow-anonymous", "--api-key", KEY]).is_open(false));
    assert!(check(&["--allow-anonymous", "--allowed-host", "*"]).is_err());
    assert!(check(&["--allowed-host", "*"]).is_err());
    assert!(serve(&["--allowed-host", "*"]).check_open(true).is_ok());
    assert!(check(&["--allowed-host", "*.com"]).is_err());
    assert!(check(&["--allowed-host", "*.example.org,a"]).is_ok());
    assert!(check(&["--allowed-host", "*.com", "--api-key", KEY]).is_ok());
    assert!(of(&["serve", "--allowed-host", "https://a.example"]).is_err());
    assert!(serve(&["--allowed-host", "a,b", "--allowed-host", "c"]).allowed_host == ["a", "b", "c"]);
    assert!(serve(&["--api-key", "sixteen and space"]).check().is_err());
}

#[test]
fn nodes_compare_what_they_admit_whatever_its_order_is() {
    let compared = |arguments: &[&str]| serve(arguments).identity_settings();
    let lists = ["--allowed-host", "A.example,b", "--cors-origin", "https://b,https://a"];
    let others = ["--allowed-host", "b,a.example", "--cors-origin", "https://a,https://b"];
    assert_eq!(compared(&lists), compared(&others));
    assert_ne!(compared(&lists), compared(&["--allowed-host", "b"]));
    assert_ne!(compared(&["--api-key", KEY]), compared(&[]));
    assert_ne!(
        compared(&["--trusted-proxy", "10.0.0.0/8"]),
        compared(&["--trusted-proxy", "10.0.0.0/9"])
    );
    assert!(compared(&["--roles", "worker", "--api-key", KEY]).is_empty());
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

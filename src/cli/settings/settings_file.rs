//! The file that `--config` names, in TOML: each key is the name of a setting of `serve`. `serve` and `eval` read the
//! settings that they know, other commands only those that all commands share.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::OsStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, value_parser};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ProgramArguments;
use crate::db;
use crate::harness::secret::redact;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// The commands that read their own settings from the file.
const READERS: [&str; 2] = ["serve", "eval"];

/// The settings that determine which database a command reaches, and as whom.
const DATABASE: [&str; 3] = ["database-url", "direct-database-url", "database-password-file"];

/// Settings whose whole value is a secret. URLs may contain one.
const SECRETS: [&str; 3] = ["api-key", "token-secret", SCRIPT_CONFIG];

/// What scripts can read.
const SCRIPT_CONFIG: &str = "script-config";

/// What a file sets.
pub(super) struct SettingsFile {
    path: PathBuf,
    settings: Vec<Setting>,
}

/// A setting with its line in the file. A text is what the environment would have; a list has its items separately.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    name: String,
    line: usize,
    is_list: bool,
    values: Vec<String>,
}

impl Setting {
    fn split(&self, argument: Arg) -> Arg {
        if self.is_list {
            argument.value_delimiter(None)
        } else {
            argument
        }
    }
}

impl SettingsFile {
    /// Reads and checks the file.
    /// Errors: Wrong usage, with the line in the file.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let refused = |why: String| refusal(&format!("{}{why}", path.display()));
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        read.map_err(|error| refused(format!(" cannot be read: {error}")))?;
        if text.len() as u64 > LARGEST {
            return Err(refused(format!(" has more than {LARGEST} bytes")));
        }
        let settings = parsed(&text)
            .and_then(checked)
            .map_err(|error| refused(format!(", {error}")))?;
        Ok(Self {
            path: path.to_owned(),
            settings,
        })
    }

    /// A warning if the file contains a secret and another user can read it.
    pub(super) fn exposure(&self) -> Option<String> {
        let readers = db::readers(&self.path)?;
        let is_secret = |setting: &Setting| {
            SECRETS.contains(&setting.name.as_str()) || setting.values.iter().any(|value| redact(value) != *value)
        };
        self.settings.iter().any(is_secret).then(|| {
            let path = self.path.display();
            format!("the file {path} contains a secret and can be read by {readers}: chmod 600 it")
        })
    }

    /// Makes the settings of the file the defaults, except those given by flags or the environment. A setting and its form
    /// `…-file` are one: either of them, if given, replaces both. A given database replaces everything that the file says
    /// about one: a password is not sent to another server, and a command does not reach another database than the one it
    /// names.
    pub(super) fn apply(&self, command: Command, given: &ArgMatches) -> Command {
        let explicit: Vec<String> = given
            .ids()
            .map(clap::Id::as_str)
            .filter(|id| given.value_source(id) != Some(ValueSource::DefaultValue))
            .map(|id| stem(&id.replace('_', "-")).to_owned())
            .collect();
        let is_given = |name: &str| explicit.iter().any(|given| given == stem(name));
        let is_replaced = |name: &str| {
            let is_of_database = DATABASE.contains(&name);
            is_given(name) || is_of_database && (is_given("database-url") || is_given("direct-database-url"))
        };
        let set = |argument: Arg| {
            let name = argument.get_long().unwrap_or_default();
            let setting = self.settings.iter().find(|setting| setting.name == name);
            match setting.filter(|setting| !is_replaced(&setting.name)) {
                Some(setting) => setting.split(argument).default_values(&setting.values),
                None => argument,
            }
        };
        let command = command.mut_args(set);
        READERS.into_iter().fold(command, |command, reader| {
            command.mut_subcommand(reader, |reader| reader.mut_args(set))
        })
    }
}

/// The commands of a program, changed so that they read no file that an argument names.
pub(super) fn without_reading(command: Command) -> Command {
    let command = command.mut_args(unread);
    let command = READERS.into_iter().fold(command, |command, reader| {
        command.mut_subcommand(reader, |reader| reader.mut_args(unread))
    });
    command.mut_subcommand("elsa", |elsa| {
        elsa.mut_subcommand("report", |report| report.mut_args(unread))
    })
}

/// An argument without its reader, if it names a file that is read: a pipe is read once, when the program starts with it.
fn unread(argument: Arg) -> Arg {
    match argument.get_long() {
        Some("api-key-file" | "token-secret-file" | "script-config-file") => {
            argument.value_parser(value_parser!(PathBuf))
        }
        _ => argument,
    }
}

fn stem(name: &str) -> &str {
    name.strip_suffix("-file").unwrap_or(name)
}

fn refusal(message: &str) -> Error {
    Error::raw(ErrorKind::ValueValidation, format!("{message}\n"))
}

/// The keys and values of a text.
fn parsed(text: &str) -> Result<Vec<Setting>, String> {
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(at), error.message().replace('\n', ", "))
    })?;
    let setting = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let (name, line) = (name.get_ref().to_string(), line(name.span().start));
        let values = values_of(value.get_ref()).ok_or_else(|| {
            format!("line {line}: {name} must be a text, a whole number, true or false, or a list of them")
        })?;
        Ok(Setting {
            name,
            line,
            is_list: matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_)),
            values,
        })
    };
    table.get_ref().iter().map(setting).collect()
}

fn values_of(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| value_of(item.get_ref())).collect(),
        // NAME=VALUE, as in a list.
        DeValue::Table(items) => {
            let pair = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                Some(format!("{}={}", name.get_ref(), value_of(value.get_ref())?))
            };
            items.iter().map(pair).collect()
        }
        single => Some(vec![value_of(single)?]),
    }
}

fn value_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(is_on) => Some(is_on.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// The settings, if `serve` accepts each of them and all of them together.
fn checked(settings: Vec<Setting>) -> Result<Vec<Setting>, String> {
    // Of the arguments, not of the environment.
    let program = ProgramArguments::command();
    let is_known = |name: &str| find(&program, name).is_some();
    if let Some(unknown) = settings.iter().find(|setting| !is_known(&setting.name)) {
        let nearest =
            nearest(&program, &unknown.name).map_or_else(String::new, |name| format!("; the nearest is {name}"));
        return Err(format!(
            "line {}: {} is not a setting{nearest} (`mainspring settings` lists all)",
            unknown.line, unknown.name
        ));
    }
    // By TOML's rules the lines behind a table's head belong to it, and each script could read such a value.
    let strays = settings.iter().filter(|setting| setting.name == SCRIPT_CONFIG);
    for (setting, value) in strays.flat_map(|setting| setting.values.iter().map(move |value| (setting, value))) {
        let name = value.split_once('=').map(|(name, _)| name).ok_or_else(|| {
            format!(
                "line {}: {SCRIPT_CONFIG} must be a table, or a list of texts NAME=VALUE",
                setting.line
            )
        })?;
        if is_known(name) {
            return Err(format!(
                "line {}: {name} is in {SCRIPT_CONFIG}, where scripts can read it; move it above",
                setting.line
            ));
        }
    }
    let plain = |argument: Arg| {
        let argument = unread(argument);
        let name = argument.get_long().unwrap_or_default();
        match settings.iter().find(|setting| setting.name == name) {
            Some(setting) => setting.split(argument).default_values(Vec::<OsStr>::new()),
            None => argument,
        }
    };
    let accepts = program.clone().mut_args(plain);
    let accepts = accepts.mut_subcommand("serve", |serve| serve.mut_args(plain));
    let mut all = Vec::new();
    for setting in &settings {
        let given = match find(&program, &setting.name).map(Arg::get_action) {
            Some(ArgAction::SetTrue) => switch(setting)?,
            _ => setting
                .values
                .iter()
                .map(|value| format!("--{}={value}", setting.name))
                .collect(),
        };
        refused(&accepts, &given).map_or(Ok(()), |why| Err(format!("line {}: {why}", setting.line)))?;
        all.extend(given);
    }
    match refused(&accepts, &all) {
        Some(why) => Err(format!("as a whole: {why}")),
        None => Ok(settings),
    }
}

fn switch(setting: &Setting) -> Result<Vec<String>, String> {
    match &*setting.values {
        [value] if value == "true" => Ok(vec![format!("--{}", setting.name)]),
        [value] if value == "false" => Ok(Vec::new()),
        _ => Err(format!("line {}: {} must be true or false", setting.line, setting.name)),
    }
}

/// Why `serve` does not accept these arguments, on one line.
fn refused(program: &Command, arguments: &[String]) -> Option<String> {
    let all = ["mainspring", "serve"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str));
    let said = program.clone().try_get_matches_from(all).err()?.render().to_string();
    let first = said.split("\n\n").next().unwrap_or(&said);
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    Some(words.join(" ").replace("'--", "'"))
}

fn find<'a>(program: &'a Command, name: &str) -> Option<&'a Arg> {
    let serve = program.find_subcommand("serve").into_iter();
    let mut all = serve.flat_map(Command::get_arguments).chain(program.get_arguments());
    all.find(|argument| argument.get_long() == Some(name) && name != "config")
}

fn nearest(program: &Command, name: &str) -> Option<String> {
    let arguments = ["mainspring", "serve", &format!("--{name}")];
    let error = program.clone().try_get_matches_from(arguments).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(flag) => Some(flag.trim_start_matches('-').to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SettingsFile, String> {
        let path = std::env::temp_dir().join(format!("mainspring-{}.toml", uuid::Uuid::new_v4()));
        std::fs::write(&path, text).unwrap();
        let file = SettingsFile::read(&path);
        let exposed = file.as_ref().ok().and_then(SettingsFile::exposure).is_some();
        let has_secret = ["s3cret", "in-any-case"].iter().any(|secret| text.contains(secret));
        assert_eq!(exposed, has_secret && file.is_ok(), "{text}");
        std::fs::remove_file(&path).unwrap();
        file.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn values_are_texts_numbers_switches_and_lists() {
        let file = read(
            "workers = 1_00\nallow-anonymous = true\nno-migrate = false\nlisten = \"127.0.0.1:0\"\nroles = [\"api\", 'worker']\n\
             allowed-host = \"a,b\"\n\
             [script-config]\nName = \"in-any-case, and a comma\"\nCount = 3",
        );
        let settings = file.unwrap().settings;
        let values = |name: &str| {
            let found = settings.iter().find(|setting| setting.name == name);
            found.map(|setting| setting.values.join("|")).unwrap_or_default()
        };
        assert_eq!(values("workers"), "100");
        assert_eq!(
            (values("allow-anonymous"), values("no-migrate")),
            ("true".to_owned(), "false".to_owned())
        );
        assert_eq!(values("roles"), "api|worker");
        assert!(values("script-config").contains("Name=in-any-case, and a comma"));
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        for (text, parts) in [
            (
                "\nclaim-mb = 3",
                &["FILE, line 2: claim-mb is not a setting", "the nearest is claim-mib"][..],
            ),
            ("config = \"x\"", &["line 1: config is not a setting"]),
            ("[serve]\nworkers = 1", &["line 1: serve is not a setting"]),
            (
                "workers = -1",
                &["line 1: invalid value '-1' for 'workers <COUNT>'", "whole number"],
            ),
            (
                "# a\nwake = \"carrier\"",
                &["line 2: invalid value 'carrier'", "rabbitmq"],
            ),
            ("workers = 1.5", &["line 1: workers must be a text, a whole number"]),
            ("workers = [1, 2]", &["line 1:", "cannot be used multiple times"]),
            ("no-migrate = 1", &["line 1: no-migrate must be true or false"]),
            ("workers = 1\nworkers = 2", &["line 2: duplicate key"]),
            ("\napi-key = \"s3cret", &["line 2:"]),
            (
                "[script-config]\nRegion = \"eu\"\napi-key = \"s3cret-s3cret-s3cret\"",
                &["line 1: api-key is in script-config"],
            ),
            (
                "script-config = [\"Smtp:s3cret\"]",
                &["line 1: script-config must be a table, or a list"],
            ),
            (
                "token-secret = \"0123456789abcdef\"\ntoken-secret-file = \"/dev/null\"",
                &["as a whole:", "cannot be used with"],
            ),
        ] {
            let error = read(text).err().unwrap();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(read(&"#".repeat(1 << 20)).is_ok());
        assert!(
            read(&"#".repeat((1 << 20) + 1))
                .err()
                .unwrap()
                .contains("1048576 bytes")
        );
        assert!(SettingsFile::read(Path::new("/nowhere.toml")).is_err());
    }

    #[test]
    fn a_readable_file_with_a_secret_is_reported() {
        // `read` compares.
        assert!(read("redis-url = \"redis://u:s3cret@h\"").is_ok());
        assert!(read("redis-url = \"redis://h\"").is_ok());
        assert!(read("api-key = \"s3cret-s3cret-s3cret\"").is_ok());
    }
}

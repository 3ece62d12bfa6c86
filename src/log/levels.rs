//! Levels that differ from those of the settings, until the process ends or they are set back.

use std::fmt::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use crate::id::{DefinitionId, InstanceId};
use crate::{Error, Result};

/// The most of them. While there is one of an instance or a definition, each span is compared with all.
const MOST: usize = 16;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What has failed.
    Error,
    /// What an operator should look at, too.
    Warn,
    /// What is rare, too.
    Info,
    /// What is frequent, too.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace]
            .into_iter()
            .find(|level| level.to_string() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

/// What a level is for: an instance, the instances of a definition, or, with neither, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LogLevelOf {
    /// Only what bursts of this instance log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_instance_id: Option<InstanceId>,
    /// Only what bursts of instances of this definition log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<DefinitionId>,
    /// The level; `None` is that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LogLevel>,
}

impl LogLevelOf {
    fn has_target_of(&self, other: &Self) -> bool {
        (&self.workflow_instance_id, &self.definition_id) == (&other.workflow_instance_id, &other.definition_id)
    }

    /// As the filter of the log reads it. The spans of bursts have the fields that it names.
    fn directive(&self) -> Option<String> {
        let level = self.level?;
        Some(match (&self.workflow_instance_id, &self.definition_id) {
            (Some(id), _) => format!("[{{instance={}}}]={level}", pattern(id.as_str())),
            (None, Some(id)) => format!("[{{definition={}}}]={level}", pattern(id.as_str())),
            (None, None) => format!("mainspring={level}"),
        })
    }
}

/// A regular expression for this text. What a filter or an expression could take for a sign of its own stands for any character.
fn pattern(id: &str) -> String {
    let mut pattern = String::with_capacity(id.len() + 2);
    pattern.push('^');
    for c in id.chars() {
        let is_plain = c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
        pattern.push(if is_plain { c } else { '.' });
    }
    pattern.push('$');
    pattern
}

/// Sets the filter of the log.
type SetFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The log of a process whose filter can be set.
struct Log {
    /// The filter of the settings.
    settings: String,
    levels: Mutex<Vec<LogLevelOf>>,
    set: SetFilter,
}

/// There is one log for all engines of a process.
static LOG: OnceLock<Log> = OnceLock::new();

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelChange {
    Changed,
    /// It was so before.
    Same,
}

/// From now on the levels of this process can be changed.
#[cfg(feature = "cli")]
pub(crate) fn install(settings: &str, set: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
    let _ = LOG.set(Log {
        settings: settings.to_owned(),
        levels: Mutex::default(),
        set: Box::new(set),
    });
}

/// The filter of the settings, and the levels that differ from it.
/// Errors: `log-elsewhere`.
pub(crate) fn levels() -> Result<(String, Vec<LogLevelOf>)> {
    let log = installed()?;
    let levels = log.levels.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((log.settings.clone(), levels.clone()))
}

/// Sets a level, or sets it back.
/// Errors: `log-elsewhere`; `too-many-log-levels`; `invalid-field` if it is of an instance and of a definition.
pub(crate) fn change_level(of: LogLevelOf) -> Result<LevelChange> {
    installed()?.change(of)
}

fn installed() -> Result<&'static Log> {
    LOG.get().ok_or_else(|| {
        Error::conflict(
            "log-elsewhere",
            "the program that this engine is part of has a log of its own; set its level there",
        )
    })
}

impl Log {
    fn change(&self, of: LogLevelOf) -> Result<LevelChange> {
        if of.workflow_instance_id.is_some() && of.definition_id.is_some() {
            let message = "a level is of an instance or of a definition: leave one of them out";
            return Err(Error::invalid("invalid-field", message).field("definitionId", message));
        }
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let before = levels.iter().find(|other| other.has_target_of(&of));
        if before.and_then(|other| other.level) == of.level {
            return Ok(LevelChange::Same);
        }
        let mut next = levels.clone();
        next.retain(|other| !other.has_target_of(&of));
        if of.level.is_some() {
            next.push(of);
        }
        if next.len() > MOST {
            let message = format!("there are {MOST} levels already; set one back first, by sending it without `level`");
            return Err(Error::conflict("too-many-log-levels", message));
        }
        (self.set)(&filter_of(&self.settings, &next))
            .map_err(|error| Error::internal(format!("the filter of the log cannot be set: {error}")))?;
        *levels = next;
        Ok(LevelChange::Changed)
    }
}

/// The filter of the settings with these levels: of two directives for one thing the last one counts.
fn filter_of(settings: &str, levels: &[LogLevelOf]) -> String {
    let mut filter = settings.to_owned();
    for directive in levels.iter().filter_map(LogLevelOf::directive) {
        let _ = write!(filter, ",{directive}");
    }
    filter
}

#[cfg(test)]
#[cfg(feature = "cli")]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tracing_subscriber::EnvFilter;

    use super::*;

    fn level_of(instance: Option<&str>, definition: Option<&str>, level: Option<LogLevel>) -> LogLevelOf {
        LogLevelOf {
            workflow_instance_id: instance.map(InstanceId::new),
            definition_id: definition.map(DefinitionId::new),
            level,
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What two instances of two definitions log at debug with these levels.
    fn logged(levels: &[LogLevelOf]) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_new(filter_of("info", levels)).unwrap())
            .with_writer(move || writer.clone())
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for (instance, definition) in [("1234", "a{,}=b"), ("12345", "a")] {
                let span = tracing::debug_span!("burst", %instance, %definition);
                span.in_scope(|| tracing::debug!("line of {instance}"));
            }
            tracing::debug!("line of all");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .filter_map(|line| Some(line.split_once("line of ")?.1.to_owned()))
            .collect()
    }

    #[test]
    fn a_level_is_for_everything_an_instance_or_a_definition() {
        let debug = Some(LogLevel::Debug);
        assert_eq!(logged(&[]), [""; 0]);
        assert_eq!(logged(&[level_of(None, None, debug)]), ["1234", "12345", "all"]);
        // An id that looks like a number, and one with signs of the filter.
        assert_eq!(logged(&[level_of(Some("1234"), None, debug)]), ["1234"]);
        assert_eq!(logged(&[level_of(Some("123"), None, debug)]), [""; 0]);
        assert_eq!(logged(&[level_of(None, Some("a{,}=b"), debug)]), ["1234"]);
        let both = [level_of(Some("1234"), None, debug), level_of(None, Some("a"), debug)];
        assert_eq!(logged(&both), ["1234", "12345"]);
    }

    #[test]
    fn a_level_is_set_back_and_there_are_only_so_many() {
        let set = Arc::new(Mutex::new(String::new()));
        let log = Log {
            settings: "info".to_owned(),
            levels: Mutex::default(),
            set: {
                let set = Arc::clone(&set);
                Box::new(move |filter| {
                    *set.lock().unwrap() = filter.to_owned();
                    Ok(())
                })
            },
        };
        let filter = || set.lock().unwrap().clone();
        let of_one = |level| level_of(Some("one"), None, level);
        assert_eq!(log.change(of_one(Some(LogLevel::Debug))).unwrap(), LevelChange::Changed);
        assert_eq!(filter(), "info,[{instance=^one$}]=debug");
        assert_eq!(log.change(of_one(Some(LogLevel::Debug))).unwrap(), LevelChange::Same);
        log.change(level_of(None, None, Some(LogLevel::Warn))).unwrap();
        log.change(of_one(None)).unwrap();
        assert_eq!(filter(), "info,mainspring=warn");
        assert_eq!(log.change(of_one(None)).unwrap(), LevelChange::Same);
        let fill = |n: usize| log.change(level_of(Some(&n.to_string()), None, Some(LogLevel::Debug)));
        let refused = (1..=MOST).filter_map(|n| fill(n).err()).map(|error| error.code());
        assert_eq!(refused.collect::<Vec<_>>(), ["too-many-log-levels"]);
        let both = log.change(level_of(Some("one"), Some("two"), Some(LogLevel::Debug)));
        assert_eq!(both.unwrap_err().code(), "invalid-field");
        for level in [LogLevel::Error, LogLevel::Trace] {
            assert_eq!(LogLevel::named(&level.to_string()), Some(level));
        }
    }
}

//! Groups the repetitions of a run, and labels the groups.

use serde_json::{Map, Value};

use super::panel::Figure;
use super::reading::Run;

/// The maximum length of a name in the plot.
const MAX_NAME: usize = 60;

/// The settings of a run. The first three are always shown.
const SETTINGS: [&str; 14] = [
    "mode",
    "fault",
    "provider",
    "commit",
    "journal",
    "clients",
    "timers",
    "at_once",
    "nodes",
    "sessions",
    "contention",
    "bursts",
    "rounds",
    "seconds",
];
const ALWAYS_SHOWN: usize = 3;

/// The counts that make a run incomparable: the field, singular and plural.
const FAILURE_COUNTS: [(&str, &str, &str); 4] = [
    ("errors", "error", "errors"),
    ("lost", "lost", "lost"),
    ("twice", "ran twice", "ran twice"),
    ("early", "early", "early"),
];

/// Runs of one name with the same settings.
pub(super) struct Series {
    name: String,
    pub(super) bench: String,
    settings: [Option<String>; SETTINGS.len()],
    pub(super) runs: Vec<Run>,
}

/// Groups the repetitions, in the order of their first runs.
pub(super) fn group(runs: Vec<Run>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for run in runs {
        let (bench, settings) = (bench(&run.outcome), settings(&run.outcome));
        let same =
            |series: &&mut Series| series.name == run.name && series.bench == bench && series.settings == settings;
        match all.iter_mut().find(same) {
            Some(series) => series.runs.push(run),
            None => all.push(Series {
                name: run.name.clone(),
                bench,
                settings,
                runs: vec![run],
            }),
        }
    }
    all
}

/// The settings with the same value in all series, except those that are always shown.
pub(super) fn in_common(all: &[Series]) -> Vec<String> {
    (ALWAYS_SHOWN..SETTINGS.len())
        .filter(|place| is_common(all, *place))
        .filter_map(|place| all.first()?.settings.get(place)?.clone())
        .collect()
}

fn is_common(all: &[Series], place: usize) -> bool {
    let mut values = all.iter().map(|series| series.settings.get(place));
    let first = values.next();
    values.all(|value| Some(value) == first)
}

impl Series {
    /// The values of a figure, in the order of the runs.
    pub(super) fn values(&self, figure: &Figure) -> Vec<f64> {
        self.runs.iter().filter_map(|run| figure.of(&run.outcome)).collect()
    }

    /// The label in the legend.
    pub(super) fn label(&self, all: &[Self]) -> String {
        let shown = |place: usize| place < ALWAYS_SHOWN || !is_common(all, place);
        let mut words = vec![self.bench.clone()];
        let settings = self.settings.iter().enumerate().filter(|(place, _)| shown(*place));
        words.extend(settings.filter_map(|(_, setting)| setting.clone()));
        let repeated = match self.runs.len() {
            1 => String::new(),
            runs => format!(" (median of {runs} runs)"),
        };
        format!("{}: {}{repeated}", shortened(&self.name), words.join(", "))
    }

    pub(super) fn failures(&self) -> Option<String> {
        let count = |field: &str| {
            let counts = self.runs.iter().filter_map(|run| run.outcome.get(field)?.as_u64());
            counts.fold(0, u64::saturating_add)
        };
        let troubles: Vec<String> = FAILURE_COUNTS
            .iter()
            .map(|(field, one, several)| (count(field), one, several))
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }))
            .collect();
        (!troubles.is_empty()).then(|| troubles.join(", "))
    }
}

fn bench(outcome: &Map<String, Value>) -> String {
    shortened(outcome.get("bench").and_then(Value::as_str).unwrap_or_default())
}

fn settings(outcome: &Map<String, Value>) -> [Option<String>; SETTINGS.len()] {
    SETTINGS.map(|setting| match (setting, outcome.get(setting)?) {
        ("mode" | "fault" | "provider", Value::String(word)) => Some(shortened(word)),
        ("commit" | "journal", Value::String(word)) => Some(format!("{setting} {}", shortened(word))),
        ("at_once", Value::Bool(true)) => Some("at once".to_owned()),
        // Timers are their own clients.
        ("clients", _) if outcome.contains_key("timers") => None,
        ("contention", Value::Number(keys)) => Some(format!("{keys} shared keys")),
        ("seconds", Value::Number(seconds)) => Some(format!("over {seconds} s")),
        (_, Value::Number(number)) if number.as_u64() == Some(1) => {
            Some(format!("1 {}", setting.strip_suffix('s').unwrap_or(setting)))
        }
        (_, Value::Number(number)) => Some(format!("{number} {setting}")),
        _ => None,
    })
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_NAME {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

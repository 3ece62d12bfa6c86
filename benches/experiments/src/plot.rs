//! `plot`: the results of several runs side by side, in one SVG. The same files in the same order give the same bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use mainspring::internals::{Failure, nearest_rank};
use plotters::prelude::*;
use serde_json::{Map, Value};

use crate::settings::Plot;

/// The fields that say what was measured; runs of one name that agree in them are repetitions.
const SETTINGS: [&str; 12] = [
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
    "instances",
];

/// What one panel shows: its title, and the fields of its bars.
type Panel = (&'static str, &'static [&'static str]);

/// In drawing order.
const PANELS: [Panel; 9] = [
    ("per second", &["ops_per_s", "baseline_ops_per_s"]),
    ("latency, µs", &["p50_us", "p95_us", "p99_us"]),
    ("latency, ms", &["p50_ms", "p95_ms", "p99_ms", "total_ms"]),
    ("longest latency", &["max_us", "max_ms"]),
    ("from sent, µs", &["sent_p50_us", "sent_p95_us", "sent_p99_us"]),
    ("handoff between sessions, µs", &["handoff_p50_us", "handoff_p99_us"]),
    ("CPU of each workflow, µs", &["engine_cpu_us", "server_cpu_us"]),
    ("of each workflow", &["statements", "round_trips", "flushes"]),
    ("WAL of each workflow, bytes", &["wal_bytes"]),
];

/// The size of the picture, and of its parts.
const WIDTH: u32 = 900;
const LEGEND_LINE: u32 = 22;
const PANEL: u32 = 240;

/// Runs of one name with the same settings.
struct Series {
    label: String,
    runs: Vec<Map<String, Value>>,
}

/// A bar: what is below it, the number of its series, and the value of each run.
type Bar = (String, usize, Vec<f64>);

pub(crate) fn run(settings: &Plot) -> Result<(), Failure> {
    let mut series = BTreeMap::new();
    for (place, file) in settings.files.iter().enumerate() {
        let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        let found = reports(&text);
        if found.is_empty() {
            return Err(failed(
                &"it contains no result of a benchmark; run `mainspring bench … --json > FILE`",
            ));
        }
        for report in found {
            let label = label(file, &report);
            // In the order of the files.
            let place = series
                .keys()
                .find(|(_, known)| *known == label)
                .map_or(place, |(place, _)| *place);
            series.entry((place, label)).or_insert_with(Vec::new).push(report);
        }
    }
    let series: Vec<Series> = series
        .into_iter()
        .map(|((_, label), runs)| Series { label, runs })
        .collect();
    let picture = draw(&series).map_err(|error| Failure::failed(format!("cannot draw: {error}")))?;
    match &settings.output {
        Some(file) => {
            std::fs::write(file, picture).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
        }
        None => std::io::stdout()
            .write_all(picture.as_bytes())
            .map_err(|error| Failure::failed(format!("standard output: {error}"))),
    }
}

/// The results in a text, among other lines.
fn reports(text: &str) -> Vec<Map<String, Value>> {
    let objects = text.lines().filter(|line| line.starts_with('{'));
    let reports = objects.filter_map(|line| match serde_json::from_str(line) {
        Ok(Value::Object(report)) => Some(report),
        _ => None,
    });
    let is_report = |report: &Map<String, Value>| report.get("bench").is_some_and(Value::is_string);
    reports.filter(is_report).collect()
}

/// The name of the file, the benchmark and its settings.
fn label(file: &Path, report: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let bench = report.get("bench").map(text).unwrap_or_default();
    let settings = SETTINGS.iter().filter_map(|setting| {
        let value = report.get(*setting).filter(|value| !value.is_null())?;
        Some(format!(", {setting} {}", text(value)))
    });
    format!("{name}: {bench}{}", settings.collect::<String>())
}

/// The bars of a panel: for each field those of all series that have it.
fn bars(series: &[Series], fields: &[&str]) -> Vec<Bar> {
    let of = |field: &&str| {
        let bars = series.iter().enumerate().map(|(number, series)| {
            let values = series.runs.iter().filter_map(|run| run.get(*field)?.as_f64());
            ((*field).to_owned(), number, values.collect::<Vec<f64>>())
        });
        bars.filter(|(_, _, values)| !values.is_empty()).collect::<Vec<Bar>>()
    };
    fields.iter().flat_map(of).collect()
}

fn draw(series: &[Series]) -> Result<String, Box<dyn std::error::Error>> {
    let panels: Vec<(&str, Vec<Bar>)> = PANELS
        .iter()
        .map(|(title, fields)| (*title, bars(series, fields)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let lines = u32::try_from(series.len()).unwrap_or(u32::MAX);
    let legend = LEGEND_LINE.saturating_mul(lines + 1);
    let height = legend.saturating_add(PANEL.saturating_mul(u32::try_from(panels.len()).unwrap_or(u32::MAX)));
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (top, rest) = area.split_vertically(legend);
        for (number, series) in series.iter().enumerate() {
            let y = i32::try_from(LEGEND_LINE)? * i32::try_from(number)? + 10;
            top.draw(&Rectangle::new(
                [(10, y), (22, y + 12)],
                Palette99::pick(number).filled(),
            ))?;
            let repeated = match series.runs.len() {
                1 => String::new(),
                runs => format!(" (median of {runs} runs)"),
            };
            let text = format!("{}{repeated}", series.label);
            top.draw(&Text::new(text, (30, y), ("sans-serif", 14)))?;
        }
        for (panel, (title, bars)) in rest.split_evenly((panels.len(), 1)).iter().zip(&panels) {
            draw_panel(panel, title, bars)?;
        }
        area.present()?;
    }
    Ok(picture)
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    bars: &[Bar],
) -> Result<(), Box<dyn std::error::Error>> {
    let most = bars
        .iter()
        .flat_map(|(_, _, values)| values)
        .copied()
        .fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..bars.len() as f64, 0.0..(most * 1.15).max(f64::MIN_POSITIVE))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(5)
        .draw()?;
    for (at, (field, number, values)) in bars.iter().enumerate() {
        let (left, value) = (at as f64, nearest_rank(values, 50));
        let corners = [(left + 0.15, 0.0), (left + 0.85, value)];
        chart.draw_series([Rectangle::new(corners, Palette99::pick(*number).filled())])?;
        let small = ("sans-serif", 12);
        chart.draw_series([Text::new(format!("{value}"), (left + 0.15, value + most * 0.1), small)])?;
        let repetitions = values.iter().filter(|_| values.len() > 1);
        chart.draw_series(repetitions.map(|value| Circle::new((left + 0.5, *value), 2, BLACK.filled())))?;
        let (x, y) = chart.backend_coord(&(left + 0.15, 0.0));
        let (zero_x, zero_y) = area.get_base_pixel();
        area.draw(&Text::new(field.clone(), (x - zero_x, y - zero_y + 6), small))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_and_the_same_settings_are_repetitions() {
        let text = "64 clients\n{\"bench\":\"workflows\",\"mode\":\"execute\",\"ops_per_s\":412.0}\n{\"no\": 1}\n";
        let found = reports(&text.repeat(2));
        assert_eq!(found.len(), 2);
        let first = found.first().map(|report| label(Path::new("runs/slow.txt"), report));
        assert_eq!(first.as_deref(), Some("slow: workflows, mode execute"));
        let series = Series {
            label: first.unwrap_or_default(),
            runs: found,
        };
        assert_eq!(
            bars(&[series], &["ops_per_s", "p50_us"]),
            [("ops_per_s".to_owned(), 0, vec![412.0, 412.0])]
        );
    }

    #[test]
    fn a_picture_has_the_figures_of_its_runs() {
        let report = |rate: f64| {
            let report = serde_json::json!({"bench": "locks", "ops_per_s": rate});
            report.as_object().cloned().unwrap_or_default()
        };
        let series = [("slow", 412.0), ("fast", 8765.0)].map(|(label, rate)| Series {
            label: label.to_owned(),
            runs: vec![report(rate)],
        });
        let picture = draw(&series).unwrap_or_default();
        for text in ["<svg", "slow", "fast", "412", "8765", "per second"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
    }
}

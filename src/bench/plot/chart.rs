//! The chart: a legend, a panel of bars for each kind of figure, and the environment of the measurement.

use super::panel::{Figure, PANELS, Panel, Unit};
use super::scale::{Scale, median};
use super::series::{Series, in_common};
use super::svg::{Anchor, Font, Svg};

/// The maximum number of series.
pub(super) const MAX_SERIES: usize = 32;
/// With more series, each panel takes the whole width.
const MAX_TWO_COLUMNS: usize = 8;

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 24.0;
const PANEL_HEIGHT: f64 = 270.0;
/// The margins of a panel around its bars.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 42.0;
const LEFT: f64 = 62.0;
const WIDEST_BAR: f64 = 64.0;

/// Distinguishable with colour blindness; from the ninth on, numbers distinguish the series.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a5c1e", "#666666",
];
const INK: &str = "#1a1a1a";
const GREY: &str = "#555555";
const GRID: &str = "#dddddd";
const WARNING_COLOUR: &str = "#b00020";

const fn font(size: f64, colour: &'static str) -> Font {
    Font {
        size,
        bold: false,
        colour,
    }
}

const TITLE: Font = Font {
    size: 18.0,
    bold: true,
    colour: INK,
};
const HEADING: Font = Font {
    size: 13.0,
    bold: true,
    colour: INK,
};
const PLAIN: Font = font(12.0, INK);
const SMALL: Font = font(10.0, GREY);
const VALUE: Font = font(10.0, INK);
const WARNING: Font = font(12.0, WARNING_COLOUR);

fn colour(place: usize) -> &'static str {
    COLOURS.iter().cycle().nth(place).copied().unwrap_or(INK)
}

/// The figures of a panel that at least two series have, or the only one.
fn figures(panel: &Panel, all: &[Series]) -> Vec<&'static Figure> {
    let enough = all.len().min(2);
    let shown = panel.figures.iter().filter(|figure| {
        let with = all.iter().filter(|series| !series.values(figure).is_empty());
        with.count() >= enough
    });
    shown.collect()
}

pub(super) fn draw(all: &[Series]) -> String {
    let mut svg = Svg::new();
    let mut benches: Vec<&str> = all.iter().map(|series| series.bench.as_str()).collect();
    benches.sort_unstable();
    benches.dedup();
    let title = format!("mainspring bench: {}", benches.join(", "));
    let mut y = MARGIN + TITLE.size;
    let width = WIDTH - 2.0 * MARGIN;
    for line in TITLE.wrapped(&title, width) {
        svg.text([MARGIN, y], Anchor::Start, TITLE, &line);
        y += 22.0;
    }
    let common = in_common(all);
    if !common.is_empty() {
        svg.text([MARGIN, y], Anchor::Start, PLAIN, &common.join(", "));
        y += 20.0;
    }
    y = legend(&mut svg, all, y + 4.0);
    let columns = if all.len() > MAX_TWO_COLUMNS { 1 } else { 2 };
    let panel_width = (width - MARGIN * f64::from(columns - 1)) / f64::from(columns);
    let shown: Vec<(&Panel, Vec<&Figure>)> = PANELS
        .iter()
        .map(|panel| (panel, figures(panel, all)))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    for row in shown.chunks(columns as usize) {
        let mut x = MARGIN;
        for (panel, figures) in row {
            let bars = Bars {
                all,
                panel,
                figures,
                x,
                y,
                width: panel_width,
            };
            bars.draw(&mut svg);
            x += panel_width + MARGIN;
        }
        y += PANEL_HEIGHT + 16.0;
    }
    y = environment(&mut svg, all, y + 8.0);
    svg.finish(WIDTH, y + MARGIN / 2.0, &title)
}

/// The legend, a line per series.
fn legend(svg: &mut Svg, all: &[Series], mut y: f64) -> f64 {
    for (place, series) in all.iter().enumerate() {
        svg.rect([MARGIN, y, 22.0, 14.0], colour(place), None);
        let number = Font {
            size: 10.0,
            bold: true,
            colour: "#ffffff",
        };
        let at = [MARGIN + 11.0, y + 10.5];
        svg.text(at, Anchor::Middle, number, &(place + 1).to_string());
        let left = MARGIN + 30.0;
        let label = series.label(all);
        let lines = PLAIN.wrapped(&label, WIDTH - MARGIN - left);
        for line in &lines {
            svg.text([left, y + 11.0], Anchor::Start, PLAIN, line);
            y += 18.0;
        }
        if let Some(failures) = series.failures() {
            let text = format!("not to be compared: {failures}");
            svg.text([left, y + 11.0], Anchor::Start, WARNING, &text);
            y += 18.0;
        }
    }
    y + 12.0
}

/// The machines and servers of the runs, as far as known.
fn environment(svg: &mut Svg, all: &[Series], mut y: f64) -> f64 {
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for (place, series) in all.iter().enumerate() {
        let number = (place + 1).to_string();
        for line in series.runs.iter().flat_map(|run| &run.environment) {
            match places.iter_mut().find(|(other, _)| other == line) {
                Some((_, numbers)) if numbers.last() == Some(&number) => {}
                Some((_, numbers)) => numbers.push(number.clone()),
                None => places.push((line, vec![number.clone()])),
            }
        }
    }
    for (line, numbers) in places {
        let text = if numbers.len() == all.len() {
            line.to_owned()
        } else {
            format!("{}: {line}", numbers.join(", "))
        };
        for part in SMALL.wrapped(&text, WIDTH - 2.0 * MARGIN) {
            svg.text([MARGIN, y], Anchor::Start, SMALL, &part);
            y += 14.0;
        }
    }
    y
}

/// A panel and its position.
struct Bars<'a> {
    all: &'a [Series],
    panel: &'a Panel,
    figures: &'a [&'static Figure],
    x: f64,
    y: f64,
    width: f64,
}

impl Bars<'_> {
    fn draw(&self, svg: &mut Svg) {
        let values = |figure: &&Figure| self.all.iter().map(|series| series.values(figure)).collect();
        let values: Vec<Vec<Vec<f64>>> = self.figures.iter().map(values).collect();
        let most = values.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let scale = Scale::up_to(most, self.panel.unit);
        let group = (self.width - LEFT) / self.figures.len() as f64;
        let slot = (group * 0.84 / self.all.len() as f64).min(WIDEST_BAR * 1.25);
        let medians = values.iter().flatten().filter_map(|values| median(values));
        let widest = medians
            .map(|value| VALUE.width(&scale.label(value)))
            .fold(0.0, f64::max);
        let upright = widest > slot;
        // Space for the number above the highest bar.
        let above = ABOVE + if upright { widest } else { VALUE.size };
        let frame = Frame {
            left: self.x + LEFT,
            right: self.x + self.width,
            bottom: self.y + PANEL_HEIGHT - BELOW,
            height: PANEL_HEIGHT - BELOW - above,
            top: scale.top,
        };
        self.axis(svg, &scale, &frame);
        for (place, (figure, of_all)) in self.figures.iter().zip(&values).enumerate() {
            let middle = frame.left + group * (place as f64 + 0.5);
            let first = middle - slot * of_all.len() as f64 / 2.0;
            for (number, of_one) in of_all.iter().enumerate() {
                let centre = first + slot * (number as f64 + 0.5);
                let bar = Bar {
                    number,
                    centre,
                    width: slot * 0.8,
                    upright,
                };
                self.bar(svg, &scale, &frame, figure, &bar, of_one);
            }
            // A single throughput figure needs no name beside the title.
            let plain = self.figures.len() == 1 && self.panel.unit == Unit::PerSecond;
            if !plain {
                let at = [middle, frame.bottom + 30.0];
                svg.text(at, Anchor::Middle, PLAIN, figure.name);
            }
        }
    }

    fn axis(&self, svg: &mut Svg, scale: &Scale, frame: &Frame) {
        let unit = match scale.unit {
            "" => String::new(),
            unit => format!(", {unit}"),
        };
        let title = format!("{}{unit}", self.panel.title);
        svg.text([self.x, self.y + 14.0], Anchor::Start, HEADING, &title);
        for tick in &scale.ticks {
            let y = frame.at(*tick);
            let ink = if *tick > 0.0 { GRID } else { GREY };
            svg.line([frame.left, y, frame.right, y], ink);
            let at = [frame.left - 6.0, y + 3.5];
            svg.text(at, Anchor::End, SMALL, &scale.label(*tick));
        }
    }

    fn bar(&self, svg: &mut Svg, scale: &Scale, frame: &Frame, figure: &Figure, bar: &Bar, values: &[f64]) {
        let number = (bar.number + 1).to_string();
        svg.text([bar.centre, frame.bottom + 13.0], Anchor::Middle, SMALL, &number);
        let Some(middle) = median(values) else {
            svg.text([bar.centre, frame.bottom - 4.0], Anchor::Middle, SMALL, "–");
            return;
        };
        let with_unit = |value: f64| format!("{} {}", scale.label(value), scale.unit).trim().to_owned();
        let name = self
            .all
            .get(bar.number)
            .map_or_else(String::new, |series| series.label(self.all));
        let what = format!("{} {}", self.panel.title, figure.name);
        let tooltip = format!("{name}: {}: {}", what.trim_end(), with_unit(middle));
        let y = frame.at(middle);
        let place = [bar.centre - bar.width / 2.0, y, bar.width, frame.bottom - y];
        svg.rect(place, colour(bar.number), Some(&tooltip));
        let mut highest = y;
        if values.len() > 1 {
            // Side by side, so that equal values stay visible.
            let step = (bar.width * 0.7 / values.len() as f64).min(7.0);
            let first = bar.centre - step * (values.len() - 1) as f64 / 2.0;
            for (place, value) in values.iter().enumerate() {
                let y = frame.at(*value);
                svg.dot([first + step * place as f64, y], &with_unit(*value));
                highest = highest.min(y - 3.0);
            }
        }
        let label = scale.label(middle);
        if bar.upright {
            let at = [bar.centre + 3.5, highest - 4.0];
            svg.text(at, Anchor::Up, VALUE, &label);
        } else {
            let at = [bar.centre, highest - 4.0];
            svg.text(at, Anchor::Middle, VALUE, &label);
        }
    }
}

/// The coordinates of the bars.
struct Frame {
    left: f64,
    right: f64,
    bottom: f64,
    height: f64,
    /// The value at its upper end.
    top: f64,
}

impl Frame {
    fn at(&self, value: f64) -> f64 {
        self.bottom - self.height * value / self.top
    }
}

struct Bar {
    number: usize,
    centre: f64,
    width: f64,
    upright: bool,
}

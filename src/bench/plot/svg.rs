//! A minimal SVG writer.

use std::fmt::Write;

/// The estimated width of a letter, as a fraction of the font size.
const LETTER: f64 = 0.58;

pub(super) struct Svg {
    body: String,
}

/// The alignment of a text to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
    /// Vertical, upwards from the point.
    Up,
}

/// The style of a text.
#[derive(Clone, Copy)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) colour: &'static str,
}

impl Font {
    /// The estimated width of a text.
    pub(super) fn width(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.size * LETTER
    }

    /// Wraps a text at blanks to lines of at most `width`.
    pub(super) fn wrapped(&self, text: &str, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(line) + self.width(word) + self.size <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    /// Appends a line; writing to a string cannot fail.
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(text);
        self.body.push('\n');
    }

    /// A rectangle; the title is its tooltip and its text for screen readers.
    pub(super) fn rect(&mut self, [x, y, width, height]: [f64; 4], colour: &str, title: Option<&str>) {
        let head = format!(r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}""#);
        match title {
            Some(title) => self.put(format_args!("{head}><title>{}</title></rect>", escaped(title))),
            None => self.put(format_args!("{head}/>")),
        }
    }

    pub(super) fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], colour: &str) {
        self.put(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#
        ));
    }

    pub(super) fn dot(&mut self, [x, y]: [f64; 2], title: &str) {
        self.put(format_args!(
            r##"<circle cx="{x:.1}" cy="{y:.1}" r="2.5" fill="#ffffff" stroke="#222222"><title>{}</title></circle>"##,
            escaped(title)
        ));
    }

    pub(super) fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, font: Font, text: &str) {
        let (place, turn) = match anchor {
            Anchor::Start => ("start", String::new()),
            Anchor::Middle => ("middle", String::new()),
            Anchor::End => ("end", String::new()),
            Anchor::Up => ("start", format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#)),
        };
        let weight = if font.bold { r#" font-weight="bold""# } else { "" };
        let (size, colour, text) = (font.size, font.colour, escaped(text));
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{place}" font-size="{size}" fill="{colour}"{weight}{turn}>{text}</text>"#
        ));
    }

    /// The document, with a white background for dark viewers.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">\n\
             <title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }
}

/// Escapes a text for XML 1.0; characters that XML cannot represent are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

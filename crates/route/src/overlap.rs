//! Whether two templates match a path in common for which neither goes before the other.
//!
//! A common value of the constraints of two segments is looked for among samples. Wherever whole numbers and lengths are bounded,
//! one of the bounds is a common value if there is any, as of some ranges that overlap one begins within all others; so these
//! are decided for whole numbers as they are usually written, words of letters, and names of files. Regular expressions, dates,
//! and segments of several parts are only tried with the same samples: two of which none of these is common may overlap.

use crate::constraint::Constraint;
use crate::path::{LONGEST_PATH, RequestPath};
use crate::segment::{Parameter, Part, Segment};
use crate::template::Template;

/// What is tried where there are regular expressions, of which a value of 1 KiB takes some ms: so many samples, of so many bytes.
const MOST_WITH_PATTERN: usize = 64;
const LONGEST_WITH_PATTERN: usize = 64;

/// The most texts that are tried for two segments of several parts.
const MOST_FILLED: usize = 256;

/// Values of the types that have no bounds.
const VALUES: [&str; 8] = [
    "true",
    "false",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "0f8fad5bd9cb469fa16570867728950e",
    "{0f8fad5b-d9cb-469f-a165-70867728950e}",
    "2024-02-29",
    "2024-02-29T12:00:00",
    "2024-02-29T12:00:00Z",
];

impl Template {
    /// Templates for which [`Self::common_path`] may have a path have one outline, or one [`Self::shape`]. `None` for a template
    /// that overlaps only with those of its shape, as it has neither a constraint nor a segment of several parts.
    pub fn outline(&self) -> Option<String> {
        let mut outline = String::new();
        let mut is_constrained = false;
        for (at, segment) in self.segments().iter().enumerate() {
            if at > 0 {
                outline.push('/');
            }
            match segment.digit() {
                2 => outline.push_str("{:}"),
                4 => outline.push_str("{*:}"),
                _ => segment.push_key(&mut outline),
            }
            is_constrained |= [2, 4].contains(&segment.digit());
        }
        is_constrained.then_some(outline)
    }

    /// A path that both templates match, neither of which goes before the other: with one method a request for it is ambiguous.
    /// `None` if there is none, or none is found: where there are regular expressions, dates, segments of several parts, or
    /// numbers in an unusual spelling (`007`), a few values are tried.
    pub fn common_path(&self, other: &Self) -> Option<String> {
        if self.precedence() != other.precedence() {
            return None;
        }
        // What may be absent from both is the end of a longer path.
        let count = self.required().max(other.required());
        let mut path = String::new();
        for (one, two) in self.segments().iter().zip(other.segments()).take(count) {
            path.push('/');
            push_encoded(&common_text(one, two)?, &mut path);
        }
        if path.is_empty() {
            path.push('/');
        }
        let matched = RequestPath::parse(&path).is_ok_and(|path| {
            let is_match = |template: &Self| template.matches(&path).is_some();
            is_match(self) && is_match(other)
        });
        matched.then_some(path)
    }
}

/// A text that two segments match.
fn common_text(one: &Segment, two: &Segment) -> Option<String> {
    if let (Segment::Literal(one), Segment::Literal(two)) = (one, two) {
        return (one == two).then(|| one.to_string());
    }
    let samples = samples(one, two);
    let filled = || filled(one, &samples).into_iter().chain(filled(two, &samples));
    let is_common = |text: &String| one.is_match(text) && two.is_match(text);
    let plain = samples.iter().find(|text| is_common(text)).cloned();
    plain.or_else(|| filled().take(MOST_FILLED).find(is_common))
}

/// Values of which two segments may have one in common.
fn samples(one: &Segment, two: &Segment) -> Vec<String> {
    let constraints = || {
        let parameters = one.parameters().chain(two.parameters());
        parameters.flat_map(|parameter| &parameter.constraints)
    };
    let lengths = constraints().flat_map(Constraint::length_bounds);
    let mut lengths: Vec<usize> = lengths.filter_map(|length| usize::try_from(length).ok()).collect();
    // That of a word, and that of the shortest name of a file.
    lengths.extend([1, 2]);
    lengths.retain(|length| (1..=LONGEST_PATH).contains(length));
    lengths.sort_unstable();
    lengths.dedup();
    let mut samples = vec!["0".to_owned()];
    let bounds = constraints().flat_map(Constraint::number_bounds);
    samples.extend(bounds.map(|number| number.to_string()));
    for length in lengths {
        samples.push("a".repeat(length));
        // A name of a file, and a fraction that is one, too.
        for end in [".a", ".5"] {
            samples.extend(length.checked_sub(end.len()).map(|rest| {
                let (point, last) = end.split_at(1);
                format!("{}{point}{last}", last.repeat(rest))
            }));
        }
    }
    samples.extend(VALUES.map(str::to_owned));
    for literal in literals(one).chain(literals(two)) {
        samples.push(literal.to_owned());
        samples.push(format!("a{literal}a"));
    }
    // The first ones of each length.
    for digits in 1..19 {
        let first = 10_i64.pow(digits);
        samples.push(first.to_string());
        samples.push((1 - first).to_string());
    }
    samples.push(i64::MIN.to_string());
    // They are no segments of a path.
    samples.retain(|sample| ![".", ".."].contains(&sample.as_str()));
    if constraints().any(|constraint| constraint.pattern_bytes() > 0) {
        samples.retain(|sample| sample.len() <= LONGEST_WITH_PATTERN);
        samples.truncate(MOST_WITH_PATTERN);
    }
    samples
}

fn literals(segment: &Segment) -> impl Iterator<Item = &str> {
    let parts: &[Part] = match segment {
        Segment::Complex(parts) => parts,
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        Part::Literal(literal) => Some(&**literal),
        Part::Parameter(_) => None,
    })
}

/// Texts of a segment of several parts: of its parameters one after the other has each sample, the others their first one.
fn filled(segment: &Segment, samples: &[String]) -> Vec<String> {
    let Segment::Complex(parts) = segment else {
        return Vec::new();
    };
    let mut texts = filled_parts(parts, samples);
    if let [rest @ .., Part::Literal(_), Part::Parameter(last)] = &**parts
        && last.is_optional
    {
        texts.extend(filled_parts(rest, samples));
    }
    texts
}

fn filled_parts(parts: &[Part], samples: &[String]) -> Vec<String> {
    let allowed = |parameter: &Parameter| -> Vec<&str> {
        let allowed = samples.iter().filter(|sample| parameter.allows(Some(sample)));
        allowed.map(String::as_str).collect()
    };
    let choices: Vec<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Literal(literal) => vec![&**literal],
            Part::Parameter(parameter) => allowed(parameter),
        })
        .collect();
    let first: Option<Vec<&str>> = choices.iter().map(|choice| choice.first().copied()).collect();
    let Some(first) = first else {
        return Vec::new();
    };
    let varied = choices.iter().enumerate().flat_map(|(at, choice)| {
        let first = &first;
        choice.iter().map(move |sample| {
            let others = first.iter().enumerate();
            others
                .map(|(place, text)| if place == at { sample } else { text })
                .copied()
                .collect()
        })
    });
    varied.collect()
}

/// Writes a segment as it is in a URL. That of an escaped slash stays escaped, as a template keeps it.
fn push_encoded(text: &str, path: &mut String) {
    for (at, byte) in text.bytes().enumerate() {
        let is_slash = || {
            text.get(at..at + 3)
                .is_some_and(|escape| escape.eq_ignore_ascii_case("%2f"))
        };
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) || byte == b'%' && is_slash() {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

//! Custom formats of numbers: `0.00`, `#,##0.##`, `0%`, `0.0E+0`, sections and literals.

use super::FormatError;
use super::digits::{Digits, group, is_zero};

/// A part of a section.
enum Part {
    Zero,
    Hash,
    Point,
    Literal(char),
    Exponent { letter: char, plus: bool, least: usize },
}

#[derive(Default)]
struct Section {
    parts: Vec<Part>,
    is_grouped: bool,
    /// Powers of ten by which the number is multiplied.
    scale: i32,
}

pub(super) fn format(mut digits: Digits, format: &str) -> Result<String, FormatError> {
    let sections = split(format);
    let section = |number: usize| sections.get(number).filter(|text| !text.is_empty());
    let first = sections.first().map(String::as_str).unwrap_or_default();
    let mut is_signed = true;
    let chosen = if is_zero(&digits) && sections.len() > 2 {
        section(2).map_or(first, String::as_str)
    } else if digits.is_negative && section(1).is_some() {
        is_signed = false;
        section(1).map_or(first, String::as_str)
    } else {
        first
    };
    let parsed = parse(chosen)?;
    digits.point = digits.point.saturating_add(parsed.scale);
    let mut probe = digits.clone();
    probe.round(i32::try_from(places(&parsed)).unwrap_or(0));
    if is_zero(&probe) && !is_zero(&digits) && sections.len() > 2 && !has_exponent(&parsed) {
        digits.digits.clear();
        digits.is_negative = false;
        let zero = parse(section(2).map_or(first, String::as_str))?;
        return Ok(write(digits, &zero, is_signed));
    }
    Ok(write(digits, &parsed, is_signed))
}

/// The sections between semicolons that are no literals.
fn split(format: &str) -> Vec<String> {
    let mut sections = vec![String::new()];
    let mut quote = None;
    let mut chars = format.chars();
    while let Some(next) = chars.next() {
        match (next, quote) {
            (';', None) => {
                sections.push(String::new());
                continue;
            }
            ('\'' | '"', None) => quote = Some(next),
            (_, Some(open)) if next == open => quote = None,
            _ => {}
        }
        if let Some(last) = sections.last_mut() {
            last.push(next);
            if next == '\\' && quote.is_none() {
                last.extend(chars.next());
            }
        }
    }
    sections
}

fn parse(text: &str) -> Result<Section, FormatError> {
    let mut section = Section::default();
    let mut chars = text.chars().peekable();
    let (mut seen_digit, mut seen_point, mut commas) = (false, false, 0);
    while let Some(next) = chars.next() {
        if next != ',' && commas > 0 {
            if matches!(next, '0' | '#') && !seen_point {
                section.is_grouped = true;
            } else {
                // Commas before the point divide by a thousand each.
                section.scale -= 3 * commas;
            }
            commas = 0;
        }
        match next {
            '0' | '#' => {
                seen_digit = true;
                section.parts.push(if next == '0' { Part::Zero } else { Part::Hash });
            }
            '.' if !seen_point => {
                seen_point = true;
                section.parts.push(Part::Point);
            }
            '.' => {}
            ',' if seen_digit && !seen_point => commas += 1,
            ',' => {}
            '%' => {
                section.scale += 2;
                section.parts.push(Part::Literal('%'));
            }
            '\u{2030}' => {
                section.scale += 3;
                section.parts.push(Part::Literal(next));
            }
            '\'' | '"' => {
                for literal in chars.by_ref().take_while(|c| *c != next) {
                    section.parts.push(Part::Literal(literal));
                }
            }
            '\\' => section.parts.extend(chars.next().map(Part::Literal)),
            'e' | 'E' => {
                let sign = chars.peek().copied().filter(|c| *c == '+' || *c == '-');
                let mut rest = chars.clone();
                if sign.is_some() {
                    rest.next();
                }
                if rest.peek() != Some(&'0') {
                    section.parts.push(Part::Literal(next));
                    continue;
                }
                if sign.is_some() {
                    chars.next();
                }
                let mut least = 0;
                while chars.next_if_eq(&'0').is_some() {
                    least += 1;
                }
                section.parts.push(Part::Exponent {
                    letter: next,
                    plus: sign == Some('+'),
                    least: least.min(10),
                });
            }
            other => section.parts.push(Part::Literal(other)),
        }
    }
    section.scale -= 3 * commas;
    Ok(section)
}

fn has_exponent(section: &Section) -> bool {
    section.parts.iter().any(|part| matches!(part, Part::Exponent { .. }))
}

fn places(section: &Section) -> usize {
    let after = section.parts.iter().skip_while(|part| !matches!(part, Part::Point));
    after.filter(|part| matches!(part, Part::Zero | Part::Hash)).count()
}

fn write(mut digits: Digits, section: &Section, is_signed: bool) -> String {
    let is_place = |part: &&Part| matches!(part, Part::Zero | Part::Hash);
    let before = section.parts.iter().take_while(|part| !matches!(part, Part::Point));
    let before_count = before.clone().filter(is_place).count();
    let places = places(section);
    let mut exponent = 0;
    if has_exponent(section) {
        let leading = digits.digits.iter().take_while(|digit| **digit == 0).count();
        digits.digits.drain(..leading);
        digits.point -= i32::try_from(leading).unwrap_or(0);
        let wanted = i32::try_from(before_count).unwrap_or(0);
        if !digits.digits.is_empty() {
            exponent = digits.point - wanted;
        }
        digits.point = wanted;
        let width = digits.point;
        digits.round(i32::try_from(places).unwrap_or(0));
        if digits.point > width {
            digits.point = width;
            exponent += 1;
        }
    } else {
        digits.round(i32::try_from(places).unwrap_or(0));
    }
    let least_whole = {
        // From the first zero on each place is shown.
        let flags: Vec<bool> = before.filter(is_place).map(|part| matches!(part, Part::Zero)).collect();
        flags
            .iter()
            .position(|is_zero| *is_zero)
            .map_or(0, |first| flags.len() - first)
    };
    let whole = digits.whole();
    let whole = if whole == "0" { "" } else { &whole };
    let whole = format!("{whole:0>least_whole$}");
    let shown_places = shown_places(&digits, section);
    let mut out = String::new();
    if digits.is_negative && is_signed && !is_zero(&digits) {
        out.push('-');
    }
    let grouped = if section.is_grouped {
        group(&whole)
    } else {
        whole.clone()
    };
    let mut is_whole_written = false;
    let (mut seen_place, mut place, mut is_after) = (0, 0, false);
    for part in &section.parts {
        match part {
            Part::Zero | Part::Hash if !is_after => {
                seen_place += 1;
                out.push_str(&whole_at(
                    &grouped,
                    &whole,
                    seen_place,
                    before_count,
                    &mut is_whole_written,
                ));
            }
            Part::Zero | Part::Hash => {
                place += 1;
                if place <= shown_places {
                    out.push(char::from(b'0' + digits.at(-i32::try_from(place).unwrap_or(0))));
                }
            }
            Part::Point => {
                if !is_whole_written && before_count == 0 {
                    out.push_str(&grouped);
                    is_whole_written = true;
                }
                is_after = true;
                if shown_places > 0 {
                    out.push('.');
                }
            }
            Part::Literal(literal) => out.push(*literal),
            Part::Exponent { letter, plus, least } => {
                out.push(*letter);
                if exponent < 0 {
                    out.push('-');
                } else if *plus {
                    out.push('+');
                }
                let width = *least;
                out.push_str(&format!("{:0width$}", exponent.abs()));
            }
        }
    }
    out
}

/// What one place before the point shows: the first one all digits that have no place of their own, too.
fn whole_at(grouped: &str, whole: &str, place: usize, places: usize, is_written: &mut bool) -> String {
    // Position of digits from the right.
    let of_right = places - place;
    let (count, mut seen) = (whole.len(), 0);
    let mut text = String::new();
    for character in grouped.chars() {
        if character.is_ascii_digit() {
            let right = count - 1 - seen;
            seen += 1;
            let is_here = right == of_right || (place == 1 && right > of_right);
            if is_here {
                text.push(character);
            }
        } else {
            // A comma belongs to the digit before it.
            let right = count - seen;
            if right == of_right || (place == 1 && right > of_right) {
                text.push(character);
            }
        }
    }
    *is_written = true;
    text
}

fn shown_places(digits: &Digits, section: &Section) -> usize {
    let after = section.parts.iter().skip_while(|part| !matches!(part, Part::Point));
    let places: Vec<bool> = after
        .filter(|part| matches!(part, Part::Zero | Part::Hash))
        .map(|part| matches!(part, Part::Zero))
        .collect();
    let least = places.iter().rposition(|is_zero| *is_zero).map_or(0, |last| last + 1);
    let used = (1..=places.len())
        .rev()
        .find(|place| digits.at(-i32::try_from(*place).unwrap_or(0)) != 0)
        .unwrap_or(0);
    least.max(used)
}

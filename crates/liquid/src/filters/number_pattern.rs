//! .NET's custom formats of numbers: `#,##0.00`, `0.0 %`, `000-0000`, `0.00E+00`.

use super::number_digits::{Digits, exponent};
use crate::budget::{Builder, TemplateBudget};
use crate::error::TemplateFailure;
use mainspring_language::Decimal;

/// A part of a custom format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'f> {
    /// A digit that is written even if it is a zero that says nothing.
    Zero,
    /// A digit.
    Digit,
    Point,
    Comma,
    /// `%` and `‰`: the number is multiplied by a power of ten.
    Scaled(&'f str, i64),
    Exponent {
        letter: char,
        has_plus: bool,
        width: usize,
        text: &'f str,
    },
    Literal(&'f str),
}

/// The parts of a section one after another.
struct Parts<'f>(&'f str);

impl<'f> Iterator for Parts<'f> {
    type Item = Part<'f>;

    fn next(&mut self) -> Option<Part<'f>> {
        let text = self.0;
        let first = text.chars().next()?;
        let mut taken = first.len_utf8();
        let after = text.get(taken..).unwrap_or_default();
        let plain = text.get(..taken).unwrap_or_default();
        let part = match first {
            '0' => Part::Zero,
            '#' => Part::Digit,
            '.' => Part::Point,
            ',' => Part::Comma,
            '%' => Part::Scaled(plain, 2),
            '‰' => Part::Scaled(plain, 3),
            '\'' | '"' => {
                let (literal, end) = match after.split_once(first) {
                    Some((literal, _)) => (literal, 1),
                    None => (after, 0),
                };
                taken += literal.len() + end;
                Part::Literal(literal)
            }
            '\\' => {
                let len = after.chars().next().map_or(0, char::len_utf8);
                taken += len;
                Part::Literal(after.get(..len).unwrap_or_default())
            }
            'E' | 'e' => {
                let zeros = after.strip_prefix(['+', '-']).unwrap_or(after);
                let width = zeros.bytes().take_while(|byte| *byte == b'0').count();
                if width == 0 {
                    Part::Literal(plain)
                } else {
                    taken += after.len() - zeros.len() + width;
                    Part::Exponent {
                        letter: first,
                        has_plus: after.starts_with('+'),
                        width: width.min(10),
                        text: text.get(..taken).unwrap_or_default(),
                    }
                }
            }
            _ => Part::Literal(plain),
        };
        self.0 = text.get(taken..).unwrap_or_default();
        Some(part)
    }
}

/// What a section says about the digits as a whole.
#[derive(Default)]
struct Layout {
    /// Places for digits.
    places: i64,
    /// Those before the point.
    whole: i64,
    /// Digits before the point, and behind it, that are always written.
    least_whole: i64,
    least_fraction: i64,
    has_groups: bool,
    /// The power of ten by which the number is multiplied.
    shift: i64,
    is_scientific: bool,
}

impl Layout {
    fn of(section: &str, budget: &TemplateBudget<'_>) -> Result<Self, TemplateFailure> {
        let mut layout = Self::default();
        let (mut point, mut first_zero, mut after_zero) = (None, None, 0);
        // The places before the last commas, and how many commas are there.
        let mut commas: Option<(i64, i64)> = None;
        for part in Parts(section) {
            budget.spend(1)?;
            match part {
                Part::Zero => {
                    first_zero.get_or_insert(layout.places);
                    layout.places += 1;
                    after_zero = layout.places;
                }
                Part::Digit => layout.places += 1,
                Part::Point => {
                    point.get_or_insert(layout.places);
                }
                Part::Comma if layout.places > 0 && point.is_none() => {
                    commas = Some(match commas {
                        Some((at, count)) if at == layout.places => (at, count + 1),
                        other => {
                            layout.has_groups |= other.is_some();
                            (layout.places, 1)
                        }
                    });
                }
                Part::Scaled(_, power) => layout.shift += power,
                Part::Exponent { .. } => layout.is_scientific = true,
                Part::Comma | Part::Literal(_) => {}
            }
        }
        layout.whole = point.unwrap_or(layout.places);
        match commas {
            // Commas before the point divide by a thousand each.
            Some((at, count)) if at == layout.whole => layout.shift -= 3 * count,
            other => layout.has_groups |= other.is_some(),
        }
        layout.least_whole = first_zero.map_or(0, |first| (layout.whole - first).max(0));
        layout.least_fraction = (after_zero - layout.whole).max(0);
        Ok(layout)
    }
}

/// Up to three sections: for positive numbers, negative ones, and zero.
fn sections(format: &str) -> Vec<&str> {
    let mut sections = Vec::with_capacity(3);
    let (mut start, mut quote, mut is_escaped) = (0, None, false);
    for (at, c) in format.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (c, quote) {
            ('\\', None) => is_escaped = true,
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (';', None) if sections.len() < 3 => {
                sections.push(format.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if sections.len() < 3 {
        sections.push(format.get(start..).unwrap_or_default());
    }
    sections
}

/// Writes a number as a custom format says.
pub(super) fn custom(value: Decimal, format: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    let sections = sections(format);
    // A section that is missing or empty is the first one.
    let found = |place: usize| {
        let section = sections.get(place).copied().filter(|section| !section.is_empty());
        section.map_or((0, sections.first().copied().unwrap_or_default()), |section| {
            (place, section)
        })
    };
    let mut digits = Digits::of(value);
    let (mut place, mut section) = found(match (digits.is_zero(), digits.is_negative) {
        (true, _) => 2,
        (_, true) => 1,
        _ => 0,
    });
    let mut layout = Layout::of(section, text.budget())?;
    if !digits.is_zero() {
        digits.point += layout.shift;
        digits.round(if layout.is_scientific {
            layout.places
        } else {
            digits.point + layout.places - layout.whole
        });
        if digits.is_zero() {
            (place, section) = found(2);
            layout = Layout::of(section, text.budget())?;
        }
    }
    if place == 0 && digits.is_negative {
        text.push('-')?;
    }
    Writer::new(&digits, &layout, text).section(section)
}

/// Writes the digits to their places.
struct Writer<'w, 'b, 's> {
    digits: std::slice::Iter<'w, u8>,
    layout: &'w Layout,
    text: &'w mut Builder<'b, 's>,
    exponent: i64,
    /// How many digits, or places for them, are before the point.
    left: i64,
    /// Digits for which the section has no place; less than 0: places for which there are no digits.
    surplus: i64,
    has_point: bool,
    has_exponent: bool,
}

impl<'w, 'b, 's> Writer<'w, 'b, 's> {
    fn new(digits: &'w Digits, layout: &'w Layout, text: &'w mut Builder<'b, 's>) -> Self {
        let surplus = digits.point - layout.whole;
        Self {
            digits: digits.digits.iter(),
            layout,
            text,
            exponent: if digits.is_zero() { 0 } else { surplus },
            left: if layout.is_scientific {
                layout.whole
            } else {
                layout.whole.max(digits.point)
            },
            surplus: if layout.is_scientific { 0 } else { surplus },
            has_point: false,
            has_exponent: false,
        }
    }

    fn section(mut self, section: &str) -> Result<(), TemplateFailure> {
        for part in Parts(section) {
            self.text.budget().spend(1)?;
            if matches!(part, Part::Zero | Part::Digit | Part::Point) {
                self.surplus()?;
            }
            match part {
                Part::Zero | Part::Digit => self.place()?,
                Part::Point => {
                    let has_fraction = self.layout.whole < self.layout.places && self.digits.len() > 0;
                    if self.left == 0 && !self.has_point && (self.layout.least_fraction > 0 || has_fraction) {
                        self.has_point = true;
                        self.text.push('.')?;
                    }
                }
                Part::Comma => {}
                Part::Exponent {
                    letter,
                    has_plus,
                    width,
                    ..
                } if !self.has_exponent => {
                    self.has_exponent = true;
                    let exponent = exponent(self.exponent, letter, width, has_plus);
                    self.text.push_str(&exponent)?;
                }
                Part::Scaled(text, _) | Part::Exponent { text, .. } | Part::Literal(text) => {
                    self.text.push_str(text)?;
                }
            }
        }
        Ok(())
    }

    /// The digits for which the section has no place are before its first one.
    fn surplus(&mut self) -> Result<(), TemplateFailure> {
        while self.surplus > 0 {
            self.text.budget().spend(1)?;
            self.surplus -= 1;
            let digit = self.digits.next().copied().unwrap_or(b'0');
            self.digit(digit)?;
        }
        Ok(())
    }

    fn place(&mut self) -> Result<(), TemplateFailure> {
        let digit = if self.surplus < 0 {
            self.surplus += 1;
            (self.left <= self.layout.least_whole).then_some(b'0')
        } else {
            let next = self.digits.next().copied();
            next.or_else(|| (self.left > -self.layout.least_fraction).then_some(b'0'))
        };
        match digit {
            Some(digit) => self.digit(digit),
            None => {
                self.left -= 1;
                Ok(())
            }
        }
    }

    fn digit(&mut self, digit: u8) -> Result<(), TemplateFailure> {
        self.text.push(char::from(digit))?;
        if self.layout.has_groups && self.left > 1 && (self.left - 1) % 3 == 0 {
            self.text.push(',')?;
        }
        self.left -= 1;
        Ok(())
    }
}

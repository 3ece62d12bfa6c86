//! The words, numbers and signs of a date text.

use chrono::FixedOffset;

/// .NET reads no longer number.
const MOST_DIGITS: usize = 8;

/// What a date text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Number {
        value: u32,
        digits: usize,
    },
    /// From 1.
    Month(u32),
    /// From 0, Sunday.
    Weekday(u32),
    /// `GMT` or `Z`.
    Utc,
    /// `A.D.` or `AD`.
    Era,
    /// `AM` or `PM`; true for the latter.
    HalfDay(bool),
    /// The sign of an offset.
    Sign,
    /// A comma or a point.
    Ignored,
    End,
}

/// What follows a number or the name of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    End,
    /// White space, or nothing.
    Space,
    Slash,
    /// It divides a date, or begins an offset.
    Dash,
    Colon,
    /// `AM` or `PM`; true for the latter.
    HalfDay(bool),
    /// The `T` of ISO 8601.
    Time,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// The place of a name that is written in full or by three letters.
fn place(names: &[&str], word: &str) -> Option<u32> {
    let place = names.iter().position(|name| {
        let short = name.get(..3).unwrap_or_default();
        word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(short)
    })?;
    u32::try_from(place).ok()
}

/// A place in a date text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Passes a character.
    pub(crate) fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(crate) fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether more than one character is left.
    fn has_two(&self) -> bool {
        self.rest.chars().nth(1).is_some()
    }

    fn digits(&mut self) -> &'t str {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(len).unwrap_or_default();
        self.rest = rest;
        digits
    }

    /// Two digits.
    pub(crate) fn two_digits(&mut self) -> Option<u32> {
        let (two, rest) = self.rest.split_at_checked(2)?;
        let is_plain = two.bytes().all(|byte| byte.is_ascii_digit());
        self.rest = rest;
        is_plain.then(|| two.parse().ok()).flatten()
    }

    /// The letters from here.
    fn letters(&self) -> &'t str {
        let end = self.rest.find(|c: char| !c.is_alphabetic());
        self.rest.get(..end.unwrap_or(self.rest.len())).unwrap_or_default()
    }

    /// The next word. `None` if it is unknown, or a number is too long.
    pub(crate) fn word(&mut self) -> Option<Word> {
        self.skip_space();
        let Some(first) = self.peek() else {
            return Some(Word::End);
        };
        if first.is_ascii_digit() {
            let digits = self.digits();
            return Some(Word::Number {
                value: digits.parse().ok().filter(|_| digits.len() <= MOST_DIGITS)?,
                digits: digits.len(),
            });
        }
        if first.is_alphabetic() {
            return self.name();
        }
        match first {
            '+' | '-' => Some(Word::Sign),
            ',' | '.' => {
                self.take(first);
                Some(Word::Ignored)
            }
            _ => None,
        }
    }

    fn name(&mut self) -> Option<Word> {
        let letters = self.letters();
        let mut taken = letters.len();
        let is = |word: &str| letters.eq_ignore_ascii_case(word);
        let word = if let Some(month) = place(&MONTHS, letters) {
            Word::Month(month + 1)
        } else if let Some(weekday) = place(&WEEKDAYS, letters) {
            Word::Weekday(weekday)
        } else if is("GMT") || is("Z") {
            Word::Utc
        } else if let Some(is_afternoon) = half_day(letters) {
            Word::HalfDay(is_afternoon)
        } else if is("AD") {
            Word::Era
        } else if self.rest.get(..4).is_some_and(|era| era.eq_ignore_ascii_case("A.D.")) {
            taken = 4;
            Word::Era
        } else {
            return None;
        };
        self.rest = self.rest.get(taken..).unwrap_or_default();
        Some(word)
    }

    /// What divides a number or a month from what follows. White space is passed, and so is the separator, but for a dash.
    pub(crate) fn separator(&mut self) -> Separator {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_whitespace() || c == '\u{200f}');
        let Some(first) = self.peek() else {
            return Separator::End;
        };
        let letters = self.letters();
        let separator = match first {
            '/' => Separator::Slash,
            ':' => Separator::Colon,
            '-' => return Separator::Dash,
            _ if letters.eq_ignore_ascii_case("T") => Separator::Time,
            _ => match half_day(letters) {
                Some(is_afternoon) => Separator::HalfDay(is_afternoon),
                None => return Separator::Space,
            },
        };
        let taken = letters.len().max(1);
        self.rest = self.rest.get(taken..).unwrap_or_default();
        separator
    }

    /// The fraction of a second behind a point, in ticks of 100 ns. `None` if it has no digits.
    pub(crate) fn fraction(&mut self) -> Option<i64> {
        let digits = self.digits();
        // Seven are kept, and the eighth decides the rounding.
        let kept: String = digits.chars().chain("00000000".chars()).take(8).collect();
        let eight: i64 = kept.parse().ok()?;
        (!digits.is_empty()).then_some((eight + 5) / 10)
    }

    /// The fraction behind seconds.
    pub(crate) fn point_and_fraction(&mut self) -> i64 {
        if self.has_two() && self.take('.') {
            return self.fraction().unwrap_or(0);
        }
        0
    }

    /// Whether an offset follows directly, or behind white space. White space before it is passed.
    pub(crate) fn is_at_offset(&mut self) -> bool {
        let mut ahead = *self;
        ahead.skip_space();
        let is_at = self.has_two() && matches!(ahead.peek(), Some('+' | '-'));
        if is_at {
            *self = ahead;
        }
        is_at
    }

    /// An offset: `+2`, `+02`, `+2:30`, `+0230`.
    pub(crate) fn offset(&mut self) -> Option<FixedOffset> {
        let is_west = self.take('-');
        if !is_west && !self.take('+') {
            return None;
        }
        let digits = self.digits();
        let number: i32 = digits.parse().ok()?;
        let (hours, minutes) = match digits.len() {
            1 | 2 if self.take(':') => {
                let minutes = self.digits();
                (number, minutes.parse().ok().filter(|_| minutes.len() <= 2)?)
            }
            1 | 2 => (number, 0),
            3 | 4 => (number / 100, number % 100),
            _ => return None,
        };
        // .NET has no offsets beyond.
        if minutes > 59 || hours * 60 + minutes > 14 * 60 {
            return None;
        }
        let seconds = (hours * 60 + minutes) * 60;
        FixedOffset::east_opt(if is_west { -seconds } else { seconds })
    }
}

/// Whether a word is `PM`; nothing if it is not `AM` either.
fn half_day(letters: &str) -> Option<bool> {
    let is_afternoon = letters.eq_ignore_ascii_case("PM");
    (is_afternoon || letters.eq_ignore_ascii_case("AM")).then_some(is_afternoon)
}

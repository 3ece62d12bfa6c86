//! Dates in digits and words, as .NET's `DateTimeOffset.Parse` reads them in the invariant culture: the month before the
//! day, a number of three digits or more is a year, and what is missing is taken from today.

use chrono::{DateTime, Datelike, Duration, FixedOffset, NaiveDate, NaiveDateTime, Offset, Utc};

use crate::date_words::{Cursor, Separator, Word};

/// The last year that two digits stand for.
const LAST_SHORT_YEAR: u32 = 2049;

/// Bytes of a date text: words, an offset, and white space between them.
const LONGEST: usize = 200;

/// A date as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDate {
    /// The date and the time of day.
    pub local: NaiveDateTime,
    /// The distance from UTC, if the text names it.
    pub offset: Option<FixedOffset>,
}

impl ReadDate {
    /// The date with its offset; in UTC if it has none.
    pub fn or_utc(self) -> DateTime<FixedOffset> {
        let offset = self.offset.unwrap_or(Utc.fix());
        let utc = self.local.checked_sub_offset(offset).unwrap_or(self.local);
        DateTime::from_naive_utc_and_offset(utc, offset)
    }
}

/// Reads a date, a time or both, with white space around it or not: `2026-01-31T12:00:00.5+02:00`, `1/31/2026 2:30 PM`,
/// `31 Jan 26`, `Sat, 31 Jan 2026 12:00:00 GMT`, `14:30`. `now` is the time whose day, or year, the text does not name.
///
/// .NET reads texts of any length. One with more than some hundred bytes between its ends is none here, so that the work is
/// bounded; white space around it costs little. Dates with the suffixes of Chinese, Japanese and Korean are not read.
pub fn parse_date_text(text: &str, now: DateTime<Utc>) -> Option<ReadDate> {
    let text = text.trim();
    if text.len() > LONGEST {
        return None;
    }
    let mut reader = DateReader::new(text, now);
    match reader.read()? {
        Ended::Iso(read) => Some(read),
        Ended::Parts => reader.finish(),
    }
}

/// What is read of a date that is not complete, or of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Nothing,
    Number,
    TwoNumbers,
    Month,
    MonthThenNumber,
    NumberThenMonth,
    Year,
    YearAndNumber,
    YearAndMonth,
    /// An hour and a colon.
    Hour,
    /// An hour, minutes and a colon.
    HourAndMinute,
}

enum Ended {
    /// The parts are known.
    Parts,
    /// ISO 8601 with a `T`, which has rules of its own.
    Iso(ReadDate),
}

/// Whether the text goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoesOn,
    Ended,
}

impl Step {
    fn after(separator: Separator) -> Self {
        match separator {
            Separator::End => Self::Ended,
            _ => Self::GoesOn,
        }
    }
}

struct DateReader<'t> {
    cursor: Cursor<'t>,
    now: DateTime<Utc>,
    shape: Shape,
    /// A date separator is behind the last part.
    is_open: bool,
    /// A date separator is in the date.
    is_divided: bool,
    /// Numbers that have no meaning yet, at most three.
    numbers: Vec<u32>,
    month: Option<u32>,
    year: Option<u32>,
    weekday: Option<u32>,
    is_afternoon: Option<bool>,
    fraction: i64,
    offset: Option<FixedOffset>,
    date: Option<NaiveDate>,
    time: Option<[u32; 3]>,
    has_part: bool,
}

impl<'t> DateReader<'t> {
    fn new(text: &'t str, now: DateTime<Utc>) -> Self {
        Self {
            cursor: Cursor::new(text),
            now,
            shape: Shape::Nothing,
            is_open: false,
            is_divided: false,
            numbers: Vec::with_capacity(3),
            month: None,
            year: None,
            weekday: None,
            is_afternoon: None,
            fraction: 0,
            offset: None,
            date: None,
            time: None,
            has_part: false,
        }
    }

    fn read(&mut self) -> Option<Ended> {
        loop {
            let step = match self.cursor.word()? {
                Word::Number { value, digits } => {
                    if self.numbers.len() == 3 {
                        return None;
                    }
                    let is_time = matches!(self.shape, Shape::Hour | Shape::HourAndMinute);
                    if self.shape == Shape::HourAndMinute {
                        self.fraction = self.cursor.point_and_fraction();
                    }
                    if is_time && self.cursor.is_at_offset() {
                        self.read_offset()?;
                    }
                    let separator = self.cursor.separator();
                    if digits > 2 {
                        self.add_year(value, separator)?
                    } else if separator == Separator::Time {
                        return self.iso(value).map(Ended::Iso);
                    } else {
                        self.add_number(value, separator)?
                    }
                }
                Word::Month(month) => {
                    if self.month.replace(month).is_some() {
                        return None;
                    }
                    let separator = self.cursor.separator();
                    self.add_month(separator)?
                }
                Word::Weekday(weekday) => {
                    if self.shape == Shape::Hour || self.weekday.replace(weekday).is_some() {
                        return None;
                    }
                    self.is_open &= !matches!(self.shape, Shape::YearAndNumber | Shape::YearAndMonth);
                    Step::GoesOn
                }
                Word::Utc => {
                    let is_between = match self.shape {
                        Shape::Nothing | Shape::Hour | Shape::HourAndMinute => true,
                        Shape::Number | Shape::TwoNumbers => !self.is_divided,
                        _ => false,
                    };
                    if !is_between || self.offset.replace(Utc.fix()).is_some() {
                        return None;
                    }
                    Step::GoesOn
                }
                Word::Sign => {
                    self.read_offset()?;
                    Step::GoesOn
                }
                Word::HalfDay(is_afternoon) => {
                    self.set_half_day(is_afternoon)?;
                    Step::GoesOn
                }
                Word::Era | Word::Ignored => Step::GoesOn,
                Word::End => {
                    if self.shape != Shape::Nothing {
                        self.end_of_two()?;
                    }
                    Step::Ended
                }
            };
            if step == Step::Ended {
                return Some(Ended::Parts);
            }
        }
    }

    fn read_offset(&mut self) -> Option<()> {
        let offset = self.cursor.offset()?;
        self.offset.replace(offset).is_none().then_some(())
    }

    fn set_half_day(&mut self, is_afternoon: bool) -> Option<()> {
        self.is_afternoon.replace(is_afternoon).is_none().then_some(())
    }

    fn add_number(&mut self, value: u32, separator: Separator) -> Option<Step> {
        if let Separator::HalfDay(is_afternoon) = separator {
            self.set_half_day(is_afternoon)?;
            self.end_with_half_day(value)?;
            return Some(Step::GoesOn);
        }
        self.numbers.push(value);
        match (self.shape, separator) {
            (Shape::Hour, Separator::Colon) => self.shape = Shape::HourAndMinute,
            (Shape::Hour | Shape::HourAndMinute, Separator::Slash | Separator::Colon) => return None,
            (Shape::Hour | Shape::HourAndMinute, _) => self.end_time()?,
            // The numbers before become part of the time, as strange as it is.
            (
                Shape::Nothing | Shape::TwoNumbers | Shape::MonthThenNumber | Shape::NumberThenMonth,
                Separator::Colon,
            ) if !self.is_open => self.begin(Shape::Hour, separator),
            (_, Separator::Colon) => return None,
            (Shape::Nothing, _) => self.part(Shape::Number, separator)?,
            (Shape::Number, _) => self.second(Shape::TwoNumbers, separator)?,
            (Shape::Month, _) => self.second(Shape::MonthThenNumber, separator)?,
            (Shape::Year, _) => self.second(Shape::YearAndNumber, separator)?,
            (_, separator) => self.third(separator)?,
        }
        Some(Step::after(separator))
    }

    fn add_year(&mut self, value: u32, separator: Separator) -> Option<Step> {
        if self.year.replace(value).is_some() {
            return None;
        }
        let separator = match separator {
            Separator::HalfDay(is_afternoon) => {
                self.set_half_day(is_afternoon)?;
                Separator::Space
            }
            Separator::Time | Separator::Colon => return None,
            other => other,
        };
        match self.shape {
            Shape::Nothing => self.part(Shape::Year, separator)?,
            Shape::Number => self.second(Shape::YearAndNumber, separator)?,
            Shape::Month => self.second(Shape::YearAndMonth, separator)?,
            Shape::TwoNumbers | Shape::MonthThenNumber | Shape::NumberThenMonth => self.third(separator)?,
            _ => return None,
        }
        Some(Step::GoesOn)
    }

    fn add_month(&mut self, separator: Separator) -> Option<Step> {
        if matches!(separator, Separator::Time | Separator::Colon | Separator::HalfDay(_)) {
            return None;
        }
        match self.shape {
            Shape::Nothing => self.part(Shape::Month, separator)?,
            // `31/Jan` and `31 Jan` mean different things, unless the text ends with them.
            Shape::Number if self.is_open && separator != Separator::End => {
                self.second(Shape::MonthThenNumber, separator)?;
            }
            Shape::Number => self.second(Shape::NumberThenMonth, separator)?,
            Shape::Year => self.second(Shape::YearAndMonth, separator)?,
            Shape::TwoNumbers | Shape::YearAndNumber => self.third(separator)?,
            _ => return None,
        }
        Some(Step::after(separator))
    }

    /// The first part of a date, which is none alone.
    fn part(&mut self, shape: Shape, separator: Separator) -> Option<()> {
        if separator == Separator::End {
            return None;
        }
        self.is_divided = false;
        self.begin(shape, separator);
        Some(())
    }

    fn begin(&mut self, shape: Shape, separator: Separator) {
        self.shape = shape;
        self.is_open = matches!(separator, Separator::Slash | Separator::Dash);
        self.is_divided |= self.is_open;
        if separator == Separator::Dash {
            self.cursor.take('-');
        }
    }

    /// The second part, which makes a date at the end of the text.
    fn second(&mut self, shape: Shape, separator: Separator) -> Option<()> {
        self.begin(shape, separator);
        match separator {
            Separator::End => self.end_of_two(),
            _ => Some(()),
        }
    }

    /// A date of two parts ends.
    fn end_of_two(&mut self) -> Option<()> {
        if self.is_open {
            return None;
        }
        let number = self.numbers.first().copied();
        let this_year = self.this_year();
        match self.shape {
            Shape::TwoNumbers => {
                let day = self.numbers.get(1).copied()?;
                self.end_date(this_year, number?, day)
            }
            Shape::MonthThenNumber => self.end_date(this_year, self.month?, number?),
            // The year is behind the month where .NET's pattern of both has it before.
            Shape::NumberThenMonth => self.end_date(four_digits(number?), self.month?, 1),
            Shape::YearAndNumber => self.end_date(self.year?, number?, 1),
            Shape::YearAndMonth => self.end_date(self.year?, self.month?, 1),
            _ => None,
        }
    }

    /// The third part, which ends a date. A dash behind it begins an offset.
    fn third(&mut self, separator: Separator) -> Option<()> {
        if matches!(separator, Separator::Slash | Separator::Colon | Separator::Time) {
            return None;
        }
        self.end_of_three()
    }

    fn end_of_three(&mut self) -> Option<()> {
        let number = |place: usize| self.numbers.get(place).copied();
        let (first, second) = (number(0), number(1));
        match (self.year, self.month, self.shape) {
            (Some(year), Some(month), _) => self.end_date(year, month, first?),
            (Some(year), None, _) => self.end_date(year, first?, second?),
            (None, Some(month), _) => {
                let (first, second) = (first?, second?);
                let day_first = date_of(four_digits(second), month, first).is_some();
                let (year, day) = if day_first { (second, first) } else { (first, second) };
                self.end_date(four_digits(year), month, day)
            }
            (None, None, _) => self.end_date(four_digits(number(2)?), first?, second?),
        }
    }

    fn end_date(&mut self, year: u32, month: u32, day: u32) -> Option<()> {
        let date = date_of(year, month, day)?;
        if self.date.replace(date).is_some() {
            return None;
        }
        self.end_part();
        Some(())
    }

    /// A time ends, whose parts are the first numbers.
    fn end_time(&mut self) -> Option<()> {
        let count = if self.shape == Shape::HourAndMinute { 3 } else { 2 };
        self.set_time(count)
    }

    fn set_time(&mut self, count: usize) -> Option<()> {
        let part = |place: usize| {
            let number = self.numbers.get(place).copied();
            number.filter(|_| place < count).unwrap_or(0)
        };
        let time = [part(0), part(1), part(2)];
        if self.time.replace(time).is_some() {
            return None;
        }
        self.end_part();
        Some(())
    }

    /// A number with `AM` or `PM` behind it.
    fn end_with_half_day(&mut self, value: u32) -> Option<()> {
        if self.shape == Shape::TwoNumbers && self.is_divided && !self.is_open {
            // `1/31 5 PM`
            self.end_of_two()?;
        }
        self.numbers.push(value);
        match self.shape {
            Shape::Nothing => self.set_time(1),
            Shape::Number if !self.is_open => self.set_time(2),
            Shape::TwoNumbers if !self.is_open => self.set_time(3),
            Shape::Hour | Shape::HourAndMinute => {
                self.end_time()?;
                if self.cursor.is_at_offset() {
                    self.read_offset()?;
                }
                Some(())
            }
            Shape::TwoNumbers | Shape::YearAndNumber | Shape::YearAndMonth => self.end_of_three(),
            Shape::MonthThenNumber | Shape::NumberThenMonth if !self.is_open => self.end_of_three(),
            _ => None,
        }
    }

    fn end_part(&mut self) {
        self.has_part = true;
        self.numbers.clear();
        self.shape = Shape::Nothing;
        self.is_open = false;
        self.is_divided = false;
    }

    fn this_year(&self) -> u32 {
        u32::try_from(self.today().year()).unwrap_or(0)
    }

    /// Today, where the text is.
    fn today(&self) -> NaiveDate {
        self.now.with_timezone(&self.offset.unwrap_or(Utc.fix())).date_naive()
    }

    fn finish(self) -> Option<ReadDate> {
        if !self.has_part {
            return None;
        }
        let [hour, minute, second] = self.time.unwrap_or_default();
        let hour = match self.is_afternoon {
            None => hour,
            Some(false) => Some(hour).filter(|hour| *hour <= 12)? % 12,
            Some(true) if hour < 12 => hour + 12,
            Some(true) => hour,
        };
        let date = self.date.unwrap_or_else(|| self.today());
        let local = with_fraction(date.and_hms_opt(hour, minute, second)?, self.fraction)?;
        let weekday = date.weekday().num_days_from_sunday();
        if self.weekday.is_some_and(|named| named != weekday) {
            return None;
        }
        checked(local, self.offset)
    }

    /// The rest of `2026-01-31T12:00:00`, behind the `T`.
    fn iso(&mut self, last: u32) -> Option<ReadDate> {
        let first = self.numbers.first().copied();
        let (Shape::YearAndNumber, Some(year), Some(first)) = (self.shape, self.year, first) else {
            return None;
        };
        let date = date_of(year, first, last)?;
        let cursor = &mut self.cursor;
        cursor.skip_space();
        let hour = cursor.two_digits()?;
        cursor.skip_space();
        if !cursor.take(':') {
            return None;
        }
        cursor.skip_space();
        let minute = cursor.two_digits()?;
        cursor.skip_space();
        let (mut second, mut fraction) = (0, 0);
        if cursor.take(':') {
            cursor.skip_space();
            second = cursor.two_digits()?;
            if cursor.take('.') {
                fraction = cursor.fraction()?;
            }
            cursor.skip_space();
        }
        let offset = if cursor.take('Z') || cursor.take('z') {
            Some(Utc.fix())
        } else if cursor.is_at_end() {
            self.offset
        } else {
            Some(cursor.offset()?)
        };
        cursor.skip_space();
        if !cursor.is_at_end() {
            return None;
        }
        let local = with_fraction(date.and_hms_opt(hour, minute, second)?, fraction)?;
        checked(local, offset)
    }
}

/// .NET's years end with 9999.
fn date_of(year: u32, month: u32, day: u32) -> Option<NaiveDate> {
    let year = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year))?;
    NaiveDate::from_ymd_opt(year, month, day)
}

/// The year that two digits stand for; others are what they are.
fn four_digits(year: u32) -> u32 {
    if year > 99 {
        return year;
    }
    let century = LAST_SHORT_YEAR / 100 * 100;
    if year > LAST_SHORT_YEAR % 100 {
        century - 100 + year
    } else {
        century + year
    }
}

fn with_fraction(time: NaiveDateTime, ticks: i64) -> Option<NaiveDateTime> {
    time.checked_add_signed(Duration::nanoseconds(ticks * 100))
        .filter(|time| time.year() <= 9999)
}

/// A date that is in .NET's range in UTC, too.
fn checked(local: NaiveDateTime, offset: Option<FixedOffset>) -> Option<ReadDate> {
    let utc = local.checked_sub_offset(offset.unwrap_or(Utc.fix()))?;
    (1..=9999).contains(&utc.year()).then_some(ReadDate { local, offset })
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::*;

    const TABLE: &str = include_str!("date_texts.txt");

    #[test]
    fn texts_are_read_as_dotnet_reads_them() {
        let day = NaiveDate::from_ymd_opt(2026, 1, 31).unwrap();
        let now = day.and_hms_opt(23, 30, 0).unwrap().and_utc();
        let rows = TABLE.lines().map(str::trim);
        let mut wrong = Vec::new();
        for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
            let (text, expected) = row.rsplit_once('|').unwrap();
            for text in [text.trim().to_owned(), format!(" \t{text} ")] {
                let read = parse_date_text(&text, now).map(|read| match read.offset {
                    Some(offset) => format!("{} {offset}", read.local),
                    None => read.local.to_string(),
                });
                let read = read.as_deref().unwrap_or("-");
                if read != expected.trim() {
                    wrong.push(format!("{text}: {read}, not {expected}"));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    #[test]
    fn a_long_text_is_no_date() {
        let read = |text: &str| parse_date_text(text, DateTime::UNIX_EPOCH).is_some();
        let blank = " ".repeat(10_000);
        assert!(read(&format!("{blank}2026-01-31{blank}")));
        assert!(!read(&format!("2026-01-31{blank}12:00")));
    }

    #[test]
    fn no_text_panics() {
        let parts = [
            "1", "31", "26", "2026", "0", "99999999", ":", "/", "-", "+", ".", ",", " ", "T", "Z", "AM", "PM", "Jan",
            "é", "\u{200f}", "Sat", "GMT", "A.D.", "#", "\0",
        ];
        let mut seed: usize = 7;
        for _ in 0..100_000 {
            let mut text = String::new();
            for _ in 0..seed % 9 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(parts[(seed >> 33) % parts.len()]);
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = DateTime::UNIX_EPOCH;
            let read = parse_date_text(&text, now).map(ReadDate::or_utc);
            assert!(read.is_none_or(|read| read.year() <= 9999), "{text}");
        }
    }
}

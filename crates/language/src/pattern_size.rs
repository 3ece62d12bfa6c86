//! How large a regular expression is: how much work a byte of text is for it, and how much its classes are to compile.
//!
//! The size of the compiled pattern says little about the first: a class of Unicode takes many states, of which a search is in
//! one at a time. The work depends on the places of the pattern at which a search can be, with their repetitions.

use std::iter::Peekable;
use std::str::Chars;

/// Work for each byte of a text, whatever the pattern is.
const LEAST_PLACES: usize = 8;

/// So many groups are as much work for a place as the place itself: their ends are copied with it.
const GROUPS_OF_PLACE: usize = 16;

/// What the largest range of characters is to compile, if case is ignored, compared with a class such as `\w`.
const LARGEST_RANGE: usize = 20;

/// So many characters of a range are as much as such a class.
const RANGE_OF_CLASS: usize = 0x2000;

/// The size of a pattern in the syntax of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternSize {
    /// Characters, classes, alternatives and repetitions, each as often as it is repeated.
    places: usize,
    groups: usize,
    /// Classes whose characters are searched in both cases, if case is ignored.
    classes: usize,
    /// It ignores case by itself, as `(?i)` says.
    pub ignores_case: bool,
}

impl PatternSize {
    /// The size of a pattern, whatever text it is.
    pub fn of(text: &str) -> Self {
        let mut reader = Reader {
            chars: text.chars().peekable(),
            size: Self::default(),
            outer: Vec::new(),
            last: 0,
        };
        while let Some(next) = reader.chars.next() {
            reader.part(next);
        }
        // A group that is not closed is an error for the engine.
        let open: usize = reader.outer.iter().fold(0, |sum, places| sum.saturating_add(*places));
        reader.size.places = reader.size.places.saturating_add(open);
        reader.size
    }

    /// The work for a byte of text.
    pub fn work(&self) -> usize {
        let places = self.places.saturating_add(LEAST_PLACES);
        places.saturating_mul(GROUPS_OF_PLACE + self.groups) / GROUPS_OF_PLACE
    }

    /// Classes whose characters are searched in both cases, if case is ignored.
    pub fn classes(&self) -> usize {
        self.classes
    }
}

struct Reader<'t> {
    chars: Peekable<Chars<'t>>,
    /// Its places are those of the innermost group.
    size: PatternSize,
    /// The places of the groups around it.
    outer: Vec<usize>,
    /// The places of what a repetition repeats.
    last: usize,
}

impl Reader<'_> {
    fn add(&mut self, places: usize) {
        self.size.places = self.size.places.saturating_add(places);
        self.last = places;
    }

    fn part(&mut self, next: char) {
        match next {
            '(' => self.open(),
            ')' => {
                let inner = self.size.places;
                self.size.places = self.outer.pop().unwrap_or(0);
                self.add(inner);
            }
            '[' => {
                self.class();
                self.add(1);
            }
            '\\' => {
                self.size.classes += usize::from(self.escape());
                self.add(1);
            }
            '*' | '+' | '?' => self.repeat(1),
            '{' => {
                let count: String = self.chars.by_ref().take_while(|c| *c != '}').collect();
                let most = count.split(',').filter_map(|number| number.trim().parse().ok()).max();
                self.repeat(most.unwrap_or(1));
            }
            _ => self.add(1),
        }
    }

    /// What is last is there so often, and asks each time whether it goes on.
    fn repeat(&mut self, count: usize) {
        let all = self.last.saturating_add(1).saturating_mul(count.max(1));
        self.size.places = self.size.places.saturating_sub(self.last).saturating_add(all);
        self.last = all;
    }

    fn open(&mut self) {
        let mut is_group = true;
        if self.chars.next_if_eq(&'?').is_some() {
            is_group = self.chars.peek() == Some(&'P');
            let mut flags = String::new();
            for next in self.chars.by_ref() {
                match next {
                    ')' => {
                        self.size.ignores_case |= flags.contains('i');
                        return;
                    }
                    ':' | '>' => break,
                    other => flags.push(other),
                }
            }
            self.size.ignores_case |= !is_group && flags.contains('i');
        }
        self.size.groups += usize::from(is_group);
        self.outer.push(self.size.places);
        self.size.places = 1;
    }

    /// A class in brackets. A range with an escaped end counts as the largest.
    fn class(&mut self) {
        let mut first = None;
        while let Some(next) = self.chars.next() {
            match next {
                ']' => return,
                '\\' => {
                    self.size.classes += usize::from(self.escape());
                    first = None;
                }
                '-' => {
                    let ends = first.zip(self.chars.peek().copied().filter(|last| *last != '\\'));
                    self.size.classes += match ends {
                        Some((_, last)) if last.is_ascii() => 0,
                        Some((first, last)) => {
                            let range = u32::from(last).saturating_sub(u32::from(first));
                            (1 + usize::try_from(range).unwrap_or(0) / RANGE_OF_CLASS).min(LARGEST_RANGE)
                        }
                        None => LARGEST_RANGE,
                    };
                }
                other => first = Some(other),
            }
        }
    }

    /// What follows a backslash. Returns whether it is a class.
    fn escape(&mut self) -> bool {
        let next = self.chars.next().unwrap_or_default();
        if matches!(next, 'p' | 'P' | 'x' | 'u' | 'U') && self.chars.peek() == Some(&'{') {
            self.chars.by_ref().take_while(|c| *c != '}').for_each(drop);
        }
        matches!(next, 'w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_with_their_repetitions() {
        for (text, places, groups, classes) in [
            ("", 0, 0, 0),
            ("abc", 3, 0, 0),
            (r"\w+@\w+\.\w+", 8, 0, 3),
            ("a{1000}", 2_000, 0, 0),
            ("(?:a?){400}a{400}b", 1_600 + 800 + 1, 0, 0),
            ("(a{10}){2,30}", 630 + 30, 1, 0),
            ("(?P<name>a|b)", 4, 1, 0),
            (r"[\w.]{2}", 4, 0, 1),
            ("[a-z0-9]", 1, 0, 0),
            ("[ -\u{ffff}]", 1, 0, 8),
            (r"[ -\u{ffff}]", 1, 0, 20),
            ("[À-ÖØ-ö-z]", 1, 0, 2),
            (r"\[\(\{", 3, 0, 0),
            ("(?i)a", 1, 0, 0),
        ] {
            let size = PatternSize::of(text);
            assert_eq!(
                (size.places, size.groups, size.classes),
                (places, groups, classes),
                "{text}"
            );
        }
        assert!(PatternSize::of("(?i)a").ignores_case && PatternSize::of("(?s-i:a)").ignores_case);
        assert!(!PatternSize::of("(?P<id>i)").ignores_case && !PatternSize::of("(?:i)").ignores_case);
        let endless = format!("{}a{}", "(".repeat(90), "){9999999}".repeat(90));
        assert_eq!(PatternSize::of(&endless).work(), usize::MAX / 16);
    }
}

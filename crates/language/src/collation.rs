//! The order of texts as people read them: Unicode's root collation, which .NET's invariant culture and the
//! `localeCompare` of JavaScript have, or that of a locale.

use std::cmp::Ordering;
use std::sync::OnceLock;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use super::shortened::shortened;

/// Which differences of two texts count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sensitivity {
    /// Letters alone: `a` is `á` and `A`.
    Base,
    /// Letters and accents: `a` is `A`.
    Accent,
    /// Letters and their case: `a` is `á`.
    Case,
    /// All of them.
    #[default]
    Variant,
}

/// How texts are ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollationOptions {
    /// A BCP 47 tag; empty for the root collation. A language without rules of its own has that of the root.
    pub locale: String,
    /// Which differences count.
    pub sensitivity: Sensitivity,
    /// Digits are numbers: `item9` comes before `item10`. `None` is what the locale says.
    pub is_numeric: Option<bool>,
    /// Upper case comes first (`true`) or last (`false`). `None` is what the locale says.
    pub upper_first: Option<bool>,
    /// Spaces and punctuation do not count.
    pub ignores_punctuation: bool,
}

/// The longest tag of a locale, in bytes.
const LONGEST_LOCALE: usize = 100;

/// An order of texts.
#[derive(Debug)]
pub struct Collation(CollatorBorrowed<'static>);

impl Collation {
    /// The root collation.
    pub fn root() -> &'static Self {
        static ROOT: OnceLock<Collation> = OnceLock::new();
        ROOT.get_or_init(|| {
            let made = Self::new(&CollationOptions::default());
            made.unwrap_or_else(|problem| unreachable!("the root collation is compiled in: {problem}"))
        })
    }

    /// The order with these options.
    /// Errors: a message, when the locale is no tag.
    pub fn new(options: &CollationOptions) -> Result<Self, String> {
        let shown = shortened(&options.locale, LONGEST_LOCALE);
        let wrong = || format!("{shown:?} is not a locale; write it as \"en\" or \"de-AT\"");
        // Its parts are sorted as they are read, in quadratic time.
        if options.locale.len() > LONGEST_LOCALE {
            return Err(wrong());
        }
        let mut preferences = if options.locale.is_empty() {
            CollatorPreferences::default()
        } else {
            CollatorPreferences::from(&options.locale.parse::<Locale>().map_err(|_| wrong())?)
        };
        if let Some(is_numeric) = options.is_numeric {
            preferences.numeric_ordering = Some(if is_numeric {
                CollationNumericOrdering::True
            } else {
                CollationNumericOrdering::False
            });
        }
        if let Some(upper_first) = options.upper_first {
            preferences.case_first = Some(if upper_first {
                CollationCaseFirst::Upper
            } else {
                CollationCaseFirst::Lower
            });
        }
        let mut levels = CollatorOptions::default();
        levels.strength = Some(match options.sensitivity {
            Sensitivity::Base | Sensitivity::Case => Strength::Primary,
            Sensitivity::Accent => Strength::Secondary,
            Sensitivity::Variant => Strength::Tertiary,
        });
        if options.sensitivity == Sensitivity::Case {
            levels.case_level = Some(CaseLevel::On);
        }
        if options.ignores_punctuation {
            levels.alternate_handling = Some(AlternateHandling::Shifted);
        }
        let collator = Collator::try_new(preferences, levels).map_err(|error| format!("{}: {error}", wrong()))?;
        Ok(Self(collator))
    }

    /// The order of two texts. Time and memory are linear in their lengths: 8 bytes and more for each character.
    pub fn compare(&self, left: &str, right: &str) -> Ordering {
        self.0.compare(left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(options: CollationOptions, words: &str) -> String {
        let collation = Collation::new(&options).unwrap();
        let mut words: Vec<&str> = words.split(' ').collect();
        words.sort_by(|left, right| collation.compare(left, right));
        words.join(" ")
    }

    #[test]
    fn words_have_the_order_of_unicode() {
        let root = CollationOptions::default;
        assert_eq!(
            sorted(root(), "résumé resume Zebra apple Äpfel 10 9 _x"),
            "_x 10 9 Äpfel apple resume résumé Zebra"
        );
        let numeric = CollationOptions {
            is_numeric: Some(true),
            ..root()
        };
        assert_eq!(sorted(numeric, "item10 item9 item1"), "item1 item9 item10");
        let swedish = CollationOptions {
            locale: "sv".to_owned(),
            ..root()
        };
        assert_eq!(sorted(swedish, "ö z a"), "a z ö");
        assert_eq!(sorted(root(), "ö z a"), "a ö z");
        let upper = CollationOptions {
            upper_first: Some(true),
            ..root()
        };
        assert_eq!(sorted(upper, "a A"), "A a");
        assert_eq!(sorted(root(), "A a"), "a A");
    }

    #[test]
    fn differences_count_as_asked() {
        let equal = |sensitivity, left: &str, right: &str| {
            let options = CollationOptions {
                sensitivity,
                ..CollationOptions::default()
            };
            Collation::new(&options).unwrap().compare(left, right) == Ordering::Equal
        };
        assert!(equal(Sensitivity::Base, "a", "Á"));
        assert!(equal(Sensitivity::Accent, "a", "A") && !equal(Sensitivity::Accent, "a", "á"));
        assert!(equal(Sensitivity::Case, "a", "á") && !equal(Sensitivity::Case, "a", "A"));
        assert!(!equal(Sensitivity::Variant, "a", "A"));
    }

    #[test]
    fn a_wrong_tag_is_refused() {
        for locale in ["not a tag".to_owned(), format!("en-u-{}", "abcdefgh-".repeat(100_000))] {
            let options = CollationOptions {
                locale,
                ..CollationOptions::default()
            };
            let problem = Collation::new(&options).unwrap_err();
            assert!(
                problem.contains("not a locale") && problem.len() < 300,
                "{}",
                problem.len()
            );
        }
    }
}

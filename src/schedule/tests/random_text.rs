//! Random text: the parsers return, and never panic or search for long.

use proptest::prelude::*;

use super::*;
use crate::schedule::{Cron, Interval, Zone};

fn parse_and_iterate(text: &str, after: i64, zone: &Zone, rules: ClockChangeRules) {
    let Ok(cron) = Cron::parse(text) else { return };
    assert_eq!(Cron::parse(&cron.to_string()).unwrap(), cron);
    let after = DateTime::from_timestamp(after, 0).unwrap();
    let found: Vec<_> = cron.occurrences(after, zone, rules).take(3).collect();
    assert!(
        found.windows(2).all(|pair| pair[0].at < pair[1].at),
        "{text}: {found:?}"
    );
    for next in found {
        assert!(next.at > after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(4), ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>()) {
        parse_and_iterate(&text, 0, &Zone::UTC, ClockChangeRules::default());
        let _ = Interval::parse(&text);
        let zone = Zone::named(text.get(..8).unwrap_or_default());
        assert!(zone.is_err());
    }

    #[test]
    fn text_of_valid_letters_is_parsed_or_refused(
        text in "([0-9]{1,3}|[*?/,#LWH-]|SUN|fri|JAN|dec|[ \t]|@daily){1,24}",
        after in any::<i32>(),
    ) {
        parse_and_iterate(&text, i64::from(after), &Zone::UTC, ClockChangeRules::default());
    }

    #[test]
    fn nearly_valid_text_is_parsed_or_refused(
        fields in prop::collection::vec("([*?]|[0-9]|[1-5][0-9]|L|L-[0-9]|[0-9]W|LW|[0-7]L|[0-7]#[0-6])((-|/|,)[0-5]?[0-9]){0,2}", 4..8),
        after in -100_000_000_000i64..300_000_000_000,
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"]),
        rules in prop::sample::select(all_rules().collect::<Vec<_>>()),
    ) {
        parse_and_iterate(&fields.join(" "), after, &Zone::named(zone).unwrap(), rules);
    }
}

#[test]
fn the_search_ends_for_an_expression_that_is_always_skipped() {
    // The clock of New York goes forward in each of these nights, by the current rules.
    let cron = Cron::parse("30 2 * 3 SUN#2").unwrap();
    let zone = Zone::named("America/New_York").unwrap();
    let rules = ClockChangeRules {
        gap: Gap::Skip,
        ..ClockChangeRules::default()
    };
    assert_eq!(cron.next_after(at("2026-01-01T00:00:00Z"), &zone, rules), None);
}

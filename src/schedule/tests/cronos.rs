//! The meaning of each form of an expression, and the errors of invalid ones. Expectations follow the documentation of Cronos.

use super::*;
use crate::schedule::{Cron, Zone};

/// The first occurrences in UTC, as `2026-01-31T09:00:00`.
fn first(text: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let zone = Zone::UTC;
    let found = cron
        .occurrences(at(after), &zone, ClockChangeRules::default())
        .take(count);
    found
        .map(|found| found.at.naive_utc().and_utc().to_rfc3339()[..19].to_owned())
        .collect()
}

/// The days of 2026 (as `01-31`) with an occurrence at midnight.
fn days(fields: &str) -> Vec<String> {
    let all = first(&format!("0 0 {fields}"), "2025-12-31T23:59:59Z", 400);
    all.iter()
        .filter(|day| day.starts_with("2026"))
        .map(|day| day[5..10].to_owned())
        .collect()
}

/// The values of a field of minutes.
fn minutes(field: &str) -> Vec<u32> {
    let all = first(&format!("{field} 5 1 1 *"), "2025-12-31T23:59:59Z", 60);
    all.iter()
        .filter(|at| at.starts_with("2026"))
        .map(|at| at[14..16].parse().unwrap())
        .collect()
}

#[test]
fn five_fields_and_six() {
    assert_eq!(first("0 9 * * *", "2026-01-01T10:00:00Z", 1), ["2026-01-02T09:00:00"]);
    assert_eq!(
        first("30 0 9 * * *", "2026-01-01T09:00:00Z", 1),
        ["2026-01-01T09:00:30"]
    );
    assert_eq!(
        first("\t 30  0 9\t* * *  ", "2026-01-01T09:00:00Z", 1),
        ["2026-01-01T09:00:30"]
    );
    // An occurrence is later than the given instant, also by less than a second.
    assert_eq!(first("* * * * * *", "2026-01-01T09:00:00Z", 1), ["2026-01-01T09:00:01"]);
    assert_eq!(
        first("* * * * * *", "2026-01-01T08:59:59.999999Z", 1),
        ["2026-01-01T09:00:00"]
    );
    assert_eq!(
        first("59 59 23 31 12 *", "2025-12-31T23:59:59Z", 1),
        ["2026-12-31T23:59:59"]
    );
}

#[test]
fn values_lists_ranges_and_steps() {
    assert_eq!(minutes("0"), [0]);
    assert_eq!(minutes("00,05"), [0, 5]);
    assert_eq!(minutes("3,5-11/3,12"), [3, 5, 8, 11, 12]);
    assert_eq!(minutes("*/24"), [0, 24, 48]);
    assert_eq!(minutes("?/24"), [0, 24, 48]);
    assert_eq!(minutes("5/20"), [5, 25, 45]);
    assert_eq!(minutes("*/59"), [0, 59]);
    assert_eq!(minutes("7-7"), [7]);
    assert_eq!(minutes("10-20/59"), [10]);
    assert_eq!(minutes("*").len(), 60);
}

#[test]
fn ranges_wrap_around() {
    assert_eq!(minutes("58-1"), [0, 1, 58, 59]);
    assert_eq!(minutes("50-10/7"), [4, 50, 57]);
    let hours = first("0 22-2 * * *", "2026-01-01T12:00:00Z", 5);
    let hours: Vec<&str> = hours.iter().map(|at| &at[11..13]).collect();
    assert_eq!(hours, ["22", "23", "00", "01", "02"]);
    assert_eq!(days("1 DEC-FEB *"), ["01-01", "02-01", "12-01"]);
    assert_eq!(days("30-2 1 *"), ["01-01", "01-02", "01-30", "01-31"]);
    // January 2026 begins on a Thursday.
    assert_eq!(days("1-7 1 FRI-MON"), ["01-02", "01-03", "01-04", "01-05"]);
    assert_eq!(days("1-7 1 FRI-TUE/2"), ["01-02", "01-04", "01-06"]);
    assert_eq!(days("1-7 1 7-2"), ["01-04", "01-05", "01-06"]);
    assert_eq!(days("1-7 1 5-7"), ["01-02", "01-03", "01-04"]);
}

#[test]
fn names_and_numbers_of_days_and_months() {
    for sunday in ["0", "7", "SUN", "sun", "Sun"] {
        assert_eq!(days(&format!("1-7 1 {sunday}")), ["01-04"], "{sunday}");
    }
    assert_eq!(days("1-7 1 1"), ["01-05"]);
    assert_eq!(days("1-7 1 MON,Wed-fRi"), ["01-01", "01-02", "01-05", "01-07"]);
    assert_eq!(days("15 jan,Jul-AUG *"), ["01-15", "07-15", "08-15"]);
    assert_eq!(days("1 */5 *"), ["01-01", "06-01", "11-01"]);
}

/// Both must match: the vixie cron of Unix fires when either does.
#[test]
fn day_of_month_and_day_of_week_must_both_match() {
    assert_eq!(days("13 * 5"), ["02-13", "03-13", "11-13"]);
    assert_eq!(days("13 * ?").len(), 12);
    assert_eq!(days("? * 5").len(), 52);
}

#[test]
fn the_last_day_and_the_nearest_weekday() {
    let february_and = |day: &str| days(&format!("{day} 2,5 *"));
    assert_eq!(february_and("L"), ["02-28", "05-31"]);
    assert_eq!(february_and("l-3"), ["02-25", "05-28"]);
    assert_eq!(february_and("L-30"), ["05-01"]);
    // 28 February 2026 is a Saturday, 31 May a Sunday.
    assert_eq!(february_and("LW"), ["02-27", "05-29"]);
    assert_eq!(february_and("L-1W"), ["02-27", "05-29"]);
    // 1 February is a Sunday; 2 May is a Saturday.
    assert_eq!(february_and("1W"), ["02-02", "05-01"]);
    assert_eq!(february_and("2w"), ["02-02", "05-01"]);
    // 1 August is a Saturday, and W does not leave the month.
    assert_eq!(days("1W 8 *"), ["08-03"]);
    // A day that a month does not have is not replaced by another one.
    assert_eq!(february_and("31W"), ["05-29"]);
    assert_eq!(february_and("30W"), ["05-29"]);
    assert_eq!(
        first("0 0 29W 2 *", "2026-01-01T00:00:00Z", 2),
        ["2028-02-29T00:00:00", "2032-02-27T00:00:00"]
    );
    // The weekday is that of the shifted day.
    assert_eq!(days("1W * MON"), ["02-02", "03-02", "06-01", "08-03", "11-02"]);
}

#[test]
fn the_last_and_the_nth_weekday() {
    assert_eq!(days("* 1-3 5L"), ["01-30", "02-27", "03-27"]);
    assert_eq!(days("* 1-3 FRIL"), ["01-30", "02-27", "03-27"]);
    assert_eq!(days("* 1-3 0L"), days("* 1-3 7L"));
    assert_eq!(days("* 1-3 6#3"), ["01-17", "02-21", "03-21"]);
    assert_eq!(days("? 1-3 mon#1"), ["01-05", "02-02", "03-02"]);
    assert_eq!(days("* * THU#5"), ["01-29", "04-30", "07-30", "10-29", "12-31"]);
    assert_eq!(days("L * SATL"), ["01-31", "02-28", "10-31"]);
}

#[test]
fn macros_have_the_documented_meaning() {
    for (name, meaning) in [
        ("@every_second", "* * * * * *"),
        ("@every_minute", "* * * * *"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
    ] {
        let after = "2026-01-15T12:34:56Z";
        assert_eq!(first(name, after, 5), first(meaning, after, 5), "{name}");
    }
}

#[test]
fn an_expression_with_steps_follows_real_time() {
    for (text, is_interval) in [
        ("0 0 2 * * *", false),
        ("0 2 * * *", false),
        ("0,30 1,2 */2 1-6 MON-FRI", false),
        ("0 * * * *", true),
        ("0 ? * * *", true),
        ("* 2 * * *", true),
        ("0/5 2 * * *", true),
        ("0 1-2 * * *", true),
        ("* 0 2 * * *", true),
    ] {
        assert_eq!(Cron::parse(text).unwrap().is_interval(), is_interval, "{text}");
    }
}

#[test]
fn a_parse_error_names_field_and_value() {
    for (text, hints) in [
        ("", &["0 fields", "allowed are 5"][..]),
        ("BadCronExpression", &["1 fields"]),
        ("* * * *", &["4 fields"]),
        ("* * * * * * *", &["7 fields", "6 with the second first"]),
        ("60 * * * *", &["field \"minute\"", "\"60\"", "0 to 59", "0-59"]),
        ("60 * * * * *", &["field \"second\""]),
        ("0 24 * * *", &["field \"hour\"", "0 to 23"]),
        ("0 0 0 * *", &["field \"day of month\"", "1 to 31"]),
        ("0 0 32 * *", &["field \"day of month\""]),
        ("0 0 * 13 *", &["field \"month\"", "JAN to DEC"]),
        ("0 0 * JANUARY *", &["field \"month\"", "JANUARY"]),
        ("0 0 * * 8", &["field \"day of week\"", "SUN to SAT"]),
        ("0 0 * * MONDAY", &["field \"day of week\""]),
        ("0 0 * * L", &["must follow a day"]),
        ("0 0 * * MON#6", &["after #", "1 to 5"]),
        ("0 0 * * MON#1,MON#3", &["after #"]),
        ("0 0 1-5W * *", &["W requires a single day"]),
        ("0 0 L-31 * *", &["0 to 30"]),
        ("0 0 L,15 * *", &["follows L"]),
        ("*/0 * * * *", &["not a step from 1 to 59"]),
        ("*/60 * * * *", &["not a step from 1 to 59"]),
        ("*,5 * * * *", &["only a step is allowed"]),
        ("5, * * * *", &["missing beside a comma"]),
        ("1--5 * * * *", &["not a number"]),
        ("1/2/3 * * * *", &["not a step"]),
        ("-5 * * * *", &["not a number"]),
        ("005 * * * *", &["not a number"]),
        ("H * * * *", &["jitterSeconds"]),
        ("@fortnightly", &["no such macro", "@hourly"]),
        ("* * * * *\n", &["field \"day of week\""]),
        ("0 0 * * ＭＯＮ", &["field \"day of week\""]),
        ("0 0 30 2 *", &["never fires"]),
        ("0 0 31 4,6,9,11 *", &["never fires"]),
        ("0 0 31W 2 *", &["never fires"]),
        ("0 0 1-7 * MON#2", &["never fires"]),
        ("0 0 L-30 2,4 *", &["never fires"]),
    ] {
        let error = Cron::parse(text).unwrap_err();
        assert_eq!(error.code(), "invalid-cron", "{text}");
        for hint in hints {
            assert!(error.message().contains(hint), "{text}: {error}");
        }
    }
    let long = Cron::parse(&"0,".repeat(100_000)).unwrap_err();
    assert!(long.message().len() < 200, "{long}");
}

#[test]
fn rare_occurrences_are_found() {
    // 2100 is no leap year.
    assert_eq!(
        first("0 0 29 2 1", "2084-02-29T00:00:00Z", 2),
        ["2112-02-29T00:00:00", "2140-02-29T00:00:00"]
    );
    assert_eq!(
        first("0 0 29 2 SUN", "2088-02-29T00:00:00Z", 1),
        ["2128-02-29T00:00:00"]
    );
    assert_eq!(first("0 0 1 1 *", "9998-12-31T00:00:00Z", 5), ["9999-01-01T00:00:00"]);
    assert!(first("0 0 1 1 *", "9999-01-01T00:00:00Z", 1).is_empty());
    assert_eq!(first("* * * * *", "9999-12-31T23:58:59Z", 5), ["9999-12-31T23:59:00"]);
    assert_eq!(first("0 0 1 1 *", "1066-10-14T00:00:00Z", 1), ["1970-01-01T00:00:00"]);
}

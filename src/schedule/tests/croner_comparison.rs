//! A thousand random expressions compared with the `croner` crate, in UTC.
//!
//! Where the two differ, Cronos's documentation decides, and the case is a [`Dialect`]: the test asserts that croner
//! differs there, and then compares with the equivalent expression for croner. Clock changes are tested elsewhere, because
//! croner has no settings for them.

use chrono::{Duration, NaiveDateTime};
use croner::parser::{CronParser, Seconds};

use super::*;
use crate::schedule::{Cron, Zone};

/// A feature of Cronos that croner does not have, or has differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    /// Cronos: "Reversed ranges like `22-1` (equivalent to `22,23,0,1,2`) are also supported".
    ReversedRange,
    /// Cronos: a number may have a step (`value [range]`, where a range may be a step alone): `5/20` is `5-59/20`.
    StepFromValue,
    /// Cronos reads a name as its first number, so that `SUN-SUN` is one day and `FRI-SUN` wraps around. In croner a
    /// Sunday that ends a range is 7.
    RangeToSunday,
    /// Cronos: `L-1` is the day before the last one of the month.
    DaysBeforeLast,
}

/// A field as text for both parsers.
struct FieldText {
    cronos: String,
    croner: String,
    dialects: Vec<Dialect>,
}

impl FieldText {
    fn same(text: String) -> Self {
        Self {
            croner: text.clone(),
            cronos: text,
            dialects: Vec::new(),
        }
    }
}

const MONTHS: [&str; 12] = [
    "JAN", "feb", "Mar", "APR", "may", "Jun", "JUL", "aug", "Sep", "OCT", "nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT"];

struct Field {
    low: usize,
    high: usize,
    /// How many values there are before they wrap around.
    modulus: usize,
    names: &'static [&'static str],
}

impl Field {
    fn value(&self, rng: &mut TestRng) -> usize {
        self.low + rng.below(self.high - self.low + 1)
    }

    fn written(&self, value: usize, rng: &mut TestRng) -> String {
        let name = self.names.get(value - self.low).filter(|_| rng.below(3) == 0);
        name.map_or(value.to_string(), |name| (*name).to_owned())
    }

    /// `*`, or a list.
    fn text(&self, rng: &mut TestRng) -> FieldText {
        if rng.below(2) == 0 {
            let step = 1 + rng.below(self.high);
            return FieldText::same(match rng.below(3) {
                0 => format!("*/{step}"),
                _ => "*".to_owned(),
            });
        }
        let mut all = FieldText::same(String::new());
        for item in 0..1 + rng.below(2) {
            let FieldText {
                cronos,
                croner,
                dialects,
            } = self.item(rng);
            let comma = if item > 0 { "," } else { "" };
            all.cronos += &format!("{comma}{cronos}");
            all.croner += &format!("{comma}{croner}");
            all.dialects.extend(dialects);
        }
        all
    }

    fn item(&self, rng: &mut TestRng) -> FieldText {
        let (low, high) = (self.value(rng), self.value(rng));
        let step = 1 + rng.below(self.high.min(12));
        let reversed = rng.below(8) == 0;
        let (low, high) = if reversed {
            (low, high)
        } else {
            (low.min(high), low.max(high))
        };
        match rng.below(7) {
            0..=3 => FieldText::same(self.written(low, rng)),
            4 => FieldText {
                cronos: format!("{low}/{step}"),
                croner: list(low, self.high, step, |value| value),
                dialects: vec![Dialect::StepFromValue],
            },
            other => {
                let step_text = if other == 5 { String::new() } else { format!("/{step}") };
                let step = if other == 5 { 1 } else { step };
                let text = format!("{}-{}{step_text}", self.written(low, rng), self.written(high, rng));
                let sunday_named = self.modulus == 7 && high == 0 && !text.replace(&step_text, "").ends_with('0');
                if low <= high && !sunday_named {
                    return FieldText::same(text);
                }
                let low = if self.modulus == 7 && low == 7 { 0 } else { low };
                let high = if high < low { high + self.modulus } else { high };
                FieldText {
                    cronos: text,
                    croner: list(low, high, step, |value| (value - self.low) % self.modulus + self.low),
                    dialects: vec![if sunday_named {
                        Dialect::RangeToSunday
                    } else {
                        Dialect::ReversedRange
                    }],
                }
            }
        }
    }
}

fn list(low: usize, high: usize, step: usize, map: impl Fn(usize) -> usize) -> String {
    let values: Vec<String> = (low..=high).step_by(step).map(|value| map(value).to_string()).collect();
    values.join(",")
}

fn days(rng: &mut TestRng, field: &Field) -> (FieldText, i64) {
    let same = |text: String| (FieldText::same(text), 0);
    match rng.below(12) {
        0 => same("?".to_owned()),
        1 => same(rng.one_of(&["L", "LW"]).to_owned()),
        2 => same(format!("{}W", field.value(rng))),
        3 => {
            let before = rng.below(28);
            let text = FieldText {
                cronos: format!("L-{before}"),
                croner: "L".to_owned(),
                dialects: vec![Dialect::DaysBeforeLast],
            };
            (text, i64::try_from(before).unwrap())
        }
        _ => (field.text(rng), 0),
    }
}

fn weekdays(rng: &mut TestRng, field: &Field) -> FieldText {
    match rng.below(6) {
        0 => FieldText::same(format!("{}L", WEEKDAYS[rng.below(7)].to_uppercase())),
        1 => FieldText::same(format!("{}#{}", rng.below(7), 1 + rng.below(5))),
        2 => FieldText::same("?".to_owned()),
        _ => field.text(rng),
    }
}

struct Expression {
    cronos: String,
    croner: String,
    dialects: Vec<Dialect>,
    /// How many days croner's occurrences are too late.
    days_before: i64,
}

fn expression(rng: &mut TestRng) -> Expression {
    let field = |low, high, modulus, names| Field {
        low,
        high,
        modulus,
        names,
    };
    let minute = field(0, 59, 60, &[][..]);
    let hour = field(0, 23, 24, &[]);
    let (day, days_before) = days(rng, &field(1, 31, 31, &[]));
    let weekday = if day.dialects.contains(&Dialect::DaysBeforeLast) {
        FieldText::same("*".to_owned())
    } else {
        weekdays(rng, &field(0, 7, 7, &WEEKDAYS))
    };
    let mut fields = vec![
        minute.text(rng),
        hour.text(rng),
        day,
        field(1, 12, 12, &MONTHS).text(rng),
        weekday,
    ];
    if rng.below(2) == 0 {
        fields.insert(0, minute.text(rng));
    }
    let join = |words: Vec<&str>| words.join(" ");
    Expression {
        cronos: join(fields.iter().map(|field| field.cronos.as_str()).collect()),
        croner: join(fields.iter().map(|field| field.croner.as_str()).collect()),
        dialects: fields.iter().flat_map(|field| field.dialects.clone()).collect(),
        days_before,
    }
}

#[test]
fn a_thousand_random_expressions_agree() {
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .dom_and_dow(true)
        .build();
    let mut rng = TestRng(1_234_567);
    let (mut same, mut different, mut never) = (0, 0, 0);
    while same + different < 1_000 {
        let expression = expression(&mut rng);
        let Expression { cronos, croner, .. } = &expression;
        if expression
            .dialects
            .iter()
            .any(|dialect| *dialect != Dialect::RangeToSunday)
        {
            // Croner refuses these.
            assert!(parser.parse(cronos).is_err(), "{cronos}: {:?}", expression.dialects);
        }
        let croner_cron = parser.parse(croner).unwrap_or_else(|error| panic!("{croner}: {error}"));
        let mut after: NaiveDateTime = "2026-01-01T00:00:00".parse().unwrap();
        after += Duration::seconds(rng.below(400_000_000).try_into().unwrap());
        let cron = match Cron::parse(cronos) {
            Ok(cron) => cron,
            Err(error) => {
                assert!(error.message().contains("never fires"), "{cronos}: {error}");
                // Croner searches 3,000 years, day by day.
                if never < 3 {
                    assert!(
                        croner_cron.find_next_occurrence(&after, false).is_err(),
                        "{cronos} fires"
                    );
                }
                never += 1;
                continue;
            }
        };
        if expression.dialects.is_empty() {
            same += 1;
        } else {
            different += 1;
        }
        for _ in 0..3 {
            let next = cron
                .next_after(after.and_utc(), &Zone::UTC, ClockChangeRules::default())
                .unwrap()
                .naive_utc();
            let later = Duration::days(expression.days_before);
            let croner_next = croner_cron.find_next_occurrence(&(after + later), false);
            let croner_next = croner_next.unwrap_or_else(|error| panic!("{cronos}: {error}")) - later;
            assert_eq!(next, croner_next, "{cronos} (to croner {croner}) after {after}");
            after = next;
        }
    }
    assert!(
        same > 300 && different > 300 && never < 300,
        "{same} {different} {never}"
    );
}

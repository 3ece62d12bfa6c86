//! A thousand random expressions, and what the `croner` crate makes of them, on a wall clock that is never changed.
//!
//! Where the two differ, Cronos's documentation decides, and the case is one of [`Dialect`]: the test insists that
//! croner really differs there, and then compares with the same thing said in croner's words. What clock changes do
//! is compared elsewhere: croner knows no settings for it.

use chrono::{Duration, NaiveDateTime};
use croner::parser::{CronParser, Seconds};

use super::*;
use crate::schedule::{Cron, Zone};

/// What Cronos has and croner has not, or not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    /// Cronos: "Reversed ranges like `22-1` (equivalent to `22,23,0,1,2`) are also supported".
    ReversedRange,
    /// Cronos: steps go with numbers, too (`value [range]`, where a range may be a step alone): `5/20` is `5-59/20`.
    StepFromValue,
    /// Cronos reads names as the first number that they have, so that `SUN-SUN` is one day and `FRI-SUN` goes round.
    /// To croner a Sunday that ends a range is 7.
    RangeToSunday,
    /// Cronos: `L-1` is the day before the last one of the month.
    DaysBeforeLast,
}

/// A field in both languages.
struct Said {
    cronos: String,
    croner: String,
    dialects: Vec<Dialect>,
}

impl Said {
    fn alike(text: String) -> Self {
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
    /// How many values there are before they go round.
    round: usize,
    names: &'static [&'static str],
}

impl Field {
    fn value(&self, dice: &mut Dice) -> usize {
        self.low + dice.below(self.high - self.low + 1)
    }

    fn written(&self, value: usize, dice: &mut Dice) -> String {
        let name = self.names.get(value - self.low).filter(|_| dice.below(3) == 0);
        name.map_or(value.to_string(), |name| (*name).to_owned())
    }

    /// `*`, or a list.
    fn said(&self, dice: &mut Dice) -> Said {
        if dice.below(2) == 0 {
            let step = 1 + dice.below(self.high);
            return Said::alike(match dice.below(3) {
                0 => format!("*/{step}"),
                _ => "*".to_owned(),
            });
        }
        let mut all = Said::alike(String::new());
        for item in 0..1 + dice.below(2) {
            let Said {
                cronos,
                croner,
                dialects,
            } = self.item(dice);
            let comma = if item > 0 { "," } else { "" };
            all.cronos += &format!("{comma}{cronos}");
            all.croner += &format!("{comma}{croner}");
            all.dialects.extend(dialects);
        }
        all
    }

    fn item(&self, dice: &mut Dice) -> Said {
        let (low, high) = (self.value(dice), self.value(dice));
        let step = 1 + dice.below(self.high.min(12));
        let turned = dice.below(8) == 0;
        let (low, high) = if turned {
            (low, high)
        } else {
            (low.min(high), low.max(high))
        };
        match dice.below(7) {
            0..=3 => Said::alike(self.written(low, dice)),
            4 => Said {
                cronos: format!("{low}/{step}"),
                croner: list(low, self.high, step, |value| value),
                dialects: vec![Dialect::StepFromValue],
            },
            other => {
                let step_text = if other == 5 { String::new() } else { format!("/{step}") };
                let step = if other == 5 { 1 } else { step };
                let text = format!("{}-{}{step_text}", self.written(low, dice), self.written(high, dice));
                let sunday_named = self.round == 7 && high == 0 && !text.replace(&step_text, "").ends_with('0');
                if low <= high && !sunday_named {
                    return Said::alike(text);
                }
                let low = if self.round == 7 && low == 7 { 0 } else { low };
                let high = if high < low { high + self.round } else { high };
                Said {
                    cronos: text,
                    croner: list(low, high, step, |value| (value - self.low) % self.round + self.low),
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

fn days(dice: &mut Dice, field: &Field) -> (Said, i64) {
    let alike = |text: String| (Said::alike(text), 0);
    match dice.below(12) {
        0 => alike("?".to_owned()),
        1 => alike(dice.one_of(&["L", "LW"]).to_owned()),
        2 => alike(format!("{}W", field.value(dice))),
        3 => {
            let before = dice.below(28);
            let said = Said {
                cronos: format!("L-{before}"),
                croner: "L".to_owned(),
                dialects: vec![Dialect::DaysBeforeLast],
            };
            (said, i64::try_from(before).unwrap())
        }
        _ => (field.said(dice), 0),
    }
}

fn weekdays(dice: &mut Dice, field: &Field) -> Said {
    match dice.below(6) {
        0 => Said::alike(format!("{}L", WEEKDAYS[dice.below(7)].to_uppercase())),
        1 => Said::alike(format!("{}#{}", dice.below(7), 1 + dice.below(5))),
        2 => Said::alike("?".to_owned()),
        _ => field.said(dice),
    }
}

struct Expression {
    cronos: String,
    croner: String,
    dialects: Vec<Dialect>,
    /// Croner's days are so many too late.
    days_before: i64,
}

fn expression(dice: &mut Dice) -> Expression {
    let field = |low, high, round, names| Field {
        low,
        high,
        round,
        names,
    };
    let minute = field(0, 59, 60, &[][..]);
    let hour = field(0, 23, 24, &[]);
    let (day, days_before) = days(dice, &field(1, 31, 31, &[]));
    let weekday = if day.dialects.contains(&Dialect::DaysBeforeLast) {
        Said::alike("*".to_owned())
    } else {
        weekdays(dice, &field(0, 7, 7, &WEEKDAYS))
    };
    let mut fields = vec![
        minute.said(dice),
        hour.said(dice),
        day,
        field(1, 12, 12, &MONTHS).said(dice),
        weekday,
    ];
    if dice.below(2) == 0 {
        fields.insert(0, minute.said(dice));
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
    let mut dice = Dice(1_234_567);
    let (mut alike, mut apart, mut never) = (0, 0, 0);
    while alike + apart < 1_000 {
        let expression = expression(&mut dice);
        let Expression { cronos, croner, .. } = &expression;
        if expression
            .dialects
            .iter()
            .any(|dialect| *dialect != Dialect::RangeToSunday)
        {
            // It does differ: croner refuses these.
            assert!(parser.parse(cronos).is_err(), "{cronos}: {:?}", expression.dialects);
        }
        let theirs = parser.parse(croner).unwrap_or_else(|error| panic!("{croner}: {error}"));
        let mut after: NaiveDateTime = "2026-01-01T00:00:00".parse().unwrap();
        after += Duration::seconds(dice.below(400_000_000).try_into().unwrap());
        let ours = match Cron::parse(cronos) {
            Ok(ours) => ours,
            Err(error) => {
                assert!(error.message().contains("never fires"), "{cronos}: {error}");
                // It looks for 3,000 years, day by day.
                if never < 3 {
                    assert!(theirs.find_next_occurrence(&after, false).is_err(), "{cronos} fires");
                }
                never += 1;
                continue;
            }
        };
        if expression.dialects.is_empty() {
            alike += 1;
        } else {
            apart += 1;
        }
        for _ in 0..3 {
            let next = ours
                .next_after(after.and_utc(), &Zone::UTC, ClockChangeRules::default())
                .unwrap()
                .naive_utc();
            let later = Duration::days(expression.days_before);
            let their_next = theirs.find_next_occurrence(&(after + later), false);
            let their_next = their_next.unwrap_or_else(|error| panic!("{cronos}: {error}")) - later;
            assert_eq!(next, their_next, "{cronos} (to croner {croner}) after {after}");
            after = next;
        }
    }
    assert!(alike > 300 && apart > 300 && never < 300, "{alike} {apart} {never}");
}

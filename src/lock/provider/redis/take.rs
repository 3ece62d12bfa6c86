//! What the scripts answer to those that take locks: tokens, or who holds them.

use std::collections::HashSet;
use std::time::Instant;

use redis::Value;

use super::calls::{CallAnswer, CallForm, Written};
use super::holders::Holders;
use super::links::RedisLinks;
use crate::lock::request::LockMode;
use crate::{Error, Result};

/// What became of a lock that was to be taken.
pub(super) enum TakeAnswer {
    /// Its token.
    Granted(u64),
    /// The value of its first holder, which another one has written.
    Held(String),
    /// It was not taken.
    Missed,
    /// It may have been taken.
    InDoubt,
}

impl TakeAnswer {
    fn read(value: Option<Value>) -> Self {
        match value {
            Some(Value::Int(token)) => u64::try_from(token).map_or(Self::InDoubt, Self::Granted),
            Some(Value::BulkString(value)) => String::from_utf8(value).map_or(Self::Missed, Self::Held),
            Some(_) => Self::Missed,
            None => Self::InDoubt,
        }
    }
}

/// Where the locks of one provider are taken.
#[derive(Clone)]
pub(super) struct TakePlace {
    pub(super) links: std::sync::Arc<RedisLinks>,
    pub(super) form: std::sync::Arc<CallForm>,
    pub(super) holders: Option<std::sync::Arc<Holders>>,
}

impl TakePlace {
    /// Releases and takes in one round trip, to each master by itself. Returns what may not have been released, and for each lock to take
    /// what became of it.
    pub(super) async fn exchange(
        &self,
        released: Vec<Written>,
        taken: Vec<Written>,
    ) -> (Vec<Written>, Vec<(Written, Instant, TakeAnswer)>) {
        let sent = Instant::now();
        let calls = self.form.exchange(&released, &taken);
        let (done, mut answers) = self.split(self.links.run(&calls).await, released.len(), taken.len());
        self.take_over(&taken, &mut answers).await;
        let unreleased = released.into_iter().zip(done).filter(|(_, done)| !done);
        let unreleased = unreleased.map(|(written, _)| written).collect();
        let taken = taken.into_iter().zip(answers);
        (
            unreleased,
            taken.map(|(written, answer)| (written, sent, answer)).collect(),
        )
    }

    /// Takes one after the other, and none after one that is missed.
    pub(super) async fn take_in_order(&self, all: Vec<Written>) -> Vec<(Written, Instant, TakeAnswer)> {
        let mut taken = Vec::with_capacity(all.len());
        let mut is_missed = false;
        for written in all {
            if is_missed {
                taken.push((written, Instant::now(), TakeAnswer::Missed));
                continue;
            }
            let (_, answered) = self.exchange(Vec::new(), vec![written]).await;
            is_missed = !answered
                .iter()
                .all(|(.., answer)| matches!(answer, TakeAnswer::Granted(_)));
            taken.extend(answered);
        }
        taken
    }

    /// The answers to an exchange: whether each release is done, and for each lock to take what became of it.
    fn split(&self, answers: Vec<CallAnswer>, released: usize, taken: usize) -> (Vec<bool>, Vec<TakeAnswer>) {
        let mut answers = answers.into_iter();
        if self.form.is_cluster {
            let done = answers.by_ref().take(released);
            let done = done.map(|answer| matches!(answer, CallAnswer::Done(_))).collect();
            let takes = answers.map(|answer| match answer {
                CallAnswer::Done(Value::Array(values)) => TakeAnswer::read(values.into_iter().next()),
                CallAnswer::NotRun => TakeAnswer::Missed,
                CallAnswer::Done(_) | CallAnswer::InDoubt => TakeAnswer::InDoubt,
            });
            return (done, takes.collect());
        }
        match answers.next() {
            Some(CallAnswer::Done(Value::Array(values))) => {
                let mut values = values.into_iter();
                let takes = (0..taken).map(|_| TakeAnswer::read(values.next()));
                (vec![true; released], takes.collect())
            }
            Some(CallAnswer::NotRun) => {
                let takes = (0..taken).map(|_| TakeAnswer::Missed);
                (vec![false; released], takes.collect())
            }
            _ => {
                let takes = (0..taken).map(|_| TakeAnswer::InDoubt);
                (vec![false; released], takes.collect())
            }
        }
    }

    /// Takes over what registrations hold that are gone.
    async fn take_over(&self, taken: &[Written], answers: &mut [TakeAnswer]) {
        let Some(holders) = self.holders.as_deref() else { return };
        let met = answers.iter().zip(taken).enumerate();
        let met = met.filter_map(|(place, (answer, written))| match answer {
            TakeAnswer::Held(value) if written.mode == LockMode::Exclusive => {
                Some((place, written, value.clone(), holders.incarnation_of(value)?))
            }
            _ => None,
        });
        let met: Vec<_> = met.collect();
        if met.is_empty() {
            return;
        }
        let incarnations: HashSet<i64> = met.iter().map(|(.., incarnation)| *incarnation).collect();
        let gone = holders.gone(incarnations).await;
        let theirs = met.into_iter().filter(|(.., incarnation)| gone.contains(incarnation));
        let (places, values): (Vec<usize>, Vec<(Written, String)>) = theirs
            .map(|(place, written, value, _)| (place, (written.clone(), value)))
            .unzip();
        if places.is_empty() {
            return;
        }
        let calls = self.form.take_over(&values);
        let per_call = places.len().div_ceil(calls.len().max(1));
        let answered = self.links.run(&calls).await;
        for (page, answer) in places.chunks(per_call).zip(answered) {
            let mut values = match answer {
                CallAnswer::Done(Value::Array(values)) => Some(values.into_iter()),
                CallAnswer::NotRun => continue,
                CallAnswer::Done(_) | CallAnswer::InDoubt => None,
            };
            for place in page {
                let became = match values.as_mut().and_then(Iterator::next) {
                    Some(Value::Int(0)) => TakeAnswer::Missed,
                    other => TakeAnswer::read(other),
                };
                if let Some(answer) = answers.get_mut(*place) {
                    *answer = became;
                }
            }
        }
    }

    /// Draws a token for what is held together; the tokens of the grants are `granted`, if none of them was given out.
    ///
    /// # Errors
    /// `lost-lock` where one is not held any more, those of the server.
    pub(super) async fn draw(&self, written: &[Written], granted: Option<u64>) -> Result<u64> {
        let token = match granted {
            Some(token) => token,
            None => self.draw_once(written, 0).await?,
        };
        if self.form.is_cluster && written.len() > 1 {
            // Each hash slot has a counter: all of them are raised, so that the next holder of any of these locks has more.
            self.draw_once(written, token).await?;
        }
        Ok(token)
    }

    async fn draw_once(&self, written: &[Written], least: u64) -> Result<u64> {
        let mut highest = 0;
        for answer in self.links.run(&self.form.token(written, least)).await {
            match answer {
                CallAnswer::Done(Value::Int(token)) => highest = highest.max(u64::try_from(token).unwrap_or_default()),
                CallAnswer::Done(_) => return Err(Error::lost_lock("the server has another value for the lock")),
                CallAnswer::NotRun | CallAnswer::InDoubt => return Err(self.links.failed()),
            }
        }
        Ok(highest)
    }
}

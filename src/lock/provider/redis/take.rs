//! What the scripts answer to requests for locks: tokens, or the current holders.

use redis::Value;
use std::collections::HashSet;

use super::calls::{CallAnswer, CallForm, Written};
use super::holders::Holders;
use super::links::RedisLinks;
use crate::lock::lease_time::LeaseTime;
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
    /// The server was not asked, because an earlier lock of the request was missed.
    NotAsked,
    /// It may have been taken.
    InDoubt,
}

/// What was to be taken, when it was sent, and what became of it.
pub(super) type Taken = (Written, LeaseTime, TakeAnswer);

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
    /// Releases and takes in one round trip, to each master by itself. Returns what may not have been released, and the
    /// result for each lock to take.
    pub(super) async fn exchange(&self, released: Vec<Written>, taken: Vec<Written>) -> (Vec<Written>, Vec<Taken>) {
        let sent = LeaseTime::now();
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

    /// Takes the first one, and if it is granted the others at once: the first one decides between requests for the same locks.
    pub(super) async fn take_together(&self, mut all: Vec<Written>) -> Vec<Taken> {
        let others = all.split_off(all.len().min(1));
        let (_, mut taken) = self.exchange(Vec::new(), all).await;
        let is_granted = |(.., answer): &Taken| matches!(answer, TakeAnswer::Granted(_));
        if taken.iter().all(is_granted) {
            taken.extend(self.exchange(Vec::new(), others).await.1);
        } else {
            let sent = LeaseTime::now();
            taken.extend(others.into_iter().map(|written| (written, sent, TakeAnswer::NotAsked)));
        }
        taken
    }

    /// The answers to an exchange: whether each release is done, and the result for each lock to take.
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

    /// Takes over the locks of registrations that are gone.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::redis_server::RedisServer;
    use crate::testing::RedisProcess;

    /// An answer may be lost, so that the call is sent again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_that_is_repeated_finds_its_own_grant() {
        let server = RedisProcess::start();
        let form = Arc::new(CallForm::new("p:", "c".to_owned(), Duration::from_secs(30), false));
        let links = RedisLinks::new(RedisServer::parse(&server.url()).unwrap(), Arc::clone(&form));
        let links = Arc::new(links);
        let kept = Arc::clone(&links);
        let keeper = tokio::spawn(async move { kept.keep().await });
        let place = TakePlace {
            links,
            form: Arc::clone(&form),
            holders: None,
        };
        let written = |value: &str, mode| Written {
            key: format!("p:{mode:?}"),
            value: value.to_owned(),
            mode,
        };
        let take = async |value, mode| {
            let (_, mut taken) = place.exchange(Vec::new(), vec![written(value, mode)]).await;
            taken.pop().unwrap().2
        };
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let mut last = 0;
            for _ in 0..3 {
                let TakeAnswer::Granted(token) = take("a", mode).await else {
                    panic!("{mode:?}")
                };
                assert!(token > last);
                last = token;
            }
        }
        assert!(matches!(take("b", LockMode::Exclusive).await, TakeAnswer::Held(held) if held == "a"));
        let met = [(written("b", LockMode::Exclusive), "a".to_owned())];
        for _ in 0..2 {
            let answers = place.links.run(&form.take_over(&met)).await;
            let [CallAnswer::Done(Value::Array(tokens))] = answers.as_slice() else {
                panic!()
            };
            assert!(matches!(tokens.as_slice(), [Value::Int(1..)]));
        }
        assert!(matches!(take("a", LockMode::Exclusive).await, TakeAnswer::Held(held) if held == "b"));
        // Each is released once, and a repeat releases no other one.
        for _ in 0..2 {
            let (unreleased, _) = place
                .exchange(vec![written("b", LockMode::Exclusive)], Vec::new())
                .await;
            assert!(unreleased.is_empty());
        }
        assert!(matches!(take("c", LockMode::Exclusive).await, TakeAnswer::Granted(_)));
        let (_, _) = place
            .exchange(vec![written("b", LockMode::Exclusive)], Vec::new())
            .await;
        assert_eq!(server.run(&["GET", "p:Exclusive"]), "c");
        keeper.abort();
    }
}

//! The connections for what the API reads.
//!
//! # Invariants
//!
//! - Claims, commits, check-ins and accepts use no connection of these pools, so reads delay them only through the server's
//!   CPU.
//! - Reads are bounded: a few at once, a queue, and for lists a time. A read beyond that fails with its own code, which the
//!   API answers as 503 with `Retry-After`.
//! - A list leaves its connection idle for as long as it took, so that clients that list without a pause, however many and
//!   whatever they ask for, leave the server's processors to bursts.
//! - Reads by key have connections that no list takes.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;

use super::pool::PoolBounds;
use super::{ANSWER_TIMEOUT, Connector, Pool};
use crate::{Error, Result};

/// The longest time of a list at the server. Together with the wait for a connection an answer takes less than 2 s.
const LIST_TIMEOUT: Duration = Duration::from_millis(1_400);

/// The longest time of a list that needs several statements, from the first wait for a connection to the last row.
const DEADLINE: Duration = Duration::from_millis(1_900);

const BY_KEY: PoolBounds = PoolBounds {
    name: "reads",
    queue: 256,
    wait: Duration::from_secs(2),
    answer: ANSWER_TIMEOUT,
    busy,
    slow: None,
    rests: false,
};

const LISTS: PoolBounds = PoolBounds {
    name: "lists",
    queue: 64,
    wait: Duration::from_millis(400),
    answer: Duration::from_millis(1_500),
    busy,
    slow: Some(slow),
    rests: true,
};

fn busy() -> Error {
    Error::unavailable(
        "reads-busy",
        "the limit of reads that wait for the database is reached; try again",
    )
}

fn slow() -> Error {
    let message = "the list takes longer than allowed; narrow it with a filter, or order it by the time of creation";
    Error::unavailable("read-timeout", message)
}

/// Runs a list of several statements within the time that a list may take; beyond it, fails as a slow list (`read-timeout`).
pub(crate) async fn bounded_list<T>(list: impl Future<Output = Result<T>>) -> Result<T> {
    within_deadline(DEADLINE, list).await
}

fn within_deadline<T>(deadline: Duration, list: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
    tokio::time::timeout(deadline, list).map(|answer| answer.unwrap_or_else(|_| Err(slow())))
}

/// The connections for reads of the API. A read of rows by their key uses [`ReadPool::by_key`], every other one
/// [`ReadPool::lists`].
#[derive(Clone)]
pub(crate) struct ReadPool {
    by_key: Pool,
    lists: Pool,
}

impl ReadPool {
    /// Half of the `size` connections, at least one, are for reads by key. They are opened when they are needed.
    pub(crate) fn new(connector: &Connector, size: usize) -> Result<Self> {
        let lists = (size / 2).max(1);
        Ok(Self {
            by_key: Pool::bounded(connector, size.saturating_sub(lists).max(1), BY_KEY)?,
            lists: Pool::bounded(&connector.for_lists(LIST_TIMEOUT), lists, LISTS)?,
        })
    }

    /// For rows that a key names, at most some thousands.
    pub(crate) fn by_key(&self) -> &Pool {
        &self.by_key
    }

    /// For lists and searches. Every plan is made for its parameters, so that a filter that is not given costs nothing.
    pub(crate) fn lists(&self) -> &Pool {
        &self.lists
    }

    /// Closes all connections.
    pub(crate) fn close(&self) {
        self.by_key.close();
        self.lists.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_has_one_deadline_for_all_its_statements() {
        let endless = std::future::pending::<Result<()>>();
        let error = within_deadline(Duration::from_millis(1), endless).await.unwrap_err();
        assert_eq!(error.code(), "read-timeout");
        assert_eq!(bounded_list(async { Ok(1) }).await.unwrap(), 1);
        assert!(DEADLINE < Duration::from_secs(2) && LISTS.wait + LISTS.answer <= DEADLINE);
    }
}

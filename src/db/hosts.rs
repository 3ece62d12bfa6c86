//! The hosts of a database URL, of which one is the primary.
//!
//! A node needs the primary. A standby refuses the connection (`session/settle.sql`), and the next host is tried. The host
//! that answered last is tried first, so that an unresponsive one costs its timeout once, not for each connection.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};

use super::CONNECT_TIMEOUT;

/// How long one of several hosts may take while others are left: shorter than any timeout of a caller, so that the next call
/// prefers another host.
const HOST_TIMEOUT: Duration = Duration::from_millis(1500);

/// One configuration per host. Clones share which host is preferred.
#[derive(Clone)]
pub(super) struct Hosts {
    each: Vec<Config>,
    preferred: Arc<AtomicUsize>,
}

impl Hosts {
    pub(super) fn of(url: &Config) -> Self {
        Self {
            each: (0..url.get_hosts().len())
                .map(|place| host_config(url, place))
                .collect(),
            preferred: Arc::default(),
        }
    }

    /// Changes the configuration for each host.
    pub(super) fn configure(&mut self, change: impl FnMut(&mut Config)) {
        self.each.iter_mut().for_each(change);
    }

    /// Connects to the first host that can be used, in the order of the URL from the preferred one on.
    pub(super) async fn reach<T, F>(&self, attempt: impl Fn(Config) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let count = self.each.len();
        let first = self.preferred.load(Ordering::Relaxed).min(count);
        let order: Vec<usize> = (first..count).chain(0..first).collect();
        let Some((last, others)) = order.split_last() else {
            return attempt(Config::new()).await;
        };
        let timeout = (CONNECT_TIMEOUT / u32::try_from(count).unwrap_or(u32::MAX)).min(HOST_TIMEOUT);
        let mut best_error = None;
        for place in others {
            match tokio::time::timeout(timeout, attempt(self.config(*place))).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => {
                    tracing::debug!(host = place, %error, "a host of the database URL cannot be used; the next is tried");
                    best_error = Some(more_specific(best_error, error));
                }
                Err(_) => tracing::debug!(
                    host = place,
                    "a host of the database URL is unresponsive; the next is tried"
                ),
            }
            self.prefer_after(*place);
        }
        match attempt(self.config(*last)).await {
            Ok(connected) => Ok(connected),
            Err(error) => {
                self.prefer_after(*last);
                Err(more_specific(best_error, error))
            }
        }
    }

    fn config(&self, place: usize) -> Config {
        self.each.get(place).cloned().unwrap_or_default()
    }

    /// Prefers the host after this one, unless another connection has moved on already.
    fn prefer_after(&self, place: usize) {
        let next = (place + 1) % self.each.len().max(1);
        let (at, to) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.preferred.compare_exchange(place, next, at, to);
    }
}

/// The configuration of one host of a URL.
fn host_config(url: &Config, place: usize) -> Config {
    let mut config = Config::new();
    match url.get_hosts().get(place) {
        Some(Host::Tcp(name)) => {
            config.host(name);
        }
        Some(Host::Unix(path)) => {
            config.host_path(path);
        }
        None => {}
    }
    if let Some(address) = url.get_hostaddrs().get(place) {
        config.hostaddr(*address);
    }
    // A single port is that of all hosts.
    if let Some(port) = url.get_ports().get(place).or(url.get_ports().first()) {
        config.port(*port);
    }
    if let Some(user) = url.get_user() {
        config.user(user);
    }
    if let Some(password) = url.get_password() {
        config.password(password);
    }
    if let Some(name) = url.get_dbname() {
        config.dbname(name);
    }
    if let Some(options) = url.get_options() {
        config.options(options);
    }
    config
        .ssl_mode(url.get_ssl_mode())
        .ssl_negotiation(url.get_ssl_negotiation())
        .channel_binding(url.get_channel_binding())
        .load_balance_hosts(url.get_load_balance_hosts());
    config
}

/// The more specific of two hosts' errors: a refused password before a host that is down or a standby.
fn more_specific(kept: Option<Error>, error: Error) -> Error {
    let weight = |error: &Error| match error.code() {
        Some(code) if code.code().starts_with("28") => 3,
        Some(code) if *code != SqlState::READ_ONLY_SQL_TRANSACTION => 2,
        Some(_) => 1,
        None => 0,
    };
    match kept {
        Some(kept) if weight(&kept) >= weight(&error) => kept,
        _ => error,
    }
}

/// The error for a URL that asks for a standby.
pub(super) fn needs_primary(asked: &str) -> crate::Error {
    crate::Error::invalid(
        "invalid-database-url",
        format!(
            "a node writes, so it needs the primary, and {asked} asks for another server: leave it out; among \
             several hosts the primary is found"
        ),
    )
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::TestDatabase;

    /// Hosts on this machine with these ports, and the other settings of a database.
    fn hosts(database: &TestDatabase, ports: &[u16]) -> Hosts {
        let given: Config = database.url().parse().unwrap();
        let mut url = Config::new();
        for port in ports {
            url.host("127.0.0.1").port(*port);
        }
        url.user(given.get_user().unwrap())
            .password(given.get_password().unwrap_or_default())
            .dbname(given.get_dbname().unwrap());
        Hosts::of(&url)
    }

    async fn connect(hosts: &Hosts) -> Result<u16, Error> {
        let attempt = |config: Config| async move {
            drop(config.connect(tokio_postgres::NoTls).await?);
            Ok(config.get_ports()[0])
        };
        hosts.reach(attempt).await
    }

    fn port_of(database: &TestDatabase) -> u16 {
        database.url().parse::<Config>().unwrap().get_ports()[0]
    }

    #[tokio::test]
    async fn an_unresponsive_host_costs_its_timeout_once() {
        let database = TestDatabase::empty().await;
        let real = port_of(&database);
        // It accepts connections and never answers.
        let unresponsive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hosts = hosts(&database, &[unresponsive.local_addr().unwrap().port(), real]);
        for connector in [hosts.clone(), hosts.clone(), hosts] {
            assert_eq!(connect(&connector).await.unwrap(), real);
        }
        unresponsive.accept().await.unwrap();
        let again = tokio::time::timeout(Duration::from_millis(100), unresponsive.accept());
        assert!(again.await.is_err(), "it was tried again");
    }

    #[tokio::test]
    async fn the_most_specific_error_of_all_hosts_is_returned() {
        let database = TestDatabase::empty().await;
        let down = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let mut hosts = hosts(&database, &[port_of(&database), down, down]);
        hosts.configure(|config| {
            config.dbname("there_is_no_such_database");
        });
        for _ in 0..3 {
            let error = connect(&hosts).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::INVALID_CATALOG_NAME), "{error:?}");
        }
        // No host, no panic.
        assert!(connect(&Hosts::of(&Config::new())).await.is_err());
    }
}

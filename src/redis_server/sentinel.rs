//! Sentinels: which server is the master, and when another one becomes the master.

use std::time::Duration;

use tokio::sync::watch;

use super::address::{AddressKind, RedisAddress};
use super::connection::{Endpoint, refused, unavailable};
use crate::{Error, Result};

/// Between two tries to subscribe at a sentinel.
const RESUBSCRIBE: Duration = Duration::from_secs(1);
/// A subscription without a message for so long is checked.
const SILENCE: Duration = Duration::from_secs(10);

/// The host and port of the master, from the first sentinel that knows it.
///
/// # Errors
/// `redis-refused` if sentinels answer and none knows the name, `redis-unavailable` if none answers.
pub(super) async fn master(address: &RedisAddress, service: &str) -> Result<(String, u16)> {
    let mut missing = None;
    let mut away = None;
    for (host, port) in &address.hosts {
        let place = format!("{host}:{port}");
        match ask(address, host, *port, service).await {
            Ok(Some(master)) => return Ok(master),
            Ok(None) => missing = Some(place),
            Err(error) if error.is_unavailable() => away = Some(error),
            // A wrong password is the same at each.
            Err(error) => return Err(error),
        }
    }
    match (missing, away) {
        (Some(place), _) => Err(Error::invalid(
            "redis-refused",
            format!(
                "the sentinel {place} does not know a master `{service}`: correct `serviceName`, or the name of the \
                 sentinels"
            ),
        )),
        (None, Some(error)) => Err(error),
        (None, None) => Err(unavailable("behind the sentinels", "no sentinel is named")),
    }
}

async fn ask(address: &RedisAddress, host: &str, port: u16, service: &str) -> Result<Option<(String, u16)>> {
    let endpoint = endpoint(address, host, port).await?;
    let mut connection = endpoint.open().await?;
    let answered = redis::cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(service)
        .query_async::<Option<(String, u16)>>(&mut connection)
        .await;
    answered.map_err(|error| {
        if error.code() == Some("ERR") {
            let place = endpoint.place();
            let message =
                format!("{place} is not a sentinel: name the sentinels (often port 26379), or leave `serviceName` out");
            return Error::invalid("redis-refused", message);
        }
        refused(endpoint.place(), error)
    })
}

/// A sentinel as it can be used: it often has no password where the servers have one, so that it is tried without.
async fn endpoint(address: &RedisAddress, host: &str, port: u16) -> Result<Endpoint> {
    let open = address.sentinel(host, port, false)?;
    let mut connection = open.open().await?;
    match redis::cmd("PING").query_async::<String>(&mut connection).await {
        Ok(_) => Ok(open),
        Err(error) if error.code() == Some("NOAUTH") => address.sentinel(host, port, true),
        Err(error) => Err(refused(open.place(), error)),
    }
}

/// Counts up whenever a sentinel reports another master, or names another one than before. Never returns.
pub(super) async fn watch(address: impl Fn() -> Result<RedisAddress>, switched: watch::Sender<u64>) {
    let (mut next, mut known) = (0, None);
    loop {
        if let Ok(address) = address()
            && let AddressKind::Sentinels(service) = address.kind.clone()
            && let Some((host, port)) = address.hosts.get(next % address.hosts.len().max(1))
        {
            let reported = listen(&address, host, *port, &service, &switched, &mut known).await;
            if let Err(error) = reported {
                tracing::debug!(%error, "a sentinel does not report another master; the next one is asked");
            }
        }
        next += 1;
        tokio::time::sleep(RESUBSCRIBE.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

async fn listen(
    address: &RedisAddress,
    host: &str,
    port: u16,
    service: &str,
    switched: &watch::Sender<u64>,
    known: &mut Option<(String, u16)>,
) -> Result<()> {
    let endpoint = endpoint(address, host, port).await?;
    let mut subscriber = endpoint.subscribe(&["+switch-master"]).await?;
    // What was reported before the subscription was missed.
    if let Some(master) = ask(address, host, port, service).await?
        && known.replace(master.clone()).is_some_and(|before| before != master)
    {
        tracing::info!(service, "a sentinel names another master");
        switched.send_modify(|count| *count += 1);
    }
    loop {
        let Ok(message) = tokio::time::timeout(SILENCE, subscriber.next()).await else {
            if !subscriber.answers().await {
                return Err(unavailable(endpoint.place(), "it is silent"));
            }
            continue;
        };
        let Some(message) = message else {
            return Err(unavailable(endpoint.place(), "it has closed the connection"));
        };
        // NAME OLD-IP OLD-PORT NEW-IP NEW-PORT
        let text: String = message.get_payload().unwrap_or_default();
        if text.split(' ').next() == Some(service) {
            tracing::info!(service, "a sentinel reports another master");
            *known = new_master(&text);
            switched.send_modify(|count| *count += 1);
        }
    }
}

/// The new master in a report of another one.
fn new_master(report: &str) -> Option<(String, u16)> {
    let mut words = report.split(' ').skip(3);
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_master_is_the_second_server_of_a_report() {
        let report = "mymaster 127.0.0.1 6379 10.0.0.7 6380";
        assert_eq!(new_master(report), Some(("10.0.0.7".to_owned(), 6380)));
        for other in ["", "mymaster", "mymaster a 1 b", "mymaster a 1 b port"] {
            assert_eq!(new_master(other), None, "{other}");
        }
    }
}

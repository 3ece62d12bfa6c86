//! `mainspring serve`: a node of the engine on a database, with the REST door.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::say;
use super::secret::Secret;
use super::settings::{Common, Serve};
use super::stop;
use crate::api::{self, ApiKey, ApiOptions};
use crate::runtime::{Engine, EngineBuilder};

/// The least that the engine gets to leave in good order, also if requests took all of the drain timeout.
const LEAST_TO_LEAVE: Duration = Duration::from_secs(2);

pub(super) async fn run(common: &Common, settings: &Serve) -> Result<(), Failure> {
    settings.check()?;
    let url = common.database_url()?;
    let stop = stop::on_signals()?;
    // A taken address shall be told before the node registers. Who connects early waits in the kernel's queue.
    let listener = listen(settings.listen).await?;
    let engine = tokio::select! {
        engine = builder(url, common, settings).start() => engine?,
        () = stop.cancelled() => return Ok(()),
    };
    let options = ApiOptions {
        listen: address_of(&listener)?,
        allowed_hosts: settings.allowed_host.clone(),
        api_key: settings.api_key.as_ref().map(Secret::reveal).map(ApiKey::new),
        requests: settings.max_requests,
        body_timeout: settings.body_timeout,
    };
    say(&format!("ready {}", url_of(options.listen)));
    answer(engine, listener, options, &stop, settings.drain_timeout).await
}

fn builder(url: &str, common: &Common, settings: &Serve) -> EngineBuilder {
    let builder = Engine::builder(url)
        .schema(&common.schema)
        .migrate(!settings.no_migrate)
        .workers(settings.workers)
        .pool_size(settings.pool_size)
        .check_in(settings.check_in)
        .tolerance(settings.tolerance)
        .answer_timeout(settings.answer_timeout)
        .drain_timeout(settings.drain_timeout)
        .inbox_lifetime(settings.inbox_lifetime);
    match &settings.node_id {
        Some(name) => builder.node_id(name),
        None => builder,
    }
}

/// Takes the address.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!(
            "cannot listen on {address}: {error}; --listen names another address"
        ))
    })
}

/// The address that was really taken.
pub(super) fn address_of(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener
        .local_addr()
        .map_err(|error| Failure::failed(format!("the listener has no address: {error}")))
}

/// Where this machine reaches the server.
pub(super) fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("http://{address}")
}

/// Serves until asked to stop: then no new requests, then the engine leaves, both within the drain timeout.
pub(super) async fn answer(
    engine: Engine,
    listener: TcpListener,
    options: ApiOptions,
    stop: &CancellationToken,
    drain: Duration,
) -> Result<(), Failure> {
    let router = api::router(engine.clone(), options);
    let mut stopping = None;
    let asked = async {
        stop.cancelled().await;
        tracing::info!("stopping");
        stopping = Some(Instant::now());
    };
    let served = api::serve(listener, router, asked, drain).await;
    let left = drain
        .saturating_sub(stopping.map_or(Duration::ZERO, |began| began.elapsed()))
        .max(LEAST_TO_LEAVE);
    if tokio::time::timeout(left, engine.shutdown()).await.is_err() {
        tracing::warn!(
            "the engine's work did not end within the drain timeout; it goes on elsewhere, or at the next start"
        );
    }
    served.map_err(|error| Failure::failed(format!("the server ended: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_can_be_called() {
        let url = |address: &str| url_of(address.parse().unwrap());
        assert_eq!(url("127.0.0.1:5001"), "http://127.0.0.1:5001");
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1:80");
        assert_eq!(url("[::]:80"), "http://[::1]:80");
        assert_eq!(url("10.0.0.7:80"), "http://10.0.0.7:80");
    }
}

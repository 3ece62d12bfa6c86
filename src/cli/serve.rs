//! `mainspring serve`: a node of the engine on a database, with the REST door.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::probe::{self, Probe};
use super::settings::{Common, RoleName, Serve};
use crate::api::{self, ApiKey, ApiOptions, ConnectionLimits};
use crate::harness::failure::Failure;
use crate::harness::say;
use crate::harness::secret::Secret;
use crate::harness::stop;
use crate::harness::work_activity::Work;
use crate::runtime::{Engine, EngineBuilder, Role};

/// What is kept of the drain timeout for handing back what did not end in time.
const TO_HAND_BACK: Duration = Duration::from_secs(1);

/// How long the engine may take to leave beyond the drain timeout, while the database is slow. What it had claimed goes
/// on elsewhere in any case, and later if it was not handed back.
const TO_LEAVE: Duration = Duration::from_secs(6);

/// Open files that a node needs beside its pool and the connections of its clients: sessions, lanes and hints of the database,
/// probes of health, and what the process has of its own.
const OTHER_FILES: usize = 64 + probe::CONNECTIONS;

/// Between two looks whether the database is there.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn run(common: &Common, settings: &Serve) -> Result<(), Failure> {
    common.elsa.tell()?;
    settings.check()?;
    if settings.is_open() {
        tracing::warn!(
            "anybody who reaches {} may do everything, as --allow-anonymous says; an --api-key ends that",
            settings.listen
        );
    }
    let url = common.database_url()?;
    let stop = stop::on_signals()?;
    if settings.child.stop_with_stdin {
        stop::with_stdin(&stop);
    }
    // A taken address shall be told before the node registers. Who connects early waits in the kernel's queue.
    let listener = listen(settings.listen).await?;
    let probe = settings.health_listen.map(Probe::start).transpose()?;
    let engine = tokio::select! {
        engine = start(&url, common, settings) => engine?,
        () = stop.cancelled() => return Ok(()),
    };
    if let Some(probe) = &probe {
        probe.watch(&engine);
    }
    let options = ApiOptions {
        listen: address_of(&listener)?,
        allowed_hosts: settings.allowed_host.clone(),
        api_key: settings.api_key.as_ref().map(Secret::reveal).map(ApiKey::new),
        requests: settings.max_requests,
        body_timeout: settings.body_timeout,
        body_memory: settings.body_memory,
    };
    say(&format!("ready {}", url_of(options.listen)));
    let drain = Drain {
        notice: settings.drain_notice,
        timeout: settings.drain_timeout,
    };
    let router = if settings.roles.contains(&RoleName::Api) {
        api::router(engine.clone(), options)
    } else {
        api::health_router(engine.clone(), options)
    };
    let limits = ConnectionLimits::beside(settings.pool_size + OTHER_FILES);
    tracing::info!(
        connections = limits.most,
        "the limit of connections, as that of open files allows"
    );
    answer(engine, listener, limits, router, &stop, drain).await
}

/// Starts the engine, and waits for its database as long as the settings say: a database that was started together with
/// this node needs its time.
async fn start(url: &str, common: &Common, settings: &Serve) -> crate::Result<Engine> {
    let began = Instant::now();
    loop {
        let error = match builder(url, common, settings).start().await {
            Ok(engine) => return Ok(engine),
            Err(error) => error,
        };
        let away = ["database-unavailable", "database-timeout", "database-read-only"].contains(&error.code());
        let left = settings.database_wait.saturating_sub(began.elapsed());
        if !away || left.is_zero() {
            return Err(error);
        }
        tracing::warn!(%error, seconds_left = left.as_secs(), "waiting for the database");
        tokio::time::sleep(LOOK_AGAIN.min(left)).await;
    }
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
        .activity_timeout(settings.activity_timeout)
        .drain_timeout(settings.drain_timeout)
        .inbox_lifetime(settings.inbox_lifetime)
        .letter_lifetime(settings.letter_lifetime)
        .roles(settings.roles.iter().copied().map(Role::from))
        .single_scheduler(settings.single_scheduler)
        .cache_bytes(settings.limits.cache_bytes())
        .interpreter(settings.limits.interpreter());
    let builder = match settings.token_secret.as_ref().map(Secret::reveal) {
        Some(secret) => builder.token_secret(secret),
        None => builder,
    };
    let builder = if settings.child.bench_activities {
        builder.activity(Work)
    } else {
        builder
    };
    let builder = settings
        .disable_activity
        .iter()
        .fold(builder, |builder, type_name| builder.disable_activity(type_name));
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

/// How a node ends.
#[derive(Clone, Copy)]
pub(super) struct Drain {
    /// How long it goes on answering when it is no longer ready, if there are other nodes.
    pub(super) notice: Duration,
    /// How long all of it may take.
    pub(super) timeout: Duration,
}

/// Serves until asked to stop: then not ready but still serving, then no new requests, then the engine leaves, all
/// within the drain timeout.
pub(super) async fn answer(
    engine: Engine,
    listener: TcpListener,
    limits: ConnectionLimits,
    router: axum::Router,
    stop: &CancellationToken,
    drain: Drain,
) -> Result<(), Failure> {
    let mut stopping = None;
    let asked = async {
        stop.cancelled().await;
        tracing::info!("stopping");
        stopping = Some(Instant::now());
        if engine.retreat() {
            tokio::time::sleep(drain.notice.min(drain.timeout)).await;
        }
    };
    let time = drain.timeout.saturating_sub(drain.notice);
    let served = api::serve_within(limits, listener, router, asked, time).await;
    let left = drain
        .timeout
        .saturating_sub(stopping.map_or(Duration::ZERO, |began| began.elapsed()))
        .saturating_sub(TO_HAND_BACK);
    if tokio::time::timeout(left + TO_LEAVE, engine.shutdown_within(left))
        .await
        .is_err()
    {
        tracing::warn!(
            "the engine could not leave in good order within the drain timeout; its work goes on elsewhere, or at the next start"
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

//! `mainspring serve`: a node of the engine on a database, with the REST API.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::health_server::{self, HealthServer};
use super::recorder::MetricsRecorder;
use super::services::OpenedServices;
use super::settings::{Common, RoleName, Serve, WebhooksOfFile};
use super::trace_export::TraceExport;
use crate::api::{self, ApiKey, ApiOptions, ConnectionLimits, ServerOptions};
use crate::harness::failure::{Failure, HUNG};
use crate::harness::print_line;
use crate::harness::stop::{self, Shutdown};
use crate::harness::work_activity::WorkActivity;
use crate::http::{Listening, serve_until};
use crate::runtime::{Engine, EngineBuilder, Role};

/// The part of the drain timeout that is reserved for the release of unfinished claims.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// How long leaving the cluster may take beyond the drain timeout if the database is slow; not used if the threads of the
/// runtime hang. Claims that are not released by then are taken over when the process has ended.
const LEAVE_TIME: Duration = Duration::from_secs(6);

/// Open files of a node besides its pool and its client connections: database sessions, health connections, and files of the
/// process.
const OTHER_FILES: usize = 64 + health_server::CONNECTIONS;

/// The interval of the retries while the database is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn run(common: &Common, settings: &Serve) -> Result<(), Failure> {
    let services = &settings.services;
    common.elsa.report(services.uses_redis(), services.uses_rabbitmq())?;
    settings.check()?;
    let webhooks = settings.webhooks.read()?;
    let issuers = settings.openid.read()?;
    settings.listener.warn();
    let mut server = settings.listener.options()?;
    let url = common.database_url()?;
    let stop = stop::on_signals()?;
    stop.limit(settings.drain_timeout.max(RELEASE_TIME));
    if settings.stop_with_stdin {
        stop::on_stdin_end(&stop);
    }
    // An address in use fails before the node registers. Early connections wait in the kernel's backlog.
    let listener = listen(settings.listen).await?;
    let recorder = if settings.no_metrics {
        None
    } else {
        Some(MetricsRecorder::install()?)
    };
    let metrics = recorder.as_ref().map(MetricsRecorder::text);
    let health = settings.health_listen;
    let health = health.map(|address| HealthServer::start(address, metrics.clone()));
    let health = health.transpose()?;
    let services = tokio::select! {
        services = OpenedServices::open(&settings.services, &common.elsa, &common.schema) => services?,
        () = stop.requested() => return Ok(()),
    };
    let traces = TraceExport::start(common, settings)?;
    let providers = |builder| traces.apply(services.clone().apply(builder));
    let engine = tokio::select! {
        engine = start(&url, common, settings, &providers, &webhooks) => engine?,
        () = stop.requested() => return Ok(()),
    };
    if let Err(failure) = check_callers(&engine, settings).await {
        engine.shutdown().await;
        return Err(failure);
    }
    if let Some(health) = &health {
        health.watch(&engine);
    }
    let options = ApiOptions {
        listen: address_of(&listener)?,
        allowed_hosts: settings.allowed_host.clone(),
        cors_origins: settings.cors_origin.clone(),
        studio: settings.studio.studio(),
        studio_polls: settings.studio.polls(),
        api_key: settings.api_key().map(ApiKey::new),
        issuers,
        max_requests: settings.max_requests,
        body_timeout: settings.body_timeout,
        body_memory_mib: settings.body_memory,
        http_body_mib: settings.http.http_body_mib,
        metrics,
    };
    let scheme = if settings.listener.is_encrypted() {
        "https"
    } else {
        "http"
    };
    print_line(&format!("ready {}", url_of(scheme, options.listen)));
    let drain = Drain {
        notice: settings.drain_notice,
        timeout: settings.drain_timeout,
    };
    let router = if settings.roles.contains(&RoleName::Api) {
        api::router(engine.clone(), options)
    } else {
        api::health_router(engine.clone(), options)
    };
    let reserved = settings.pool_size + settings.read_pool_size + OTHER_FILES + services.files();
    server.limits = ConnectionLimits::with_reserved_files(reserved);
    tracing::info!(
        connections = server.limits.max_connections,
        "connection limit, derived from the limit of open files"
    );
    let served = serve_until_stopped(engine, listener, server, router, &stop, drain).await;
    traces.finish().await;
    served
}

/// Refuses to serve others without a credential, and warns of what permits more than it should.
async fn check_callers(engine: &Engine, settings: &Serve) -> Result<(), Failure> {
    let has_credentials = engine.has_callers().await? || settings.openid.is_given();
    settings.check_open(has_credentials)?;
    if settings.is_open(has_credentials) {
        tracing::warn!(
            "{} accepts all requests without a key (--allow-anonymous); add a user or give an --api-key to restrict it",
            settings.listen
        );
    }
    Ok(())
}

/// Starts the engine. Retries for `--database-wait` while the database is unavailable, as when both start together.
async fn start(
    url: &str,
    common: &Common,
    settings: &Serve,
    providers: &impl Fn(EngineBuilder) -> EngineBuilder,
    webhooks: &WebhooksOfFile,
) -> crate::Result<Engine> {
    let began = Instant::now();
    loop {
        let builder = providers(builder(url, common, settings));
        let builder = with_webhooks(builder, settings, webhooks.clone());
        let error = match builder.start().await {
            Ok(engine) => return Ok(engine),
            Err(error) => error,
        };
        let unavailable = ["database-unavailable", "database-timeout", "database-read-only"].contains(&error.code());
        let left = settings.database_wait.saturating_sub(began.elapsed());
        if !unavailable || left.is_zero() {
            return Err(error);
        }
        tracing::warn!(%error, seconds_left = left.as_secs(), "waiting for the database");
        tokio::time::sleep(RETRY_INTERVAL.min(left)).await;
    }
}

fn with_webhooks(builder: EngineBuilder, settings: &Serve, of_file: WebhooksOfFile) -> EngineBuilder {
    let builder = builder
        .webhook_timeout(settings.webhooks.webhook_timeout)
        .webhook_lifetime(settings.webhooks.webhook_lifetime)
        .webhook_sources(of_file.sources);
    match of_file.sinks {
        Some(sinks) => builder.webhook_sinks(sinks),
        None => builder,
    }
}

fn mib(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(1 << 20)
}

fn builder(url: &str, common: &Common, settings: &Serve) -> EngineBuilder {
    let builder = end_when_hung(Engine::builder(url))
        .schema(&common.schema)
        .migrate(!settings.no_migrate)
        .workers(settings.workers)
        .pool_size(settings.pool_size)
        .read_pool_size(settings.read_pool_size)
        .check_in(settings.check_in)
        .tolerance(settings.tolerance)
        .answer_timeout(settings.answer_timeout)
        .drain_timeout(settings.drain_timeout)
        .inbox_lifetime(settings.inbox_lifetime)
        .inbox_bytes(mib(settings.inbox_mib), mib(settings.inbox_mib_per_name))
        .dead_letter_lifetime(settings.dead_letter_lifetime)
        .audit_lifetime(settings.audit_lifetime)
        .require_https_links(settings.require_https_links)
        .samples_cluster(!settings.no_metrics)
        .roles(settings.roles.iter().copied().map(Role::from))
        .single_scheduler(settings.single_scheduler)
        .cache_bytes(settings.limits.cache_bytes())
        .claimed_bytes(settings.limits.claimed_bytes())
        .interpreter(settings.limits.interpreter())
        .activity_timeout(settings.activity_timeout)
        .flowchart_mode(settings.flowchart_mode.into())
        .identity_settings(settings.identity_settings())
        .http(settings.http.options(settings.public_url.as_deref()))
        .access_token_lifetime(settings.identity.access_token_lifetime)
        .refresh_token_lifetime(settings.identity.refresh_token_lifetime);
    let builder = match settings.identity.admin_password() {
        Some(password) => builder.admin_password(password),
        None => builder,
    };
    let builder = settings.mail.apply(&common.elsa, builder);
    let builder = match settings.token_secret() {
        Some(secret) => builder.token_secret(secret),
        None => builder,
    };
    let builder = match &settings.public_url {
        Some(url) => builder.public_url(url),
        None => builder,
    };
    let builder = if settings.bench_activities {
        builder.activity(WorkActivity)
    } else {
        builder
    };
    #[cfg(feature = "failpoints")]
    let builder = match crate::harness::call_activity::CallActivity::of_environment() {
        Some(call) => builder.activity(call),
        None => builder,
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

/// A node that hangs ends the process: its other threads may never do anything again.
pub(super) fn end_when_hung(builder: EngineBuilder) -> EngineBuilder {
    builder.on_hang(|hang| stop::end_process(HUNG, format!("this node hangs and ends: {hang}")))
}

/// Takes the address.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!(
            "cannot listen on {address}: {error}; --listen names another address"
        ))
    })
}

/// The address that was actually taken.
pub(super) fn address_of(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener
        .local_addr()
        .map_err(|error| Failure::failed(format!("the listener has no address: {error}")))
}

/// The URL at which this machine reaches the server.
pub(super) fn url_of(scheme: &str, mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("{scheme}://{address}")
}

/// The shutdown of a node.
#[derive(Clone, Copy)]
pub(super) struct Drain {
    /// How long it serves requests while it reports not ready, if there are other nodes.
    pub(super) notice: Duration,
    /// The timeout of the whole shutdown.
    pub(super) timeout: Duration,
}

/// Serves until `stop` is cancelled, or no thread for scripts is left. The shutdown then reports not ready, stops accepting
/// requests, and leaves the cluster within the drain timeout. Without another node that serves, clients are told to come back, until
/// the requests in flight have ended.
pub(super) async fn serve_until_stopped(
    engine: Engine,
    listener: TcpListener,
    server: impl Into<ServerOptions>,
    router: axum::Router,
    stop: &Shutdown,
    drain: Drain,
) -> Result<(), Failure> {
    let (mut stopping, mut scripts_hang) = (None, false);
    let shutdown = async {
        tokio::select! {
            () = stop.requested() => tracing::info!("stopping"),
            () = engine.scripts_exhausted() => {
                scripts_hang = true;
                stop.request();
                tracing::error!("stopping, because eight threads hang in scripts that cannot be interrupted; other \
                                 nodes take over");
            }
        }
        stop.extend_limit(drain.timeout + LEAVE_TIME).await;
        stopping = Some(Instant::now());
        if engine.begin_drain() {
            tokio::time::sleep(drain.notice.min(drain.timeout)).await;
            Listening::Ends
        } else {
            engine.refuse_new();
            Listening::GoesOn
        }
    };
    let time = drain.timeout.saturating_sub(drain.notice);
    let served = serve_until(server, listener, router, shutdown, time).await;
    let left = drain
        .timeout
        .saturating_sub(stopping.map_or(Duration::ZERO, |began| began.elapsed()))
        .saturating_sub(RELEASE_TIME);
    if tokio::time::timeout(left + LEAVE_TIME, engine.shutdown_within(left))
        .await
        .is_err()
    {
        tracing::warn!(
            "the engine did not release its claims within the drain timeout; other nodes, or the next start, take them over"
        );
    }
    served.map_err(|error| Failure::failed(format!("the server stopped: {error}")))?;
    if scripts_hang {
        Err(Failure::scripts_hang())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_becomes_a_loopback_url() {
        let url = |address: &str| url_of("http", address.parse().unwrap());
        assert_eq!(url("127.0.0.1:5001"), "http://127.0.0.1:5001");
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1:80");
        assert_eq!(url("[::]:80"), "http://[::1]:80");
        assert_eq!(url("10.0.0.7:80"), "http://10.0.0.7:80");
    }
}

//! The RabbitMQ broker of the services that send notifications through it.

#[cfg(feature = "rabbitmq")]
use std::time::{Duration, Instant};

use crate::cli::elsa::ElsaEnvironment;
use crate::cli::settings::ServiceSettings;
#[cfg(feature = "rabbitmq")]
use crate::cli::settings::{SignalName, WakeName};
use crate::harness::failure::Failure;
#[cfg(feature = "rabbitmq")]
use crate::rabbitmq_server::RabbitServer;
#[cfg(feature = "rabbitmq")]
use crate::signal::RabbitSignal;
#[cfg(feature = "rabbitmq")]
use crate::wake::RabbitWake;

/// The retry interval while the broker is away.
#[cfg(feature = "rabbitmq")]
const RETRY: Duration = Duration::from_millis(500);

/// A broker that has answered.
#[cfg(feature = "rabbitmq")]
pub(super) struct Rabbit {
    pub(super) server: RabbitServer,
    pub(super) prefix: String,
}

/// It has no values without the feature.
#[cfg(not(feature = "rabbitmq"))]
pub(super) enum Rabbit {}

/// The error of a program that cannot use RabbitMQ.
pub(super) fn missing() -> Failure {
    Failure::usage(
        "this program was built without RabbitMQ: build it with `--features program`, or leave out --signal and --wake",
    )
}

#[cfg(not(feature = "rabbitmq"))]
#[allow(clippy::unused_async, reason = "the form that it has with RabbitMQ")]
pub(super) async fn open(_: &ServiceSettings, _: &ElsaEnvironment, _: &str) -> Result<Rabbit, Failure> {
    Err(missing())
}

/// Finds the broker, and waits for it for `service-wait`. Whatever others have declared there must fit.
#[cfg(feature = "rabbitmq")]
pub(super) async fn open(settings: &ServiceSettings, elsa: &ElsaEnvironment, schema: &str) -> Result<Rabbit, Failure> {
    let rabbitmq = &settings.rabbitmq;
    let given = rabbitmq.rabbitmq_url.clone().or_else(|| elsa.rabbitmq_url());
    let server = match (&rabbitmq.rabbitmq_url_file, given) {
        (Some(file), _) => RabbitServer::from_file(file)?,
        (None, Some(url)) => RabbitServer::parse(url.reveal())?,
        (None, None) => {
            return Err(Failure::usage(
                "RabbitMQ is selected: give a --rabbitmq-url, set rabbitmq-url-file, or give CONNECTIONSTRINGS__RABBITMQ",
            ));
        }
    };
    let prefix = rabbitmq.rabbitmq_prefix.as_deref().unwrap_or(schema).to_owned();
    let rabbit = Rabbit { server, prefix };
    let began = Instant::now();
    while let Err(error) = try_it(settings, &rabbit).await {
        let left = settings.service_wait.saturating_sub(began.elapsed());
        if !error.is_unavailable() || left.is_zero() {
            return Err(error.into());
        }
        tracing::warn!(%error, seconds_left = left.as_secs(), "waiting for RabbitMQ");
        tokio::time::sleep(RETRY.min(left)).await;
    }
    Ok(rabbit)
}

#[cfg(feature = "rabbitmq")]
async fn try_it(settings: &ServiceSettings, rabbit: &Rabbit) -> crate::Result<()> {
    if settings.wake == WakeName::Rabbitmq {
        RabbitWake::check(&rabbit.server, &rabbit.prefix).await?;
    }
    if settings.signal == SignalName::Rabbitmq {
        RabbitSignal::check(&rabbit.server, &rabbit.prefix).await?;
    }
    Ok(())
}

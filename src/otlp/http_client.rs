//! The requests to the collector, over the TLS that all requests of the program have.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

use crate::outgoing::tls_config;
use crate::{Error, Result};

/// How long the collector has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most of an answer that is read: it says how many spans were refused, and why.
const LARGEST: usize = 64 * 1024;

#[derive(Clone)]
pub(super) struct CollectorClient(reqwest::Client);

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CollectorClient")
    }
}

impl CollectorClient {
    pub(super) fn new() -> Result<Self> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls_config(None, "otlp-endpoint")?)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build();
        let client = client.map_err(|error| Error::internal("the client of spans cannot be made").caused_by(error))?;
        Ok(Self(client))
    }

    async fn send(&self, request: Request<Bytes>) -> std::result::Result<Response<Bytes>, HttpError> {
        let mut answer = self.0.execute(request.try_into()?).await?;
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await? {
            let room = LARGEST.saturating_sub(body.len());
            body.extend_from_slice(part.get(..room).unwrap_or(part.as_ref()));
            if body.len() >= LARGEST {
                break;
            }
        }
        Ok(Response::builder().status(answer.status()).body(body.into())?)
    }
}

/// As the macro `async_trait` has it.
impl HttpClient for CollectorClient {
    fn send_bytes<'life, 'future>(
        &'life self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Response<Bytes>, HttpError>> + Send + 'future>>
    where
        'life: 'future,
        Self: 'future,
    {
        Box::pin(self.send(request))
    }
}

//! The client of a node: one pool of connections for all workflows.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Proxy, Response, Url};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::message::{OutgoingRequest, OutgoingResponse};
use super::options::OutgoingOptions;
use super::redirect::NextHop;
use super::resolver::{CheckedResolver, Lookup, LookupError, ProxyResolver, SystemLookup};
use super::rules::TargetRules;
use super::send_error::SendError;
use super::tls::{check_roots, tls_config};
use crate::{Error, Result};

/// What a target learns about the client.
const AGENT: &str = concat!("Mainspring/", env!("CARGO_PKG_VERSION"));

/// The setting of a file with further roots.
const ROOTS: &str = "http-root-certificates";

/// How long a connection without a request is kept, less than most servers keep it: a request on a connection that its
/// server closes at this moment fails.
const IDLE: Duration = Duration::from_secs(30);

/// The most connections without a request that are kept for one target: as many as one sink of webhooks is sent deliveries at once, each
/// of which would open a connection otherwise.
const IDLE_PER_TARGET: usize = 128;

/// The largest headers of an answer over HTTP/2, in bytes.
const LARGEST_HEADERS: u32 = 256 << 10;

/// How long a URL that is registered waits for the lookup of its host.
const ADMIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest URL, in bytes.
const LONGEST_URL: usize = 32 << 10;

/// Sends the requests of workflows. Clones are the same client.
#[derive(Clone)]
pub(crate) struct OutgoingClient(Arc<Shared>);

struct Shared {
    options: OutgoingOptions,
    resolver: CheckedResolver,
    no_proxy: TargetRules,
    /// Made for the first request: it reads the certificates of the system.
    clients: OnceCell<Clients>,
}

struct Clients {
    direct: reqwest::Client,
    proxied: Option<reqwest::Client>,
}

impl fmt::Debug for OutgoingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingClient").finish_non_exhaustive()
    }
}

impl Default for OutgoingClient {
    fn default() -> Self {
        Self::made(
            OutgoingOptions::default(),
            TargetRules::default(),
            TargetRules::default(),
            None,
        )
    }
}

impl OutgoingClient {
    /// A client with these options.
    /// Errors: `invalid-settings` for an entry that is no target, and for a proxy that is no URL.
    pub(crate) fn new(options: OutgoingOptions) -> Result<Self> {
        Self::with_lookup(options, None)
    }

    pub(super) fn with_lookup(options: OutgoingOptions, lookup: Option<Arc<dyn Lookup>>) -> Result<Self> {
        let invalid = |name: &str, problem: String| {
            let message = format!("the setting {name} cannot be used: {problem}");
            Error::invalid("invalid-settings", message)
        };
        let rules = TargetRules::read(&options.allowed_targets, &options.denied_targets, options.deny_private)
            .map_err(|problem| invalid("http-allowed-target or http-denied-target", problem))?;
        let no_proxy =
            TargetRules::read(&[], &options.no_proxy, false).map_err(|problem| invalid("http-no-proxy", problem))?;
        if let Some(proxy) = &options.proxy {
            proxy_of(proxy).map_err(|problem| invalid("http-proxy", problem))?;
        }
        if options.timeout.is_zero() {
            return Err(invalid("http-timeout", "it must be longer than zero".to_owned()));
        }
        if let Some(file) = &options.root_certificates {
            check_roots(file, ROOTS)?;
        }
        Ok(Self::made(options, rules, no_proxy, lookup))
    }

    fn made(
        options: OutgoingOptions,
        rules: TargetRules,
        no_proxy: TargetRules,
        lookup: Option<Arc<dyn Lookup>>,
    ) -> Self {
        Self(Arc::new(Shared {
            options,
            resolver: CheckedResolver {
                lookup: lookup.unwrap_or_else(|| Arc::new(SystemLookup::default())),
                rules: Arc::new(rules),
            },
            no_proxy,
            clients: OnceCell::new(),
        }))
    }

    /// A client for servers that the settings name, with the proxy and the roots of this one. The rules of targets are those of
    /// workflows, whose URLs their authors choose.
    pub(crate) fn for_named_servers(&self) -> Self {
        let Shared {
            options,
            no_proxy,
            resolver,
            ..
        } = &*self.0;
        let lookup = Some(Arc::clone(&resolver.lookup));
        Self::made(options.clone(), TargetRules::default(), no_proxy.clone(), lookup)
    }

    pub(crate) fn options(&self) -> &OutgoingOptions {
        &self.0.options
    }

    /// Sends a request, follows its redirects, and returns the answer that is none, or the last one where they are too many.
    pub(crate) async fn send(
        &self,
        request: OutgoingRequest,
        timeout: Duration,
    ) -> std::result::Result<OutgoingResponse, SendError> {
        self.send_following(request, timeout, self.0.options.redirects).await
    }

    /// The same, but an answer that is a redirect is the answer.
    pub(crate) async fn send_once(
        &self,
        request: OutgoingRequest,
        timeout: Duration,
    ) -> std::result::Result<OutgoingResponse, SendError> {
        self.send_following(request, timeout, 0).await
    }

    /// Whether the rules admit a URL, as far as they can say now: a name that cannot be looked up may be admitted later.
    /// Errors: Why not.
    pub(crate) async fn admits(&self, url: &Url) -> std::result::Result<(), String> {
        let clients = self.clients().await.map_err(|error| error.to_string())?;
        self.admitted(clients, url).await.map_err(|error| error.to_string())?;
        let Some(name) = url.domain() else {
            return Ok(());
        };
        let looked_up = tokio::time::timeout(ADMIT_TIMEOUT, self.0.resolver.resolve_checked(name)).await;
        match looked_up {
            Ok(Err(LookupError::Refused(refused))) => Err(refused.0),
            _ => Ok(()),
        }
    }

    /// The same without a lookup: of a name what the rules say of the name. Returns the address that a URL has in place of one.
    /// Errors: Why not.
    pub(crate) fn admits_unresolved(&self, url: &Url) -> std::result::Result<Option<IpAddr>, String> {
        if url.as_str().len() > LONGEST_URL {
            return Err(format!("the URL has more than {LONGEST_URL} bytes"));
        }
        let rules = &self.0.resolver.rules;
        let host = url.host_str().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address: Option<IpAddr> = bare.unwrap_or(host).parse().ok();
        match address {
            // The client connects to an address without a lookup.
            Some(address) => rules.admit_address(&address.to_string(), address)?,
            None => rules.admit_name(host)?,
        }
        Ok(address)
    }

    async fn send_following(
        &self,
        request: OutgoingRequest,
        timeout: Duration,
        redirects: u32,
    ) -> std::result::Result<OutgoingResponse, SendError> {
        let deadline = Instant::now() + timeout;
        let sent = tokio::time::timeout_at(deadline, self.follow(request, redirects)).await;
        let response = sent.map_err(|_| SendError::TimedOut(timeout))??;
        Ok(OutgoingResponse {
            response,
            limit: self.0.options.response_bytes,
            read: 0,
            timeout,
            deadline,
        })
    }

    async fn follow(&self, request: OutgoingRequest, mut left: u32) -> std::result::Result<Response, SendError> {
        let clients = self.clients().await?;
        let OutgoingRequest {
            mut method,
            mut url,
            mut headers,
            mut body,
        } = request;
        take_credentials(&mut url, &mut headers)?;
        loop {
            let client = self.admitted(clients, &url).await?;
            let mut hop = reqwest::Request::new(method.clone(), url.clone());
            *hop.headers_mut() = headers.clone();
            if let Some((content, length)) = body.open().await? {
                if let Some(length) = length {
                    hop.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
                }
                *hop.body_mut() = Some(content);
            }
            let response = client.execute(hop).await.map_err(SendError::of)?;
            let next = NextHop::of(response.status(), response.headers().get(LOCATION), &url, &method);
            let Some(next) = next.filter(|_| left > 0) else {
                return Ok(response);
            };
            left -= 1;
            next.filter(&url, &mut headers);
            if !next.keeps_body {
                body = Default::default();
            }
            (url, method) = (next.url, next.method);
        }
    }

    /// The client for a URL whose target is admitted.
    async fn admitted<'c>(
        &self,
        clients: &'c Clients,
        url: &Url,
    ) -> std::result::Result<&'c reqwest::Client, SendError> {
        let Shared { resolver, no_proxy, .. } = &*self.0;
        let host = url.host_str().unwrap_or_default();
        let address = self.admits_unresolved(url).map_err(SendError::Refused)?;
        let Some(proxied) = &clients.proxied else {
            return Ok(&clients.direct);
        };
        let is_direct = match address {
            Some(address) => no_proxy.lists_address(address),
            None => no_proxy.admit_name(host).is_err(),
        };
        if is_direct {
            return Ok(&clients.direct);
        }
        // The proxy looks the name up again: this one denies what is known here, and the proxy the rest.
        if address.is_none()
            && let Err(LookupError::Refused(refused)) = resolver.resolve_checked(host).await
        {
            return Err(SendError::Refused(refused.0));
        }
        Ok(proxied)
    }

    async fn clients(&self) -> std::result::Result<&Clients, SendError> {
        let shared = Arc::clone(&self.0);
        let make = || async move {
            let made = tokio::task::spawn_blocking(move || Clients::make(&shared)).await;
            made.map_err(|error| Error::internal("the client of requests panicked").caused_by(error))?
        };
        let made = self.0.clients.get_or_try_init(make).await;
        made.map_err(|error| SendError::Refused(error.to_string()))
    }
}

impl Clients {
    fn make(shared: &Shared) -> Result<Self> {
        let options = &shared.options;
        let mut tls = tls_config(options.root_certificates.as_deref(), ROOTS)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let builder = || {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .default_headers(headers)
                .no_proxy()
                .redirect(Policy::none())
                .referer(false)
                .retry(reqwest::retry::never())
                .http2_max_header_list_size(LARGEST_HEADERS)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(IDLE_PER_TARGET)
                .tcp_nodelay(true)
        };
        let build = |builder: ClientBuilder| {
            let built = builder.build();
            built.map_err(|error| Error::internal("the client of requests cannot be made").caused_by(error))
        };
        let direct = build(builder().dns_resolver(shared.resolver.clone()))?;
        let through = |proxy: &String| {
            let proxy = proxy_of(proxy).map_err(|problem| Error::invalid("invalid-settings", problem))?;
            let resolver = ProxyResolver(Arc::clone(&shared.resolver.lookup));
            build(builder().dns_resolver(resolver).proxy(proxy))
        };
        let proxied = options.proxy.as_ref().map(through).transpose()?;
        Ok(Self { direct, proxied })
    }
}

/// Errors: What is wrong with the URL, without quoting it: it may have a password.
fn proxy_of(url: &str) -> std::result::Result<Proxy, String> {
    let is_http = Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    let proxy = Proxy::all(url).ok().filter(|_| is_http);
    proxy.ok_or_else(|| "give the URL of a proxy, such as http://proxy.example:3128".to_owned())
}

/// Moves user and password of a URL into the header, as other clients do, unless there is one.
fn take_credentials(url: &mut Url, headers: &mut HeaderMap) -> std::result::Result<(), SendError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(());
    }
    let unusable =
        || SendError::Refused("the user and password in the URL cannot be sent; use Authorization".to_owned());
    if !headers.contains_key(AUTHORIZATION) {
        let user = percent_decode_str(url.username()).collect();
        let password = percent_decode_str(url.password().unwrap_or_default()).collect();
        let basic = format!("Basic {}", STANDARD.encode([user, b":".to_vec(), password].concat()));
        let mut value = HeaderValue::try_from(basic).map_err(|_| unusable())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    url.set_username("").map_err(|()| unusable())?;
    url.set_password(None).map_err(|()| unusable())
}

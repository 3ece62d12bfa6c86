//! Requests that come in and go out.

use super::Metric;
use super::entry::counter;

/// Why a credential is refused.
const REFUSALS: &[&str] = &["missing", "wrong", "expired", "wrong-use", "unavailable"];

/// What an attempt at a resume link came to: the words of the audit.
const LINK_OUTCOMES: &[&str] = &[
    "Accepted", "Used", "Expired", "Revoked", "Ended", "Unknown", "Refused", "Repeated", "Failed",
];

pub(super) const METRICS: [Metric; 14] = [
    counter(
        "mainspring_http_requests_total",
        "Requests to workflows behind URLs, by the class of their status",
        "5xx: read the log and the incidents; 4xx: clients send what no endpoint takes",
    )
    .by("status", &["1xx", "2xx", "3xx", "4xx", "5xx"]),
    counter(
        "mainspring_bodies_refused_total",
        "Bodies of requests that were refused before they were parsed",
        "Raise the memory for bodies, or send less at once",
    )
    .by("reason", &["memory", "too-many-values"]),
    counter(
        "mainspring_connections_ended_total",
        "Connections of clients that the node ended",
        "crowded: the limit of open files is too low; the others: clients that stall",
    )
    .by("reason", &["crowded", "head", "idle", "slow", "stalled"]),
    counter(
        "mainspring_tls_handshakes_failed_total",
        "Handshakes of TLS that failed",
        "Clients do not trust the certificate, or speak no TLS",
    ),
    counter(
        "mainspring_tls_reloads_total",
        "Times at which a changed certificate was read",
        "refused: the log says what is wrong with the pair; the old one stays in use",
    )
    .by("result", &["loaded", "refused"]),
    counter(
        "mainspring_credentials_refused_total",
        "Requests without a credential that is good",
        "A client guesses, or a key has expired: the log names it",
    )
    .by("reason", REFUSALS),
    counter(
        "mainspring_sign_ins_refused_total",
        "Passwords and refresh tokens that were refused",
        "wrong, too-many: a client guesses; reused: a refresh token was stolen, or a client sends it twice",
    )
    .by("reason", &["wrong", "too-many", "expired", "wrong-use", "reused"]),
    counter(
        "mainspring_tokens_refused_total",
        "Links and tokens that no key of this cluster has signed",
        "A client guesses, or a key was deleted too early",
    ),
    counter(
        "mainspring_resume_links_total",
        "Requests with a genuine resume link, by what came of them",
        "Expired, Used: links are opened late or twice",
    )
    .by("outcome", LINK_OUTCOMES),
    counter(
        "mainspring_webhook_attempts_total",
        "Attempts to deliver an event to a sink",
        "failed, gone: `GET /webhook-sinks` says which sink, and its last answer",
    )
    .by("result", &["delivered", "failed", "gone"]),
    counter(
        "mainspring_webhooks_refused_total",
        "Received webhooks that were ignored or refused",
        "signature: the secrets of the source and of this cluster differ; stale: a clock is wrong, or a message is replayed",
    )
    .by("reason", &["unknown", "signature", "stale"]),
    counter(
        "mainspring_outgoing_requests_total",
        "Requests that workflows sent to other servers",
        "failed, timeout: the server is away; refused: `outgoing` does not admit it",
    )
    .by("result", &["answered", "failed", "timeout", "refused", "too-large"]),
    counter(
        "mainspring_mails_total",
        "Mails that workflows sent",
        "unreachable, deferred: the mail server is away or busy; rejected: an address or the sender is wrong",
    )
    .by(
        "result",
        &["sent", "unreachable", "deferred", "rejected", "timeout", "in-doubt"],
    ),
    counter(
        "mainspring_signal_messages_dropped_total",
        "Cache notifications over Redis that were dropped, as too many waited; check-ins make up for them",
        "Redis is slow",
    ),
];

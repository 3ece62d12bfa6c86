//! An issuer: its document and keys, kept fresh by a task, and the verification of its tokens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::DatabaseTime;
use super::claims::ExternalUser;
use super::discovery::{self, IssuerDocument, REQUEST_TIMEOUT};
use super::options::IssuerOptions;
use super::token_problem::TokenProblem;
use super::web_key::WebKey;
use super::web_token::{TokenRules, WebToken};
use crate::outgoing::OutgoingClient;

/// When an issuer is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTimes {
    /// How old keys become before they are read again: so long a key that was rotated out is still taken.
    pub(super) refresh: Duration,
    /// The least time between two reads, whatever tokens ask for.
    pub(super) least_pause: Duration,
    /// The time before an issuer that is away is asked again: at first, and at most.
    pub(super) first_retry: Duration,
    pub(super) longest_retry: Duration,
    /// Keys of an issuer that is away are good for this time. Beyond it, a key may have been rotated out long ago.
    pub(super) keys_lifetime: Duration,
}

impl Default for ReadTimes {
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(300),
            least_pause: Duration::from_secs(10),
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(60),
            keys_lifetime: Duration::from_secs(24 * 3600),
        }
    }
}

/// How long a token with an unknown key waits for the keys to be read.
const KEY_WAIT: Duration = Duration::from_secs(3);

/// The most tokens that wait so at once; each holds the place of its request.
const MOST_WAITING: usize = 16;

/// The most requests to the issuer at once on behalf of browsers.
const MOST_REQUESTS: usize = 16;

/// What was read last.
#[derive(Clone, Debug)]
struct LastRead {
    document: Arc<IssuerDocument>,
    at: Instant,
}

/// What is known of an issuer.
#[derive(Clone, Debug, Default)]
struct IssuerState {
    last: Option<LastRead>,
    /// Why the last attempt failed.
    problem: Option<String>,
    /// When the last attempt ended, and how many there were.
    attempted: Option<Instant>,
    attempts: u64,
}

/// An issuer of tokens.
pub(crate) struct Issuer {
    pub(super) options: IssuerOptions,
    pub(super) client: OutgoingClient,
    pub(super) time: DatabaseTime,
    pub(super) requests: Semaphore,
    times: ReadTimes,
    state: watch::Sender<IssuerState>,
    /// A token has a key that is unknown.
    wanted: Notify,
    /// Those that wait for it: a flood of forged tokens takes no more places of requests.
    waiting: Semaphore,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer")
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}

impl Issuer {
    pub(crate) fn new(options: IssuerOptions, client: OutgoingClient, time: DatabaseTime) -> Self {
        Self::with_times(options, client, time, ReadTimes::default())
    }

    pub(super) fn with_times(
        options: IssuerOptions,
        client: OutgoingClient,
        time: DatabaseTime,
        times: ReadTimes,
    ) -> Self {
        Self {
            options,
            client,
            time,
            requests: Semaphore::new(MOST_REQUESTS),
            times,
            state: watch::Sender::default(),
            wanted: Notify::new(),
            waiting: Semaphore::new(MOST_WAITING),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// What people call it.
    pub(crate) fn title(&self) -> &str {
        self.options.title()
    }

    /// `iss` of its tokens.
    pub(crate) fn url(&self) -> &str {
        &self.options.issuer
    }

    /// Whether a browser can sign in with it.
    pub(crate) fn signs_in(&self) -> bool {
        self.options.sign_in.is_some()
    }

    /// Why the issuer is away: its document or its keys could not be read at the last attempt.
    pub(crate) fn problem(&self) -> Option<String> {
        self.state.borrow().problem.clone()
    }

    /// Reads document and keys, again and again, until it is dropped. The caller owns the task.
    pub(crate) async fn keep_read(self: Arc<Self>) {
        let times = self.times;
        let mut retry = times.first_retry;
        loop {
            let outcome = discovery::read(&self.client, &self.options).await;
            let pause = if outcome.is_ok() { times.refresh } else { retry };
            retry = match outcome {
                Ok(_) => times.first_retry,
                Err(_) => (retry * 2).min(times.longest_retry),
            };
            self.note(outcome);
            let ended = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => tokio::time::sleep_until(ended + times.least_pause.min(pause)).await,
            }
        }
    }

    fn note(&self, outcome: Result<IssuerDocument, String>) {
        let name = self.name();
        self.state.send_modify(|state| {
            let was_away = state.problem.take().is_some();
            state.attempted = Some(Instant::now());
            state.attempts += 1;
            match outcome {
                Ok(document) => {
                    if was_away {
                        tracing::info!(issuer = name, "the OpenID issuer answers again");
                    }
                    state.last = Some(LastRead {
                        document: Arc::new(document),
                        at: Instant::now(),
                    });
                }
                Err(problem) => {
                    if !was_away {
                        tracing::warn!(
                            issuer = name,
                            url = self.url(),
                            problem,
                            "the OpenID issuer is away: tokens of keys that are known are taken for a day, others are not"
                        );
                    }
                    state.problem = Some(problem);
                }
            }
        });
        let away = if self.state.borrow().problem.is_some() {
            1.0
        } else {
            0.0
        };
        metrics::gauge!("mainspring_openid_issuer_away", "issuer" => name.to_owned()).set(away);
    }

    /// The user whom an access token is about. Precondition: `iss` of the token is this issuer.
    pub(crate) async fn user_of(&self, token: &str) -> Result<ExternalUser, TokenProblem> {
        let token = WebToken::parse(token)?;
        self.verify(&token, &self.options.audiences).await?;
        ExternalUser::of(&self.options, &token.claims)
    }

    /// Verifies signature, issuer, audience and times.
    pub(super) async fn verify(&self, token: &WebToken<'_>, audiences: &[String]) -> Result<(), TokenProblem> {
        if token.claims.get("iss").and_then(serde_json::Value::as_str) != Some(self.url()) {
            return Err(TokenProblem::malformed("it is of another issuer"));
        }
        let keys = self.keys_for(token).await?;
        let message = token.message.as_bytes();
        let is_genuine = keys
            .iter()
            .any(|key| key.verifies(token.algorithm, message, &token.signature));
        if !is_genuine {
            return Err(TokenProblem::WrongSignature);
        }
        let now = (self.time)();
        let now = now.ok_or_else(|| TokenProblem::Unavailable("the time of the database is not known".to_owned()))?;
        let leeway = i64::try_from(self.options.leeway.as_secs()).unwrap_or(i64::MAX);
        token.check(&TokenRules { audiences, leeway, now })
    }

    /// The keys that may have signed a token; at least one.
    async fn keys_for(&self, token: &WebToken<'_>) -> Result<Vec<WebKey>, TokenProblem> {
        let mut state = self.state.subscribe();
        let (found, attempts, may_read) = {
            let state = state.borrow_and_update();
            let may_read = state.attempted.is_none_or(|at| at.elapsed() >= self.times.least_pause);
            let found = state.keys_for(token, self.times.keys_lifetime);
            (found, state.attempts, may_read || state.last.is_none())
        };
        if found.is_ok() || !may_read {
            return found;
        }
        let Ok(_place) = self.waiting.try_acquire() else {
            return found;
        };
        self.wanted.notify_one();
        let read = state.wait_for(|state| state.attempts != attempts);
        match tokio::time::timeout(KEY_WAIT, read).await {
            Ok(Ok(state)) => state.keys_for(token, self.times.keys_lifetime),
            _ => found,
        }
    }

    /// The document, as far as it was read.
    /// Errors: Why it was not.
    pub(super) fn document(&self) -> Result<Arc<IssuerDocument>, String> {
        let state = self.state.borrow();
        match &state.last {
            Some(last) => Ok(Arc::clone(&last.document)),
            None => Err(state.away()),
        }
    }

    /// How long a step of a sign-in may take, with the wait for its place.
    pub(super) const STEP_TIMEOUT: Duration = REQUEST_TIMEOUT;
}

impl IssuerState {
    fn away(&self) -> String {
        match &self.problem {
            Some(problem) => format!("the issuer is away: {problem}"),
            None => "the issuer was not asked yet".to_owned(),
        }
    }

    fn keys_for(&self, token: &WebToken<'_>, lifetime: Duration) -> Result<Vec<WebKey>, TokenProblem> {
        let last = self.last.as_ref().filter(|last| last.at.elapsed() < lifetime);
        let last = last.ok_or_else(|| TokenProblem::Unavailable(self.away()))?;
        let all = last.document.keys.iter().filter(|key| key.takes(token.algorithm));
        let found: Vec<WebKey> = match &token.key_id {
            Some(id) => all.filter(|key| key.id.as_ref() == Some(id)).cloned().collect(),
            // Without a name, a key must be the only one that fits: a token tries no keys out.
            None => all.cloned().collect(),
        };
        match found.len() {
            0 => Err(TokenProblem::UnknownKey),
            1 => Ok(found),
            _ if token.key_id.is_none() => Err(TokenProblem::malformed(
                "its header has no `kid`, and the issuer has several keys",
            )),
            _ => Ok(found),
        }
    }
}

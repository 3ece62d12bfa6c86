//! The links to the masters of a cluster, and which call goes to which of them.
//!
//! # Invariants
//!
//! - A call goes to the master of its hash slot, or where that one redirects it. An error that the server sends before a
//!   script runs (MOVED, ASK, TRYAGAIN, CLUSTERDOWN) leaves nothing behind; after any other error, or without an answer, the
//!   call is in doubt.
//! - No call waits for a master that is away, and calls to other masters are not delayed by it.
//! - The nodes' view of the cluster is requested again every second, after a redirection and after each change of a link.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::seq::SliceRandom;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::calls::{CallAnswer, CallForm, ScriptCall};
use super::link::{LinkTarget, RedisLink};
use crate::redis_server::{
    Availability, ClusterTopology, ClusterView, HashSlot, NodeAddress, RedisServer, away, is_answer, is_refusal, view,
};
use crate::{Error, Result};

/// How often the view of the cluster is read: while it serves, and while it does not.
const READ_VIEW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(200));
/// The shortest time between two reads of it.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a call follows a redirection.
const REDIRECTIONS: usize = 5;
/// How long the link to a node is kept that receives a hash slot and has none.
const RECEIVING: Duration = Duration::from_secs(10);
/// How many nodes are asked what they see, before any that answers will do.
const ASKED: usize = 3;

/// The number of a master as long as it is one. What goes to different masters does not wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct MasterNumber(u64);

struct Master {
    link: Arc<RedisLink>,
    number: MasterNumber,
    /// When a node that still has the hash slot led to it: it may have no slot yet, so no node names it.
    asked: Option<Instant>,
    _keeper: AbortOnDropHandle<()>,
}

struct ClusterMap {
    topology: ClusterTopology,
    /// In the order of the topology's masters.
    masters: Vec<Master>,
    next: u64,
}

/// The links to the masters. One task keeps them ([`ClusterLink::keep`]).
pub(super) struct ClusterLink {
    server: RedisServer,
    form: Arc<CallForm>,
    map: Mutex<ClusterMap>,
    /// No node answers, or the cluster does not serve.
    is_down: AtomicBool,
    changed: Arc<Notify>,
    tried: watch::Sender<Option<Result<(), Arc<Error>>>>,
    availability: Availability,
}

/// Where a call is sent.
enum Route {
    Owner,
    To { node: NodeAddress, asking: bool },
}

/// The link of calls that are sent together.
struct Destination {
    link: Arc<RedisLink>,
    host: String,
    /// Its place in the map.
    at: usize,
    asking: bool,
}

/// What an error means for its call.
enum Judged {
    Is(CallAnswer),
    Redirected(Route),
}

impl ClusterLink {
    pub(super) fn new(server: RedisServer, form: Arc<CallForm>) -> Self {
        Self {
            server,
            form,
            map: Mutex::new(ClusterMap {
                topology: ClusterTopology::empty(),
                masters: Vec::new(),
                next: 1,
            }),
            is_down: AtomicBool::new(false),
            changed: Arc::default(),
            tried: watch::Sender::new(None),
            availability: Availability::of_locks(),
        }
    }

    fn map(&self) -> MutexGuard<'_, ClusterMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the view of the cluster again and again, and keeps a link to each master. Never returns.
    pub(super) async fn keep(&self) {
        let mut nonce_read: Option<Instant> = None;
        loop {
            let serves = match self.read_view().await {
                Ok(seen) => {
                    self.follow(&seen.topology);
                    let is_linked = self.map().masters.iter().all(|master| master.link.is_open());
                    if nonce_read.is_none_or(|at| at.elapsed() >= READ_VIEW.0) && self.agree().await {
                        nonce_read = Some(Instant::now());
                    }
                    self.judge(&seen, is_linked, nonce_read.is_some())
                }
                Err(error) => {
                    self.is_down.store(true, Ordering::Relaxed);
                    self.note_away(error);
                    false
                }
            };
            tokio::time::sleep(PAUSE).await;
            let pause = if serves { READ_VIEW.0 } else { READ_VIEW.1 };
            let pause = pause.mul_f64(rand::random_range(0.8..1.0));
            // At the timeout it is read again.
            let _ = tokio::time::timeout(pause, self.changed.notified()).await;
        }
    }

    /// What a node reports about the cluster: preferably a node with a link, and one that sees it serve.
    async fn read_view(&self) -> Result<ClusterView> {
        let mut open: Vec<_> = {
            let map = self.map();
            let each = map.topology.masters.iter().zip(&map.masters);
            each.filter_map(|(node, master)| Some((node.clone(), master.link.connection()?)))
                .collect()
        };
        open.shuffle(&mut rand::rng());
        let mut apart = None;
        for (node, mut connection) in open.into_iter().take(ASKED) {
            match view(&mut connection, &node).await {
                Ok(seen) if seen.is_ok => {
                    self.server.note_masters(&seen.topology);
                    return Ok(seen);
                }
                Ok(seen) => apart = Some(seen),
                Err(error) => tracing::debug!(%error, "a node does not report its view of the cluster"),
            }
        }
        match (self.server.discover().await, apart) {
            (Ok(seen), _) => Ok(seen),
            (Err(error), Some(seen)) if error.is_unavailable() => Ok(seen),
            (Err(error), _) => Err(error),
        }
    }

    /// Has a link to each of these masters, and to those that are about to become one.
    fn follow(&self, topology: &ClusterTopology) {
        let mut map = self.map();
        let before = std::mem::replace(&mut map.topology, topology.clone());
        let known = before.masters.into_iter().zip(std::mem::take(&mut map.masters));
        let mut known: HashMap<NodeAddress, Master> = known.collect();
        for node in &topology.masters {
            let master = known.remove(node);
            let master = master.unwrap_or_else(|| self.start(&mut map, node));
            master.link.note_slot(topology.slot_of(node));
            map.masters.push(master);
        }
        let is_receiving = |master: &Master| master.asked.is_some_and(|at| at.elapsed() < RECEIVING);
        for (node, master) in known.into_iter().filter(|(_, master)| is_receiving(master)) {
            map.topology.masters.push(node);
            map.masters.push(master);
        }
    }

    fn start(&self, map: &mut ClusterMap, node: &NodeAddress) -> Master {
        let target = LinkTarget::Master(node.clone(), Arc::clone(&self.changed));
        let link = Arc::new(RedisLink::new(self.server.clone(), target, Arc::clone(&self.form)));
        link.note_slot(map.topology.slot_of(node));
        let kept = Arc::clone(&link);
        let number = MasterNumber(map.next);
        map.next += 1;
        Master {
            link,
            number,
            asked: None,
            _keeper: AbortOnDropHandle::new(tokio::spawn(async move { kept.keep().await })),
        }
    }

    /// Reads the nonce. Returns false if its master does not answer.
    async fn agree(&self) -> bool {
        let master = self.master_of(RedisServer::nonce_slot());
        match master.and_then(|(link, _)| link.connection()) {
            Some(mut connection) => self.server.agree(&mut connection).await.is_ok(),
            None => false,
        }
    }

    /// Whether everything serves, judging by a node's view and the links.
    fn judge(&self, seen: &ClusterView, is_linked: bool, has_nonce: bool) -> bool {
        self.is_down.store(!seen.is_ok, Ordering::Relaxed);
        let place = self.server.place();
        let lacks = |why: &str| Error::unavailable("redis-unavailable", format!("the Redis cluster {place} {why}"));
        if !seen.is_ok {
            self.note_away(lacks("is down according to its nodes (CLUSTER INFO)"));
            return false;
        }
        if !seen.topology.is_complete() {
            self.note_away(lacks("has hash slots without a master"));
            return false;
        }
        let failed = self.map().masters.iter().find_map(|master| master.link.check().err());
        if let Some(error) = failed {
            self.note_away(error);
            return false;
        }
        if !is_linked {
            return false;
        }
        if !has_nonce {
            self.note_away(lacks("does not answer for its nonce"));
            return false;
        }
        self.availability.back(&place);
        self.tried.send_if_modified(|tried| tried.replace(Ok(())).is_none());
        true
    }

    fn note_away(&self, error: Error) {
        self.availability.away(&error);
        let error = Arc::new(error);
        self.tried.send_if_modified(|tried| tried.replace(Err(error)).is_none());
    }

    /// Waits for the end of the first try to reach all masters.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) async fn first_try(&self) -> Result<()> {
        let mut tried = self.tried.subscribe();
        match tried.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(error))) if error.is_invalid() => {
                Err(Error::invalid("redis-refused", error.message().to_owned()))
            }
            Ok(Some(Ok(()))) => Ok(()),
            Ok(_) | Err(_) => Err(away(&self.server.place())),
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.availability.is_away()
    }

    /// Why it is away.
    pub(super) fn cause(&self) -> Option<String> {
        self.availability.cause()
    }

    fn master_of(&self, slot: HashSlot) -> Option<(Arc<RedisLink>, MasterNumber)> {
        let map = self.map();
        let master = map.masters.get(map.topology.place_of(slot)?)?;
        Some((Arc::clone(&master.link), master.number))
    }

    /// An error while no master can be used; at once.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(away(&self.server.place()));
        }
        Ok(())
    }

    /// The error of a call that has not run.
    pub(super) fn failed_call(&self) -> Error {
        away(&self.server.place())
    }

    /// An error while the master of this slot is away; at once.
    pub(super) fn check_slot(&self, slot: HashSlot) -> Result<()> {
        self.check()?;
        match self.master_of(slot) {
            Some((link, _)) => link.check(),
            None if self.tried.borrow().is_none() => Ok(()),
            None => Err(away(&self.server.place())),
        }
    }

    /// The master of this slot.
    pub(super) fn number_of(&self, slot: HashSlot) -> MasterNumber {
        self.master_of(slot).map(|(_, number)| number).unwrap_or_default()
    }

    /// Whether there is a connection to this master.
    pub(super) fn is_open(&self, number: MasterNumber) -> bool {
        let map = self.map();
        let mut found = map.masters.iter().filter(|master| master.number == number);
        found.next().is_some_and(|master| master.link.is_open())
    }

    /// Runs each call at the master of its slot, those of one master in one round trip.
    pub(super) async fn run(&self, calls: &[ScriptCall]) -> Vec<CallAnswer> {
        if self.tried.borrow().is_none() {
            // Fails never: this holds the sender.
            let _ = self.tried.subscribe().wait_for(Option::is_some).await;
        }
        let mut answers: Vec<CallAnswer> = calls.iter().map(|_| CallAnswer::NotRun).collect();
        let mut open: Vec<(usize, Route)> = (0..calls.len()).map(|place| (place, Route::Owner)).collect();
        for _ in 0..=REDIRECTIONS {
            let groups = self.groups(calls, std::mem::take(&mut open));
            let sent = groups.into_iter().map(|(to, places)| async move {
                let each: Vec<&ScriptCall> = places.iter().filter_map(|place| calls.get(*place)).collect();
                let answered = to.link.run_each(&each, to.asking).await;
                (to, places, answered)
            });
            for (to, places, answered) in join_all(sent).await {
                let mut answered = answered.map(Vec::into_iter);
                for place in places {
                    let answer = match answered.as_mut().map(Iterator::next) {
                        Ok(Some(Ok(value))) => CallAnswer::Done(value),
                        Ok(Some(Err(error))) => match self.judge_error(&error, &to) {
                            Judged::Is(answer) => answer,
                            Judged::Redirected(route) => {
                                open.push((place, route));
                                CallAnswer::NotRun
                            }
                        },
                        Ok(None) => CallAnswer::InDoubt,
                        Err(answer) => answer.clone(),
                    };
                    if let Some(of_call) = answers.get_mut(place) {
                        *of_call = answer;
                    }
                }
            }
            if open.is_empty() {
                break;
            }
        }
        answers
    }

    /// The calls by the link that they use. Calls without a master are left out.
    fn groups(&self, calls: &[ScriptCall], open: Vec<(usize, Route)>) -> Vec<(Destination, Vec<usize>)> {
        let mut map = self.map();
        let mut groups: Vec<(Destination, Vec<usize>)> = Vec::new();
        for (place, route) in open {
            let slot = calls.get(place).and_then(|call| call.slot);
            let (master, asking) = match route {
                Route::Owner => (slot.and_then(|slot| map.topology.place_of(slot)), false),
                Route::To { node, asking } => (Some(self.place_of(&mut map, &node, asking)), asking),
            };
            let Some((master, at)) = master.and_then(|at| Some((map.masters.get(at)?, at))) else {
                continue;
            };
            let known = groups.iter_mut().find(|(to, _)| to.at == at && to.asking == asking);
            match (known, map.topology.masters.get(at)) {
                (Some((_, places)), _) => places.push(place),
                (None, Some(node)) => {
                    let (link, host) = (Arc::clone(&master.link), node.host.clone());
                    groups.push((Destination { link, host, at, asking }, vec![place]));
                }
                (None, None) => {}
            }
        }
        groups
    }

    /// The place of the master that a redirection names, perhaps a new one.
    fn place_of(&self, map: &mut ClusterMap, node: &NodeAddress, asking: bool) -> usize {
        let known = map.topology.masters.iter().position(|one| one == node);
        let at = known.unwrap_or_else(|| {
            let master = self.start(map, node);
            map.topology.masters.push(node.clone());
            map.masters.push(master);
            map.masters.len() - 1
        });
        if let Some(master) = map.masters.get_mut(at).filter(|_| asking) {
            master.asked = Some(Instant::now());
        }
        at
    }

    fn judge_error(&self, error: &RedisError, from: &Destination) -> Judged {
        let redirected = || {
            let (text, slot) = error.redirect_node()?;
            Some((NodeAddress::parse(text, &from.host)?, HashSlot::numbered(slot)))
        };
        tracing::debug!(code = error.code(), "a master of the cluster has not run a script");
        if is_refusal(error) {
            from.link.refuse(error);
            return Judged::Is(CallAnswer::NotRun);
        }
        let ErrorKind::Server(kind) = error.kind() else {
            if is_answer(error) {
                from.link.refuse(error);
            }
            return Judged::Is(CallAnswer::InDoubt);
        };
        match kind {
            ServerErrorKind::Moved => {
                self.changed.notify_one();
                let Some((node, slot)) = redirected() else {
                    return Judged::Is(CallAnswer::NotRun);
                };
                let mut map = self.map();
                let at = self.place_of(&mut map, &node, false);
                map.topology.give(slot, &node);
                if let Some(master) = map.masters.get(at) {
                    master.link.note_slot(Some(slot));
                }
                Judged::Redirected(Route::To { node, asking: false })
            }
            ServerErrorKind::Ask => match redirected() {
                Some((node, _)) => Judged::Redirected(Route::To { node, asking: true }),
                None => Judged::Is(CallAnswer::NotRun),
            },
            ServerErrorKind::TryAgain | ServerErrorKind::NoScript => Judged::Is(CallAnswer::NotRun),
            ServerErrorKind::ClusterDown => {
                self.changed.notify_one();
                Judged::Is(CallAnswer::NotRun)
            }
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading => {
                from.link.reconnect();
                Judged::Is(CallAnswer::NotRun)
            }
            _ => {
                from.link.refuse(error);
                Judged::Is(CallAnswer::InDoubt)
            }
        }
    }
}

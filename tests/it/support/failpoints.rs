//! The failpoints of the engine, by the operation that passes them. Each is passed by a test that kills a process there.

/// From a call to the commit of its burst.
pub(crate) const CALL: [&str; 15] = [
    "accept.before",
    "accept.after",
    "claim.before",
    "claim.locked",
    "claim.after",
    "burst.before",
    "burst.running",
    "burst.after",
    "commit.gathered",
    "commit.begun",
    "commit.locked",
    "commit.written",
    "commit.matched",
    "commit.committed",
    "commit.answered",
];

/// A request of an HTTP client, beside those of a call: before and after it is accepted, between the commit that ends it and the
/// reply, and before the client receives that.
pub(crate) const REQUEST: [&str; 4] = [
    "request.accepting",
    "request.accepted",
    "request.replying",
    "request.ended",
];

/// A burst that starts children, that ends one, or that continues with the end of one.
pub(crate) const FAMILY: [&str; 5] = [
    "burst.before",
    "burst.after",
    "commit.begun",
    "commit.written",
    "commit.committed",
];

/// A burst in which children run.
pub(crate) const EXECUTED: [&str; 7] = [
    "burst.before",
    "child.running",
    "commit.begun",
    "commit.written",
    "commit.committed",
    "child.committed",
    "burst.after",
];

/// Those that only such a burst passes.
const CHILD: [&str; 2] = ["child.running", "child.committed"];

/// A poll that finds work.
pub(crate) const POLL: [&str; 1] = ["claim.poll"];

/// A claim of the rows of a lost burst.
pub(crate) const REPEAT: [&str; 1] = ["claim.in_order"];

/// A publish.
pub(crate) const PUBLISH: [&str; 2] = ["publish.written", "publish.committed"];

/// A page of starts for what the inbox keeps.
pub(crate) const INBOX_MATCH: [&str; 2] = ["inbox_match.written", "inbox_match.committed"];

/// The turn and the pages of a fan-out.
pub(crate) const FAN_OUT: [&str; 4] = ["fan_out.locked", "fan_out.keys", "fan_out.written", "fan_out.committed"];

/// A page of a bulk action.
pub(crate) const BULK_ACTION: [&str; 3] = ["bulk_action.locked", "bulk_action.written", "bulk_action.committed"];

/// A registration.
pub(crate) const REGISTRATION: [&str; 1] = ["node.register"];

/// The survey of published versions by a node that starts.
pub(crate) const SURVEY: [&str; 1] = ["survey.begins"];

/// The removal of an expired node.
pub(crate) const REMOVAL: [&str; 6] = [
    "removal.before",
    "removal.fenced",
    "removal.terminated",
    "removal.releasing",
    "removal.released",
    "removal.forgotten",
];

/// A delete.
pub(crate) const DELETE: [&str; 5] = [
    "delete.before",
    "delete.locked",
    "delete.fenced",
    "delete.written",
    "delete.committed",
];

/// An import of instances.
pub(crate) const IMPORT: [&str; 2] = ["import.before", "import.committed"];

/// A set of variables.
pub(crate) const VARIABLES: [&str; 1] = ["alter.loaded"];

/// A change of the activation strategy.
pub(crate) const STRATEGY: [&str; 2] = ["activation.waits", "activation.waited"];

/// A pause of the cluster.
pub(crate) const PAUSE: [&str; 2] = ["pause.set", "pause.waits"];

/// What a burst passes only after another failure: the release of its rows, and the question what became of its claim.
pub(crate) const AFTER_A_FAILURE: [&str; 2] = ["claim.release", "classify.before"];

/// The replay of a dead letter.
pub(crate) const REPLAY: [&str; 1] = ["replay.taken"];

/// The computation of schedules at a start.
pub(crate) const RECOMPUTE: [&str; 1] = ["fire.computed"];

/// The poll that fires schedules.
pub(crate) const FIRE: [&str; 3] = ["fire.poll", "fire.decided", "fire.fired"];

/// The sending of webhooks.
pub(crate) const WEBHOOK: [&str; 5] = [
    "webhook.claimed",
    "webhook.read",
    "webhook.sending",
    "webhook.sent",
    "webhook.marked",
];

/// No moment of a process: messages that are lost, points for a single instance or call, and one for each part of a node,
/// which answers the watchdog no more.
pub(crate) const OTHERS: [&str; 5] = [
    "wake.lost",
    "signal.lost",
    "burst.instance.",
    "call.made.",
    "watchdog.answer.",
];

/// All of them.
pub(crate) fn all() -> Vec<&'static str> {
    [
        &CALL[..],
        &REQUEST,
        &CHILD,
        &POLL,
        &REPEAT,
        &PUBLISH,
        &INBOX_MATCH,
        &FAN_OUT,
        &BULK_ACTION,
        &REGISTRATION,
        &SURVEY,
        &REMOVAL,
        &DELETE,
        &IMPORT,
        &VARIABLES,
        &STRATEGY,
        &PAUSE,
        &AFTER_A_FAILURE,
        &REPLAY,
        &RECOMPUTE,
        &FIRE,
        &WEBHOOK,
        &OTHERS,
    ]
    .concat()
}

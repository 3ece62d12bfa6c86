//! The numbers that columns hold for kinds, states and strategies, each with the name that it has in SQL.
//!
//! A literal in SQL carries its name, as in `kind = 0 /* start */`. A test reads all SQL and compares names and numbers with
//! the enums here.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $word:literal,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum $name { $($(#[$variant_doc])* $variant = $number,)+ }

            impl $name {
                /// What the column holds.
                #[allow(dead_code, reason = "some codes are only read")]
                pub(crate) const fn number(self) -> i16 {
                    self as i16
                }

                /// Its name here, which clients see of some.
                #[allow(dead_code, reason = "clients see few of them")]
                pub(crate) const fn word(self) -> &'static str {
                    match self {
                        $(Self::$variant => stringify!($variant),)+
                    }
                }

                /// The code that a column holds; `None` if a newer program wrote it.
                #[allow(dead_code, reason = "some codes are only written")]
                pub(crate) fn from_number(number: i16) -> Option<Self> {
                    match number {
                        $($number => Some(Self::$variant),)+
                        _ => None,
                    }
                }
            }
        )+

        /// Each enum with its numbers and their names in SQL.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &[(i16, &str)])] =
            &[$((stringify!($name), &[$(($name::$variant.number(), $word)),+])),+];
    };
}

codes! {
    /// `work.kind`: the kind of instruction for the burst.
    WorkKind {
        Start = 0 "start",
        Resume = 1 "resume",
        Stimulus = 2 "stimulus",
        Cancel = 3 "cancel",
        Continue = 4 "continue",
        /// A child of the instance has ended.
        ChildEnd = 7 "child end",
    }

    /// `dead_letter.kind`: as [`WorkKind`], or the other table that the row was in.
    DeadLetterKind {
        Start = 0 "start",
        Resume = 1 "resume",
        Stimulus = 2 "stimulus",
        Cancel = 3 "cancel",
        Continue = 4 "continue",
        Timer = 5 "timer",
        /// An expired stimulus.
        Inbox = 6 "inbox",
        ChildEnd = 7 "child end",
    }

    /// Why a row is a dead letter; computed, no column holds it.
    DeadLetterCause {
        Failed = 0 "failed",
        Crashed = 1 "crashed",
        Expired = 2 "expired",
    }

    /// `instance.status`.
    StatusCode {
        Running = 0 "running",
        Finished = 1 "finished",
    }

    /// `instance.sub_status`.
    SubStatusCode {
        Pending = 0 "pending",
        Executing = 1 "executing",
        Suspended = 2 "suspended",
        Finished = 3 "finished",
        Cancelled = 4 "cancelled",
        Faulted = 5 "faulted",
    }

    /// `definition.activation_strategy`.
    ActivationStrategy {
        Always = 0 "always",
        Singleton = 1 "singleton",
        CorrelatedSingleton = 2 "correlated singleton",
        Correlation = 3 "correlation",
    }

    /// `activation.strategy`: what the key is held for.
    ActivationHolder {
        Schedule = 0 "schedule",
        Singleton = 1 "singleton",
        CorrelatedSingleton = 2 "correlated singleton",
        Correlation = 3 "correlation",
    }

    /// `definition.seeding`: what is left to do after a publish changed the strategy.
    Seeding {
        Done = 0 "done",
        Prune = 1 "prune",
        Seed = 2 "seed",
    }

    /// `schedule.overlap`.
    Overlap {
        Allow = 0 "allow",
        Skip = 1 "skip",
        Queue = 2 "queue",
    }

    /// `cluster_pause.mode`.
    PauseMode {
        Running = 0 "running",
        /// Nothing is accepted or claimed.
        Paused = 1 "paused",
        /// Paused, and bursts stop before their next activity.
        Draining = 2 "draining",
    }

    /// `audit.action`: what was done, or tried.
    AuditAction {
        ResumeLink = 0 "resume link",
        /// A request that changes something.
        Request = 1 "request",
        Login = 2 "login",
    }

    /// `audit.outcome`, and why a resume link cannot be used.
    AuditOutcome {
        /// It is durable.
        Accepted = 0 "accepted",
        /// The link was used as often as it may be.
        Used = 1 "used",
        Expired = 2 "expired",
        Revoked = 3 "revoked",
        /// Nothing waits any more where the link leads.
        Ended = 4 "ended",
        /// The link has no row: what made it was not committed, or it was deleted since.
        Unknown = 5 "unknown",
        /// It could not be accepted for a reason of the request or of the cluster.
        Refused = 6 "refused",
        /// A repetition under the idempotency key of an attempt that was accepted.
        Repeated = 7 "repeated",
        /// It could not be served, or its outcome is unknown.
        Failed = 8 "failed",
    }

    /// `http_answer.outcome`: how a request has ended.
    AnswerOutcome {
        Answered = 0 "answered",
        Finished = 1 "finished",
        Faulted = 2 "faulted",
        Waiting = 3 "waiting",
        /// It was answered, with more than is kept.
        NotKept = 4 "not kept",
    }

    /// `webhook_delivery.state`.
    DeliveryState {
        /// It is to be sent.
        Pending = 0 "pending",
        Delivered = 1 "delivered",
        /// It was given up.
        DeadLetter = 2 "dead letter",
    }

    /// An argument of work/release.sql: what the failure that a release counts is due to.
    ReleaseCode {
        None = 0 "none",
        Transient = 1 "transient",
        Row = 2 "row",
    }
}

//! A type for every id and every counter, so that the compiler rejects a mix-up.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A random name of this process, in what only the threads of one process share.
pub(crate) fn this_process() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| uuid::Uuid::new_v4().simple().to_string())
}

/// The longest id of a definition or of a version, and the longest activity type of a workflow, in bytes: indexes hold them.
pub(crate) const LONGEST_DEFINITION_ID: usize = 255;

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id with this text.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    )*};
}

text_id! {
    /// A tenant; the default tenant is the empty text, as in Elsa.
    TenantId;
    /// The id that all versions of a workflow definition share.
    DefinitionId;
    /// The id of one version of a workflow definition (Elsa's `id`).
    VersionId;
    /// A workflow instance.
    InstanceId;
    /// An activity within its definition (Elsa's `id` of an activity).
    ActivityId;
    /// One execution of an activity in one instance (Elsa's `activityInstanceId`): `instance id:number`. The number comes from
    /// a counter in committed state, so a repeated burst gives the same ids.
    ActivityExecutionId;
    /// A point at which an instance waits.
    BookmarkId;
    /// The name of a node, given by the operator or random per process.
    NodeId;
}

impl InstanceId {
    /// A new id, in Elsa's form: 32 hexadecimal digits. It begins with the time (RFC 9562, version 7), so ids made together
    /// are adjacent in every index, and a commit writes few pages; 74 bits are random.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().simple().to_string())
    }

    /// The id of an instance that an execution starts: 32 hexadecimal digits, the same for a repeated burst. `seed` differs
    /// between instances that had the same id one after another; `number` counts the children of the execution.
    pub(crate) fn of_child(execution: &ActivityExecutionId, seed: i64, number: u64) -> Self {
        Self::of_hash(&Sha256::digest(format!("child|{seed}|{number}|{}", execution.as_str())))
    }

    /// The id of the instance that a request starts, where a repeat of the request must start the same one.
    #[cfg(feature = "http")]
    pub(crate) fn of_request(request: RequestId) -> Self {
        Self::of_hash(&Sha256::digest(format!("request|{request}")))
    }

    /// An id in Elsa's form, of the first bytes of a hash.
    pub(crate) fn of_hash(hash: &[u8]) -> Self {
        let mut bytes = [0u8; 16];
        bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
        Self(uuid::Uuid::from_bytes(bytes).simple().to_string())
    }
}

impl ActivityExecutionId {
    /// The id of the execution with this number within its instance: `instance id:number`. It names its instance, so that
    /// an execution is found by its id alone, and a record of the instance keeps only the number.
    pub(crate) fn of(instance: &str, number: u64) -> Self {
        Self(format!("{instance}:{number}"))
    }

    /// The instance and the number within it; `None` if the text is not the id of an execution.
    pub(crate) fn parts(&self) -> Option<(&str, u64)> {
        let (instance, number) = self.0.rsplit_once(':')?;
        let is_number = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((instance, number.parse().ok().filter(|_| is_number)?))
    }

    /// The number within its instance.
    pub(crate) fn number(&self) -> u64 {
        self.parts().map_or(0, |(_, number)| number)
    }
}

impl VersionId {
    /// A new random id, in Elsa's form.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }
}

impl DefinitionId {
    /// A new random id, in Elsa's form.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }
}

macro_rules! counter {
    ($($(#[$doc:meta])* $vis:vis $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        $vis struct $name($vis i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

counter! {
    /// One registration of a process, from a logged sequence; never used twice in a database.
    pub Incarnation;
    /// Counts the commits of an instance; the fencing token against a writer that was superseded.
    pub(crate) InstanceVersion;
    /// Counts the claims of a row; the fencing token against a node that lost its claim.
    pub(crate) ClaimNo;
    /// A row of the work table.
    pub WorkId;
    /// An event that is given page by page to the instances that wait for it.
    pub FanOutId;
}

/// One attempt to run an instance until it waits. The last one to commit is in `instance.last_burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BurstId(pub(crate) uuid::Uuid);

impl BurstId {
    /// A new random id.
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4())
    }
}

impl fmt::Display for BurstId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

/// A request of an HTTP client that waits for a run. A repeat under the same `Idempotency-Key` has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub uuid::Uuid);

#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only the endpoint makes them"))]
impl RequestId {
    /// A new id, which begins with the time: the rows of requests that end together are adjacent in their index.
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::now_v7())
    }

    /// The id of the request with this hash.
    pub(crate) fn of_hash(hash: &[u8; 32]) -> Self {
        let mut bytes = [0u8; 16];
        bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
        Self(uuid::Uuid::new_v8(bytes))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

/// A resume link. Its id is no secret: the link itself has a MAC behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub uuid::Uuid);

impl LinkId {
    /// A new random id.
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4())
    }

    /// The id of the link with this number in an execution: the same for a repeated burst. `maker` is an instance with the key of
    /// what makes the link; `leads_to` is signed with the id, so that a link does not lead elsewhere later.
    pub(crate) fn of_execution(maker: &str, number: u64, leads_to: &str) -> Self {
        let hash = Sha256::digest(format!("resume link|{number}|{}|{maker}|{leads_to}", maker.len()));
        let mut bytes = [0u8; 16];
        bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Self(uuid::Uuid::new_v8(bytes))
    }

    /// Reads the text of an id; `None` if it is none.
    #[cfg(feature = "http")]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        uuid::Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

/// The SHA-256 hash of the stimulus of a bookmark or a trigger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StimulusHash(pub [u8; 32]);

impl StimulusHash {
    /// The key of the hash in the two-integer space of advisory locks. Two hashes with the same key exclude each other,
    /// which only costs time, so 32 bits are enough.
    pub fn lock_key(&self) -> i32 {
        let [a, b, c, d, ..] = self.0;
        i32::from_be_bytes([a, b, c, d])
    }
}

impl fmt::Display for StimulusHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StimulusHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StimulusHash({self})")
    }
}

impl From<StimulusHash> for String {
    fn from(hash: StimulusHash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for StimulusHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut bytes = [0u8; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err("a stimulus hash has 64 hexadecimal digits".to_owned());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|error| error.to_string())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|error| error.to_string())?;
        }
        Ok(Self(bytes))
    }
}

/// An instance of a tenant.
pub(crate) type InstanceKey = (TenantId, InstanceId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_child_follows_from_what_starts_it() {
        let execution = ActivityExecutionId::of("parent", 7);
        let id = InstanceId::of_child(&execution, 1, 0);
        assert_eq!(id, InstanceId::of_child(&execution, 1, 0));
        assert_eq!(id.as_str().len(), 32);
        let others = [
            InstanceId::of_child(&execution, 2, 0),
            InstanceId::of_child(&execution, 1, 1),
            InstanceId::of_child(&ActivityExecutionId::of("parent", 8), 1, 0),
            InstanceId::of_child(&ActivityExecutionId::of("parent2", 7), 1, 0),
        ];
        assert!(others.iter().all(|other| *other != id));
    }
}

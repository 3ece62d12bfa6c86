//! Which master of a cluster has which hash slots, as one of its nodes sees it.

use redis::Value;

use super::hash_slot::{HASH_SLOTS, HashSlot};

/// Host and port of a node of a cluster, as the cluster names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl NodeAddress {
    /// Parses `host:port`. Without a host it is that of the node that has said it.
    pub(crate) fn parse(text: &str, said_by: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(Self::named(host, port, said_by))
    }

    fn named(host: &str, port: u16, said_by: &str) -> Self {
        // `?`: the node has no name by which clients could call it.
        let host = if host.is_empty() || host == "?" { said_by } else { host };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self { host, port }
    }
}

impl std::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The masters of a cluster, and the one of each hash slot.
#[derive(Clone, Debug)]
pub(crate) struct ClusterTopology {
    pub(crate) masters: Vec<NodeAddress>,
    /// For each hash slot the place of its master.
    owners: Vec<Option<u16>>,
}

impl ClusterTopology {
    /// One in which no slot has a master.
    pub(crate) fn empty() -> Self {
        Self {
            masters: Vec::new(),
            owners: vec![None; usize::from(HASH_SLOTS)],
        }
    }

    /// Reads the answer to `CLUSTER SLOTS` of a node. `None` if it is of another form.
    pub(super) fn read(answer: &Value, said_by: &str) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut read = Self::empty();
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), ..] = master.as_slice() else {
                return None;
            };
            let host = match host {
                Value::BulkString(host) => std::str::from_utf8(host).ok()?,
                Value::SimpleString(host) => host,
                Value::Nil => "",
                _ => return None,
            };
            let master = NodeAddress::named(host, u16::try_from(*port).ok()?, said_by);
            let place = read.place_for(&master);
            let slots = usize::try_from(*first).ok()?..=usize::try_from(*last).ok()?;
            read.owners.get_mut(slots)?.fill(place);
        }
        Some(read)
    }

    /// The place of a slot's master in `masters`.
    pub(crate) fn place_of(&self, slot: HashSlot) -> Option<usize> {
        self.owners.get(slot.place()).copied().flatten().map(usize::from)
    }

    /// A slot of this master; `None` if it has none.
    pub(crate) fn slot_of(&self, master: &NodeAddress) -> Option<HashSlot> {
        let at = self.masters.iter().position(|one| one == master)?;
        let slot = self
            .owners
            .iter()
            .position(|owner| owner.map(usize::from) == Some(at))?;
        u16::try_from(slot).ok().map(HashSlot)
    }

    /// A slot's master.
    pub(crate) fn owner(&self, slot: HashSlot) -> Option<&NodeAddress> {
        self.masters.get(self.place_of(slot)?)
    }

    /// A slot has this master from now on.
    pub(crate) fn give(&mut self, slot: HashSlot, master: &NodeAddress) {
        let place = self.place_for(master);
        if let Some(owner) = self.owners.get_mut(slot.place()) {
            *owner = place;
        }
    }

    fn place_for(&mut self, master: &NodeAddress) -> Option<u16> {
        let known = self.masters.iter().position(|one| one == master);
        let place = known.unwrap_or_else(|| {
            self.masters.push(master.clone());
            self.masters.len() - 1
        });
        u16::try_from(place).ok()
    }

    /// Whether each slot has a master.
    pub(crate) fn is_complete(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![host, Value::Int(port), Value::Int(0)]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node.clone(), node])
    }

    #[test]
    fn slots_are_read_with_names_and_without() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let answer = Value::Array(vec![
            range(0, 99, text("a"), 1),
            range(200, 16_383, Value::Nil, 2),
            range(100, 100, text("::1"), 3),
        ]);
        let mut read = ClusterTopology::read(&answer, "here").unwrap();
        let owner = |read: &ClusterTopology, slot| read.owner(HashSlot(slot)).map(ToString::to_string);
        assert_eq!(owner(&read, 99), Some("a:1".to_owned()));
        assert_eq!(owner(&read, 100), Some("::1:3".to_owned()));
        assert_eq!(owner(&read, 101), None);
        assert_eq!(owner(&read, 16_383), Some("here:2".to_owned()));
        assert!(!read.is_complete());
        let moved = NodeAddress::parse("::1:3", "there").unwrap();
        (101..200).for_each(|slot| read.give(HashSlot(slot), &moved));
        assert!(read.is_complete() && read.masters.len() == 3);
        assert_eq!(NodeAddress::parse(":7", "there").unwrap().to_string(), "there:7");
        assert!(NodeAddress::parse("there", "x").is_none());
        assert!(ClusterTopology::read(&Value::Nil, "h").is_none());
    }
}

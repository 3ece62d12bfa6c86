//! Where executions come from: what scheduled each of them.

use std::collections::{BTreeMap, HashMap};

use crate::execution::ParentLink;
use crate::id::{ActivityExecutionId, InstanceId};
use crate::store::record::execution::Link;

/// What scheduled an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) execution: Option<ActivityExecutionId>,
    pub(super) activity: Option<String>,
    /// If it is another instance.
    pub(super) instance: Option<InstanceId>,
    pub(super) depth: Option<u32>,
}

/// What scheduled the executions of one instance.
pub(super) struct Origins<'a> {
    instance: &'a InstanceId,
    links: &'a BTreeMap<u64, Link>,
    depths: HashMap<u64, u32>,
    parent: Option<ParentLink>,
}

impl<'a> Origins<'a> {
    pub(super) fn new(instance: &'a InstanceId, links: &'a BTreeMap<u64, Link>, parent: Option<ParentLink>) -> Self {
        let mut depths = HashMap::with_capacity(links.len());
        for number in links.keys() {
            let before = scheduled_by(links, *number).and_then(|by| depths.get(&by).copied());
            depths.insert(*number, before.map_or(0, |before: u32| before.saturating_add(1)));
        }
        Self {
            instance,
            links,
            depths,
            parent,
        }
    }

    pub(super) fn of(&self, number: u64) -> Origin {
        let depth = self.depths.get(&number).copied();
        if let Some(by) = scheduled_by(self.links, number) {
            return Origin {
                execution: Some(ActivityExecutionId::of(self.instance.as_str(), by)),
                activity: self.links.get(&by).map(|link| link.activity.activity_id.clone()),
                instance: None,
                depth,
            };
        }
        // Of a very long history the oldest part is not read: only the workflow itself has no container.
        let is_workflow = self.links.get(&number).is_some_and(|link| link.parent.is_none());
        let Some(parent) = self.parent.as_ref().filter(|_| is_workflow) else {
            return Origin {
                depth,
                ..Origin::default()
            };
        };
        let started_by = parent.started_by.as_deref();
        let number = started_by.map(|by| by.execution);
        Origin {
            execution: number.map(|number| ActivityExecutionId::of(parent.instance_id.as_str(), number)),
            activity: started_by.map(|by| by.activity_id.as_str().to_owned()),
            instance: Some(parent.instance_id.clone()),
            depth,
        }
    }
}

/// The execution that scheduled one, if it is known; always an older one.
pub(super) fn scheduled_by(links: &BTreeMap<u64, Link>, number: u64) -> Option<u64> {
    let by = links.get(&number)?.scheduled_by()?;
    Some(by).filter(|by| *by < number && links.contains_key(by))
}

//! The executions that led to another one, also across instances that started each other.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::origin::{Origins, scheduled_by};
use super::{ActivityExecutionDetail, MAX_DETAILED, detail, instance_of, no_execution};
use crate::Result;
use crate::db::bounded_list;
use crate::execution::ParentLink;
use crate::id::{ActivityExecutionId, InstanceId};
use crate::runtime::engine::Engine;
use crate::store::record::execution::{Detail, Link, Selection};

/// Instances that one call stack goes through; those above them are left out.
const MAX_INSTANCES: usize = 64;

/// The executions that led to one, beginning with the workflow (Elsa's `ActivityExecutionCallStack`).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallStack {
    /// The requested execution, which is the last one of the stack.
    pub activity_execution_id: ActivityExecutionId,
    /// A range of the stack.
    pub items: Vec<ActivityExecutionDetail>,
    /// How many executions the stack has.
    pub total_count: u64,
}

/// The part of a call stack within one instance.
struct Section {
    instance: InstanceId,
    links: BTreeMap<u64, Link>,
    parent: Option<ParentLink>,
    /// Oldest first.
    chain: Vec<u64>,
}

impl Engine {
    /// Reads a range of the call stack of an execution, at most 1,000 (code `activity-execution-not-found` if there is
    /// none). With `across_instances` the stack of a child workflow begins with the stack of the execution that started it,
    /// through at most 64 instances that still exist. The whole read has the time of one list. Cancellation safe.
    pub async fn call_stack(
        &self,
        id: &ActivityExecutionId,
        across_instances: bool,
        skip: u32,
        take: u32,
    ) -> Result<CallStack> {
        bounded_list(self.read_call_stack(id, across_instances, skip, take)).await
    }

    async fn read_call_stack(
        &self,
        id: &ActivityExecutionId,
        across_instances: bool,
        skip: u32,
        take: u32,
    ) -> Result<CallStack> {
        let (instance, number) = instance_of(id)?;
        let first = self.section(instance, number).await?;
        let mut sections = vec![first.ok_or_else(|| no_execution(id))?];
        while across_instances && sections.len() < MAX_INSTANCES {
            let parent = sections.last().and_then(|section| section.parent.as_ref());
            let above = parent.and_then(|it| Some((it.instance_id.clone(), it.started_by.as_ref()?.execution)));
            let Some((instance, number)) = above else { break };
            let is_known = sections.iter().any(|section| section.instance == instance);
            match self.section(instance, number).await? {
                Some(above) if !is_known => sections.push(above),
                // It was deleted, or another one has taken its id.
                _ => break,
            }
        }
        sections.reverse();
        let total: usize = sections.iter().map(|section| section.chain.len()).sum();
        let (mut skip, mut room) = (skip as usize, (take as usize).clamp(1, MAX_DETAILED));
        let mut items = Vec::new();
        for section in &sections {
            let range: HashSet<u64> = section.chain.iter().skip(skip).take(room).copied().collect();
            skip = skip.saturating_sub(section.chain.len());
            room -= range.len();
            if range.is_empty() {
                continue;
            }
            let selection = Selection::Numbers(range);
            let read = self
                .executions(&section.instance, selection, MAX_DETAILED, Detail::Values)
                .await?;
            let origins = Origins::new(&section.instance, &section.links, section.parent.clone());
            let rows = read.rows.into_iter();
            items.extend(rows.map(|(number, row)| detail(&section.instance, number, row, origins.of(number))));
        }
        Ok(CallStack {
            activity_execution_id: id.clone(),
            items,
            total_count: total as u64,
        })
    }

    /// The executions of an instance that led to one of them; `None` if that one does not exist.
    async fn section(&self, instance: InstanceId, number: u64) -> Result<Option<Section>> {
        let asked = Selection::Numbers(HashSet::from([number]));
        let links = self.executions(&instance, asked, 1, Detail::Links).await?.links;
        if !links.contains_key(&number) {
            return Ok(None);
        }
        // An execution is scheduled by an older one: the numbers fall.
        let mut chain = vec![number];
        let mut last = number;
        while let Some(by) = scheduled_by(&links, last) {
            chain.push(by);
            last = by;
        }
        chain.reverse();
        let parent = self.parent(&instance).await?;
        Ok(Some(Section {
            instance,
            links,
            parent,
            chain,
        }))
    }
}

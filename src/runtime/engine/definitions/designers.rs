//! Definitions in the form that designers can draw, and queries about their trees.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::WorkflowDefinition;
use crate::execution::{Composition, Interpreter, WorkflowType};
use crate::id::VersionId;
use crate::runtime::engine::Engine;
use crate::store::definition::composition as store;
use crate::{Error, Result, compute};

/// What designers know of the workflows that definitions use as activities.
pub(crate) struct KnownWorkflows(Vec<WorkflowType>);

impl KnownWorkflows {
    /// None are known: each activity that uses one is shown as a placeholder.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }
}

impl Engine {
    /// What designers know of the workflows that these definitions use as activities.
    pub(crate) async fn known_workflows(&self, definitions: &[&Value]) -> Result<KnownWorkflows> {
        let mut named = Named::default();
        for definition in definitions {
            named.collect(definition);
        }
        if named.definitions.is_empty() {
            return Ok(KnownWorkflows::none());
        }
        let [ids, versions, types] =
            [named.definitions, named.versions, named.types].map(|names| names.into_iter().collect::<Vec<_>>());
        let node = self.node()?;
        let pool = node.database.reads.by_key();
        let listed = store::listed_types(pool, &self.tenant, &ids, &versions, &types).await?;
        let known = listed.into_iter().map(|listed| WorkflowType {
            type_name: listed.type_name,
            version: listed.version,
            definition_id: listed.definition_id,
            version_id: listed.version_id,
            is_published: listed.is_published,
            outcomes: listed.outcomes,
        });
        Ok(KnownWorkflows(known.collect()))
    }

    /// Definitions in the form that designers can draw: what they cannot hold is inside of it, and a save puts it back.
    #[cfg(feature = "http")]
    pub(crate) async fn for_designers(&self, known: KnownWorkflows, mut definitions: Vec<Value>) -> Result<Vec<Value>> {
        let interpreter = self.inner.interpreter.clone();
        let is_large = definitions.iter().any(compute::is_large);
        let showing = compute::run(is_large, move || {
            for definition in definitions.iter_mut().filter_map(Value::as_object_mut) {
                if let Some(root) = definition.get_mut("root") {
                    interpreter.show_to_designers(&known.0, root);
                }
                crate::definition::keep(definition);
            }
            definitions
        });
        showing.await
    }

    /// An activity of a version by its node id, or the root, as Elsa's designer expects it:
    /// `{activity, nodeId, port, children}`.
    pub async fn definition_subgraph(&self, id: &VersionId, node_id: Option<&str>) -> Result<Value> {
        let node_id = node_id.map(str::to_owned);
        self.of_workflow(id, move |interpreter, known, composition, workflow| {
            let own = workflow.pointer("/root/nodeId").and_then(Value::as_str);
            let found = node_id.and_then(|wanted| interpreter.subgraph(known, composition, workflow, &wanted));
            found.or_else(|| interpreter.subgraph(known, composition, workflow, own.unwrap_or_default()))
        })
        .await
    }

    /// The containers around an activity of a version: `{childNode, container, pathSegments}`. An unknown node id is refused
    /// as `node-not-found`.
    pub async fn definition_path_segments(&self, id: &VersionId, node_id: &str) -> Result<Value> {
        let node_id = node_id.to_owned();
        self.of_workflow(id, move |interpreter, known, composition, workflow| {
            interpreter.path_segments(known, composition, workflow, &node_id)
        })
        .await
    }

    /// What is computed from a version as the activity that contains its root, as designers see it.
    async fn of_workflow(
        &self,
        id: &VersionId,
        of: impl FnOnce(&Interpreter, &[WorkflowType], &Composition, &Value) -> Option<Value> + Send + 'static,
    ) -> Result<Value> {
        let mut definition = self.definition_version(id).await?;
        // A draft may be saved before it has one.
        if !definition.get("root").is_some_and(Value::is_object) {
            let message = format!("the version {:?} has no root activity", id.as_str());
            return Err(Error::not_found("definition-not-found", message));
        }
        let interpreter = self.inner.interpreter.clone();
        let is_large = compute::is_large(&definition);
        let model = WorkflowDefinition::from_stored(definition.clone())?;
        let composition = self.used_by(&*self.node()?, &model).await?;
        let used = composition.used.values();
        let roots = used.filter_map(|used| used.definition.root.as_ref());
        let roots: Vec<&Value> = roots.chain([&definition]).collect();
        let known = self.known_workflows(&roots).await?;
        let found = compute::run(is_large, move || {
            let root = definition.get_mut("root")?;
            interpreter.show_to_designers(&known.0, root);
            let workflow = interpreter.workflow_node(&model, root.take());
            of(&interpreter, &known.0, &composition, &workflow)
        });
        found.await?.ok_or_else(|| {
            let message = "the version has no activity with this node id";
            Error::invalid("node-not-found", message).field("nodeId", message)
        })
    }
}

/// What activities name of the workflows that they use, wherever they are.
#[derive(Default)]
struct Named<'a> {
    definitions: BTreeSet<&'a str>,
    versions: BTreeSet<&'a str>,
    types: BTreeSet<&'a str>,
}

impl<'a> Named<'a> {
    fn collect(&mut self, value: &'a Value) {
        match value {
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                if let Some(definition) = text("workflowDefinitionId") {
                    self.definitions.insert(definition);
                    self.versions.extend(text("workflowDefinitionVersionId"));
                    self.types.extend(text("type"));
                }
                fields.values().for_each(|field| self.collect(field));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }
}

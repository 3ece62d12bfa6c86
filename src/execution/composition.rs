//! The workflows that a definition uses as activities.
//!
//! An activity names a definition and, mostly, one of its versions: a *reference*. The version that a reference means
//! is decided once, when the consumer is published or its draft is started, and is stored with the version of the
//! consumer. So a version always has the same program, on every node. Each version in a composition has its own
//! references.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::activity::{Catalogue, ChildProperty};
use crate::definition::{ActivityTitle, RawActivity, WorkflowDefinition};
use crate::id::{DefinitionId, VersionId};

/// How deeply workflows can be nested as activities.
pub(super) const MOST_LEVELS: usize = 32;

/// How an activity names a version of another definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowReference {
    /// The definition.
    pub definition_id: DefinitionId,
    /// The type of the activity, which names the definition if none has that id, as in files of another server.
    pub type_name: String,
    /// The id of the version; empty when its number names it.
    pub version_id: VersionId,
    /// The number of the version if it has no id here; otherwise 0.
    pub version: i32,
}

/// An activity that uses a workflow.
#[derive(Clone, Debug)]
pub(crate) struct UsingActivity {
    pub(crate) id: String,
    /// How a message names it.
    pub(crate) title: String,
}

/// The property of an activity with the id of the definition that it uses.
const DEFINITION: &str = "workflowDefinitionId";
const VERSION: &str = "workflowDefinitionVersionId";

impl WorkflowReference {
    /// The reference of an activity: of a type that is not registered, with the id of a definition as plain text.
    pub(crate) fn of(catalogue: &Catalogue, raw: RawActivity<'_>) -> Option<Self> {
        let text = |name: &str| raw.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let definition = text(DEFINITION)?;
        if catalogue
            .find(raw.type_name(), raw.named_version().unwrap_or(0))
            .is_some()
        {
            return None;
        }
        let version_id = text(VERSION).unwrap_or_default();
        Some(Self {
            definition_id: definition.into(),
            type_name: raw.type_name().to_owned(),
            version_id: version_id.into(),
            version: if version_id.is_empty() { raw.version() } else { 0 },
        })
    }

    /// Lets an activity name exactly this version.
    fn write(activity: &mut Map<String, Value>, (definition, version, number): (&DefinitionId, &VersionId, i32)) {
        for (name, value) in [
            (DEFINITION, Value::from(definition.as_str())),
            (VERSION, version.as_str().into()),
            ("version", number.into()),
            ("latestAvailablePublishedVersionId", version.as_str().into()),
            ("latestAvailablePublishedVersion", number.into()),
        ] {
            activity.insert(name.to_owned(), value);
        }
    }
}

/// The references in one version, with the versions that they mean.
pub type References = BTreeMap<WorkflowReference, VersionId>;

/// What references mean from now on: the definition, the version and its number.
pub(crate) type Targets = BTreeMap<WorkflowReference, (DefinitionId, VersionId, i32)>;

/// One version in a composition, with what its own references mean.
#[derive(Clone, Debug)]
pub struct UsedVersion {
    /// The version.
    pub definition: WorkflowDefinition,
    /// What it uses in turn.
    pub references: References,
}

/// The versions that a definition uses as activities, through all levels.
#[derive(Clone, Debug, Default)]
pub struct Composition {
    /// What the definition itself uses.
    pub references: References,
    /// All versions that are used, by their ids.
    pub used: HashMap<VersionId, UsedVersion>,
}

impl Composition {
    /// The version that a reference of the definition itself (`None`) or of one of the versions means.
    pub(super) fn find(&self, within: Option<&VersionId>, reference: &WorkflowReference) -> Option<&UsedVersion> {
        let references = match within {
            None => &self.references,
            Some(version) => &self.used.get(version)?.references,
        };
        self.used.get(references.get(reference)?)
    }

    /// Adds what another composition has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.used.extend(other.used);
    }

    /// The path of definitions from the owner of these references to the definition `wanted`, which is the last of
    /// them; `None` if it is not used.
    pub(crate) fn path_from(&self, references: &References, wanted: &DefinitionId) -> Option<Vec<DefinitionId>> {
        let mut seen: HashMap<&VersionId, Option<&VersionId>> = HashMap::new();
        let mut pending: Vec<(&VersionId, Option<&VersionId>)> = references.values().map(|id| (id, None)).collect();
        while let Some((version, from)) = pending.pop() {
            if seen.contains_key(version) {
                continue;
            }
            seen.insert(version, from);
            let Some(part) = self.used.get(version) else { continue };
            if part.definition.definition_id == *wanted {
                let mut path = vec![wanted.clone()];
                let mut at = from;
                while let Some(version) = at {
                    if let Some(part) = self.used.get(version) {
                        path.push(part.definition.definition_id.clone());
                    }
                    at = seen.get(version).copied().flatten();
                }
                path.reverse();
                return Some(path);
            }
            pending.extend(part.references.values().map(|id| (id, Some(version))));
        }
        None
    }
}

/// The references in a definition, and the activities that have them.
pub(super) fn references(catalogue: &Catalogue, root: Option<&Value>) -> Vec<(WorkflowReference, UsingActivity)> {
    let mut found = Vec::new();
    if let Some(root) = root {
        collect(catalogue, root, &mut found);
    }
    found
}

/// The recursion is as deep as the JSON, which the model bounds.
fn collect(catalogue: &Catalogue, value: &Value, into: &mut Vec<(WorkflowReference, UsingActivity)>) {
    let Some(raw) = RawActivity::new(value) else { return };
    if let Some(reference) = WorkflowReference::of(catalogue, raw) {
        let activity = UsingActivity {
            id: raw.id().to_owned(),
            title: ActivityTitle::of(raw, raw.id()).to_string(),
        };
        into.push((reference, activity));
        return;
    }
    let Some(descriptor) = catalogue.descriptor(raw.type_name(), raw.named_version().unwrap_or(0)) else {
        return;
    };
    for place in ChildProperty::of(descriptor) {
        for (_, child) in place.children(raw.fields()) {
            collect(catalogue, child, into);
        }
    }
}

/// Lets every activity with one of these references name the version that it maps to; returns whether there is any.
pub(super) fn update(catalogue: &Catalogue, activity: &mut Value, targets: &Targets) -> bool {
    let Some(raw) = RawActivity::new(activity) else {
        return false;
    };
    if let Some(reference) = WorkflowReference::of(catalogue, raw) {
        let target = targets.get(&reference);
        if let (Some((definition, version, number)), Some(fields)) = (target, activity.as_object_mut()) {
            WorkflowReference::write(fields, (definition, version, *number));
        }
        return target.is_some();
    }
    let descriptor = catalogue.descriptor(raw.type_name(), raw.named_version().unwrap_or(0));
    let places = descriptor.map(ChildProperty::of).unwrap_or_default();
    let mut is_changed = false;
    if let Some(fields) = activity.as_object_mut() {
        for place in places {
            for child in place.children_mut(fields) {
                is_changed |= update(catalogue, child, targets);
            }
        }
    }
    is_changed
}

//! What a designer can draw: the activities of a catalogue, and workflows that are used as activities.

use serde_json::Value;

use crate::activity::Catalogue;
use crate::definition::RawActivity;
use crate::id::{DefinitionId, VersionId};

/// A version of a definition that designers know as an activity type.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowType {
    pub(crate) type_name: String,
    pub(crate) version: i32,
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) is_published: bool,
    pub(crate) outcomes: Vec<String>,
}

/// What a designer can draw.
#[derive(Clone, Copy)]
pub(super) struct Drawable<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) workflows: &'a [WorkflowType],
}

impl Drawable<'_> {
    /// The workflow that an activity uses, as Elsa finds it: by the id of the version, otherwise the published or the
    /// newest version of the definition. For a definition of another server it is the one that has the type here, as
    /// when it runs.
    pub(super) fn workflow(&self, raw: RawActivity<'_>) -> Option<&WorkflowType> {
        let text = |property: &str| {
            raw.get(property)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let definition = text("workflowDefinitionId")?;
        let version_id = text("workflowDefinitionVersionId");
        let (type_name, version) = (raw.type_name(), raw.named_version());
        let newest = |known: &&WorkflowType| (known.is_published, known.version);
        let is_wanted = |known: &WorkflowType| version_id.is_none() && version == Some(known.version);
        let all = || self.workflows.iter();
        all()
            .find(|known| version_id == Some(known.version_id.as_str()))
            .or_else(|| {
                all()
                    .filter(|known| known.definition_id.as_str() == definition)
                    .max_by_key(newest)
            })
            .or_else(|| {
                let of_type = all().filter(|known| known.type_name == type_name);
                of_type.max_by_key(|known| (is_wanted(known), newest(known)))
            })
    }
}

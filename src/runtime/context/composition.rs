//! Converts the rows of a composition for the interpreter.

use crate::Result;
use crate::definition::WorkflowDefinition;
use crate::execution::{Composition, References, UsedVersion, WorkflowReference};
use crate::id::{DefinitionId, VersionId};
use crate::store::definition::composition::{ReferenceKey, UsedVersionRow};

/// A reference as a row.
pub(crate) fn key_of(reference: &WorkflowReference) -> ReferenceKey {
    ReferenceKey {
        definition_id: reference.definition_id.as_str().to_owned(),
        type_name: reference.type_name.clone(),
        version_id: reference.version_id.as_str().to_owned(),
        version: reference.version,
    }
}

fn reference_of(key: ReferenceKey) -> WorkflowReference {
    WorkflowReference {
        definition_id: DefinitionId::new(key.definition_id),
        type_name: key.type_name,
        version_id: VersionId::new(key.version_id),
        version: key.version,
    }
}

/// A version with its references. Parses all of the definition: a large one on a compute thread.
pub(crate) fn used_version_of(row: UsedVersionRow) -> Result<UsedVersion> {
    let mut definition = WorkflowDefinition::from_stored(row.body)?;
    definition.id = row.version_id;
    definition.definition_id = row.definition_id;
    definition.version = row.version;
    let references = row.references.into_iter();
    Ok(UsedVersion {
        definition,
        references: references
            .map(|(key, used)| (reference_of(key), used))
            .collect::<References>(),
    })
}

/// A version, and what it uses.
pub(crate) fn composed(
    rows: Vec<UsedVersionRow>,
    version: &VersionId,
) -> Result<Option<(WorkflowDefinition, Composition)>> {
    let mut composition = Composition::default();
    for row in rows {
        let part = used_version_of(row)?;
        composition.used.insert(part.definition.id.clone(), part);
    }
    let own = composition.used.remove(version);
    Ok(own.map(|own| {
        composition.references = own.references;
        (own.definition, composition)
    }))
}

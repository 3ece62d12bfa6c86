//! The sample definitions that `mainspring dev` brings along.

use crate::definition::WorkflowDefinition;
use crate::runtime::{Engine, VersionOptions};
use crate::{Error, Result};

/// The definition id of the sample that is run at the start.
pub(super) const FIRST: &str = "hello-world";

const SAMPLES: [(&str, &str); 1] = [("hello-world", include_str!("../../samples/hello-world.json"))];

/// Imports and publishes those that the engine does not have yet: what a user changed stays as it is.
pub(super) async fn load(engine: &Engine) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for (name, text) in SAMPLES {
        let definition = WorkflowDefinition::from_json(text.as_bytes())
            .map_err(|error| Error::internal(format!("the sample {name} cannot be read")).caused_by(error))?;
        let id = definition.definition_id.clone();
        match engine.definition(&id, VersionOptions::Published).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                engine.import(definition).await?;
                engine.publish(&id).await?;
            }
            Err(error) => return Err(error),
        }
        ids.push(id.as_str().to_owned());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_is_a_definition_and_the_first_is_among_them() {
        let ids = SAMPLES.map(|(_, text)| {
            WorkflowDefinition::from_json(text.as_bytes())
                .unwrap()
                .definition_id
                .as_str()
                .to_owned()
        });
        assert!(ids.contains(&FIRST.to_owned()));
        assert!(ids.iter().all(|id| !id.is_empty()));
    }
}

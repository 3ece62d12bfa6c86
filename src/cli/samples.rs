//! The sample definitions of `mainspring dev`.

use crate::definition::WorkflowDefinition;
use crate::runtime::{Engine, VersionOptions};
use crate::{Error, Result};

/// The definition id of the sample that `dev` runs at its start.
pub(super) const FIRST_SAMPLE: &str = "hello-world";

/// A sample of the folder `samples` by its name, which is also its definition id.
macro_rules! sample {
    ($name:literal) => {
        ($name, include_str!(concat!("../../samples/", $name, ".json")))
    };
}

const SAMPLES: [(&str, &str); 16] = [
    sample!("hello-world"),
    sample!("shopping-list"),
    sample!("countdown"),
    sample!("fork-join"),
    sample!("parcels"),
    sample!("delay"),
    sample!("event"),
    sample!("order-approval"),
    sample!("ticket"),
    sample!("retries"),
    sample!("mailing"),
    sample!("invoice"),
    sample!("scripts"),
    sample!("web-greeting"),
    sample!("web-order"),
    sample!("approval-by-mail"),
];

/// Imports and publishes the samples that the engine lacks, and returns the ids of all. Changed samples stay as they are.
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
    fn every_sample_of_the_folder_is_included_under_its_name() {
        for (name, text) in SAMPLES {
            let definition = WorkflowDefinition::from_json(text.as_bytes()).unwrap();
            assert_eq!(definition.definition_id.as_str(), name);
        }
        assert_eq!(SAMPLES[0].0, FIRST_SAMPLE);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), SAMPLES.len());
    }
}

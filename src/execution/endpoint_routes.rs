//! The routes of the endpoints that start a definition: of two with a path in common, either could answer a request.

use std::collections::HashMap;

use serde_json::Value;

#[cfg(feature = "http")]
use crate::activity::EndpointRoute;
use crate::activity::{ActivityNode, NodeIndex};
use crate::id::StimulusHash;
use crate::shortened::shortened;

/// With so many endpoints each one is compared, which takes some ms where these have regular expressions.
#[cfg(feature = "http")]
const MOST_COMPARED: usize = 32;

/// The endpoints that were seen.
#[derive(Default)]
pub(super) struct EndpointRoutes {
    /// The first activity with each route, and its title.
    by_route: HashMap<StimulusHash, (NodeIndex, String)>,
    /// Those with each outline, by their title and path.
    #[cfg(feature = "http")]
    by_outline: HashMap<String, Vec<(String, String)>>,
}

impl EndpointRoutes {
    /// Adds a route of an endpoint; false if it names that twice. Errors: which other endpoint a request could be for.
    pub(super) fn add(&mut self, node: &ActivityNode, hash: StimulusHash, options: &Value) -> Result<bool, String> {
        let text = |name: &str| options.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, method) = (text("path"), text("method"));
        match self.by_route.get(&hash) {
            Some((index, _)) if *index == node.index => return Ok(false),
            Some((_, other)) => {
                let (path, method) = (shortened(path, 100), method.to_uppercase());
                return Err(format!(
                    "its path {path} with the method {method} is also that of the {other}, so that a request would be ambiguous; \
                     give one of them another path or method"
                ));
            }
            None => {}
        }
        #[cfg(feature = "http")]
        self.check_overlap(node, path, method)?;
        self.by_route.insert(hash, (node.index, node.title().to_string()));
        Ok(true)
    }

    #[cfg(feature = "http")]
    fn check_overlap(&mut self, node: &ActivityNode, path: &str, method: &str) -> Result<(), String> {
        let Ok(route) = EndpointRoute::new(path, method) else {
            return Ok(());
        };
        let Some(outline) = route.outline() else {
            return Ok(());
        };
        let known = self.by_outline.entry(outline).or_default();
        for (other, theirs) in known.iter().rev().take(MOST_COMPARED) {
            let common = EndpointRoute::new(theirs, method)
                .ok()
                .and_then(|theirs| route.template().common_path(theirs.template()));
            if let Some(common) = common {
                let method = method.to_uppercase();
                let [common, path, theirs] = [&common, path, theirs.as_str()].map(|path| shortened(path, 100));
                return Err(format!(
                    "its path {path} with the method {method} matches {common}, as does the path {theirs} of the {other}, so that \
                     a request would be ambiguous; give one of them another path or method"
                ));
            }
        }
        known.push((node.title().to_string(), path.to_owned()));
        Ok(())
    }
}

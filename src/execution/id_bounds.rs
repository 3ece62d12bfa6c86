//! The bounds of the ids of activities.
//!
//! A node id repeats the ids of everything around an activity, so long ids of containers take memory for each activity
//! inside whenever a definition is shown, compiled or recorded. A saved definition is within the bounds; a definition
//! that was stored otherwise is shown without the node ids that exceed them, and has no program.

use serde_json::Value;

use super::node_id::{IdMaker, MOST_BYTES, WORKFLOW_ID, node_id, places};
use crate::activity::Catalogue;
use crate::definition::{ActivityTitle, RawActivity};
use crate::{Error, Result};

/// The longest id of an activity, in bytes: as in Elsa's columns.
const LONGEST_ID: usize = 450;

/// The longest node id: of an activity and everything around it.
pub(super) const LONGEST_PATH: usize = 8_000;

/// Refuses a tree with activity ids that are too long: `definition-too-large`, with the place of the first one.
pub(super) fn check(catalogue: &Catalogue, root: &Value) -> Result<()> {
    let mut check = IdCheck {
        catalogue,
        ids: IdMaker::of(root),
        left: MOST_BYTES,
    };
    check.below(root, WORKFLOW_ID).map_err(|problem| {
        let error = Error::invalid("definition-too-large", problem.clone());
        error.field("root", problem)
    })
}

struct IdCheck<'a> {
    catalogue: &'a Catalogue,
    ids: IdMaker,
    left: usize,
}

impl IdCheck<'_> {
    /// The recursion is as deep as the JSON, which the model bounds.
    fn below(&mut self, activity: &Value, parent: &str) -> Result<(), String> {
        let Some(raw) = RawActivity::new(activity) else {
            return Ok(());
        };
        let id = match raw.id() {
            "" => self.ids.make(raw.type_name()),
            id => id.to_owned(),
        };
        let title = ActivityTitle::of(raw, &id).with_id();
        let place = || format!("{title} in {}", short(parent));
        let bytes = parent.len() + 1 + id.len();
        if id.len() > LONGEST_ID {
            return Err(format!(
                "The id of the activity {} has {} bytes, and at most {LONGEST_ID} are allowed; give it a shorter one",
                place(),
                id.len()
            ));
        }
        if bytes > LONGEST_PATH {
            return Err(format!(
                "The ids of the activity {} and of all around it have {bytes} bytes, and at most {LONGEST_PATH} are allowed; give \
                 them shorter ones, or move inner activities to a workflow of their own",
                place()
            ));
        }
        self.left = self.left.checked_sub(bytes).ok_or_else(|| too_many_bytes(&place()))?;
        let path = node_id(parent, &id);
        for place in places(self.catalogue, raw) {
            for (_, child) in place.children(raw.fields()) {
                self.below(child, &path)?;
            }
        }
        Ok(())
    }
}

/// The problem of node ids that have more than [`MOST_BYTES`] from this activity on.
pub(super) fn too_many_bytes(place: &str) -> String {
    format!(
        "The node ids of the activities, up to {place}, have more than {} MiB together; give the activities that contain many \
         others shorter ids, or move them to a workflow of their own",
        MOST_BYTES >> 20
    )
}

/// An id as a message shows it.
pub(super) fn short(id: &str) -> String {
    const LONGEST: usize = 80;
    match id.char_indices().nth(LONGEST) {
        None => id.to_owned(),
        Some((end, _)) => format!("{}…", id.get(..end).unwrap_or_default()),
    }
}

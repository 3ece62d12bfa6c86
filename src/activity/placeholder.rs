//! `Elsa.NotFoundActivity`: what Elsa writes into a definition in the place of an activity whose type it does not know.
//!
//! No activity of this type is registered, so a definition that has one cannot be published. Designers show it.

use super::Descriptor;

impl Descriptor {
    /// Elsa's placeholder for an activity of an unknown type. It is not registered; designers show it.
    pub fn placeholder() -> Self {
        Self::new("Elsa.NotFoundActivity")
            .describe(
                "System",
                "Stands for an activity of a type that the server did not know. It cannot run.",
            )
            .hidden()
    }
}

//! `Elsa.NotFoundActivity`: what designers get in the place of an activity that they cannot draw.
//!
//! No activity of this type is registered, so a definition that has one cannot be published. Designers show it.

use super::{Descriptor, InputDescriptor, UiHint};
use crate::definition::PLACEHOLDER;

impl Descriptor {
    /// Elsa's placeholder for an activity of an unknown type. It is not registered; designers show it.
    pub fn placeholder() -> Self {
        Self::new(PLACEHOLDER)
            .describe(
                "System",
                "Stands for an activity of a type that the server does not know. It cannot run.",
            )
            // As the property of a placeholder.
            .input(
                InputDescriptor::new("Outcomes", "String[]")
                    .describe("The outcomes that are connected.")
                    .hint(UiHint::DynamicOutcomes(Vec::new()))
                    .hidden(),
            )
            .hidden()
    }
}

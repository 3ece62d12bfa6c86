//! An output of an activity type.

use super::words;

/// An output of an activity type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputDescriptor {
    /// In Pascal case.
    pub name: String,
    /// Elsa's type name.
    pub type_name: String,
    /// The name that the designer shows: the name in words, unless another is given.
    pub display_name: String,
    /// For the designer.
    pub description: String,
    /// Not shown by the designer.
    pub is_hidden: bool,
    /// A fact for designers: whether Elsa writes its value to the journal.
    pub is_serializable: bool,
}

impl OutputDescriptor {
    /// An output of that name and type.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            display_name: words(&name),
            name,
            type_name: type_name.into(),
            description: String::new(),
            is_hidden: false,
            is_serializable: true,
        }
    }

    /// Sets the name that the designer shows.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the description of the output.
    #[must_use]
    pub fn describe(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Tells designers that Elsa does not write its value to the journal.
    #[must_use]
    pub fn not_serializable(mut self) -> Self {
        self.is_serializable = false;
        self
    }

    /// Hides the output in the designer.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }
}

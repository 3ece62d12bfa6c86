//! Converters of outputs: a program converts a value on its way from an activity to a variable.
//!
//! A definition names a converter by its id at the binding of an output. The journal, and scripts that read outputs,
//! see the value that the activity set; the variable or the workflow's output receives what the converter returns.

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::settings_schema::SettingsSchema;
use crate::expression::{TypeName, coerce, is_assignable};
use crate::{Error, Result};

/// The longest id of a converter, in bytes.
const LONGEST_ID: usize = 200;

/// The id, the types and the settings of a converter.
#[derive(Clone, Debug, PartialEq)]
pub struct ConverterDescriptor {
    /// What definitions name it by, case-sensitive. Its meaning never changes: a converter that behaves differently, or
    /// has other settings, gets another id.
    pub id: String,
    /// Elsa's name of the type that it accepts; `Object` accepts every output.
    pub source_type: String,
    /// Elsa's name of the type that it returns.
    pub result_type: String,
    /// The name that the designer shows.
    pub display_name: String,
    /// For the designer.
    pub description: Option<String>,
    /// The JSON Schema of its settings, from which the designer makes fields: an object with properties that have the types
    /// `string`, `number`, `integer` or `boolean`, and `enum`, `required`, `title`, `description`, `default`, `minimum`, `maximum`,
    /// `additionalProperties`.
    pub settings_schema: Option<Value>,
}

impl ConverterDescriptor {
    /// A converter from one type to another. The designer shows the id, unless a name is set.
    pub fn new(id: impl Into<String>, source_type: impl Into<String>, result_type: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            display_name: id.clone(),
            id,
            source_type: source_type.into(),
            result_type: result_type.into(),
            description: None,
            settings_schema: None,
        }
    }

    /// Sets the name that the designer shows.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn describe(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the schema of its settings.
    #[must_use]
    pub fn settings_schema(mut self, schema: Value) -> Self {
        self.settings_schema = Some(schema);
        self
    }

    /// Whether it can stand between an output of one type and a variable of another.
    pub fn is_compatible(&self, source_type: &str, target_type: &str) -> bool {
        is_assignable(source_type, &self.source_type) && is_assignable(&self.result_type, target_type)
    }
}

/// One conversion.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OutputConversion<'a> {
    /// The value that the activity set; never null.
    pub value: &'a Value,
    /// The declared type of the output.
    pub source_type: &'a str,
    /// The declared type of the variable or of the workflow's output.
    pub target_type: &'a str,
    /// The settings of this binding: an object, if there are any.
    pub settings: Option<&'a Value>,
}

/// Converts outputs. One value serves all bursts at once.
///
/// A conversion runs within its burst, so it does not block, has no effects, and returns the same result for the same
/// input: a repeated burst repeats it. Anything else needs an activity.
pub trait OutputConverter: Send + Sync + 'static {
    /// Its id, types and settings.
    fn descriptor(&self) -> ConverterDescriptor;

    /// The value for the variable.
    ///
    /// # Errors
    /// Any error becomes a fault of the activity, which names the converter, the activity and the output, and leaves
    /// the variable as it is. Its message is logged at `debug` only, as it may hold what was converted.
    fn convert(&self, conversion: OutputConversion<'_>) -> std::result::Result<Value, Box<dyn StdError + Send + Sync>>;

    /// The problems of settings that fulfil the schema; called when a definition is published and again at each
    /// conversion. By default it returns none.
    fn validate_settings(&self, settings: Option<&Value>) -> Vec<String> {
        let _ = settings;
        Vec::new()
    }
}

/// Where a conversion failed.
#[derive(Debug)]
pub(crate) enum ConversionStage {
    /// The converter or the target is unknown.
    Resolution,
    /// The converter does not accept this output.
    SourceCompatibility,
    SettingsValidation,
    /// The converter returned an error or panicked, with its message.
    Invocation(String),
    /// What it returned does not fit.
    ResultValidation,
}

impl fmt::Display for ConversionStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolution => "Resolution",
            Self::SourceCompatibility => "SourceCompatibility",
            Self::SettingsValidation => "SettingsValidation",
            Self::Invocation(_) => "Invocation",
            Self::ResultValidation => "ResultValidation",
        })
    }
}

/// A converter with what was derived from its descriptor.
#[derive(Clone)]
pub(crate) struct RegisteredConverter {
    pub(crate) descriptor: Arc<ConverterDescriptor>,
    schema: Arc<SettingsSchema>,
    converter: Arc<dyn OutputConverter>,
}

impl RegisteredConverter {
    /// Errors: `invalid-converter`.
    pub(super) fn new(converter: impl OutputConverter) -> Result<Self> {
        let descriptor = converter.descriptor();
        let invalid = |problem: String| {
            let message = format!("the output converter {:?} cannot be used: {problem}", descriptor.id);
            Error::invalid("invalid-converter", message)
        };
        if descriptor.id.trim().is_empty() || descriptor.id.len() > LONGEST_ID {
            return Err(invalid(format!("its id has 1 to {LONGEST_ID} bytes")));
        }
        for name in [&descriptor.source_type, &descriptor.result_type] {
            if name.trim().is_empty() {
                return Err(invalid("it names the types that it accepts and returns".to_owned()));
            }
        }
        let schema = SettingsSchema::read(descriptor.settings_schema.as_ref()).map_err(invalid)?;
        Ok(Self {
            descriptor: Arc::new(descriptor),
            schema: Arc::new(schema),
            converter: Arc::new(converter),
        })
    }

    /// What is wrong with the settings of a binding.
    pub(crate) fn problems_of(&self, settings: Option<&Value>) -> Vec<String> {
        let of_schema = self.schema.problems(settings);
        if !of_schema.is_empty() {
            return of_schema;
        }
        let own = catch_unwind(AssertUnwindSafe(|| self.converter.validate_settings(settings)));
        own.unwrap_or_else(|_| vec!["the converter panicked while it checked them".to_owned()])
    }

    /// The value for its target.
    pub(crate) fn convert(&self, conversion: OutputConversion<'_>) -> std::result::Result<Value, ConversionStage> {
        let OutputConversion {
            source_type,
            target_type,
            settings,
            ..
        } = conversion;
        let descriptor = &self.descriptor;
        if !is_assignable(source_type, &descriptor.source_type) {
            return Err(ConversionStage::SourceCompatibility);
        }
        if !is_assignable(&descriptor.result_type, target_type) {
            return Err(ConversionStage::ResultValidation);
        }
        if !self.problems_of(settings).is_empty() {
            return Err(ConversionStage::SettingsValidation);
        }
        let called = catch_unwind(AssertUnwindSafe(|| self.converter.convert(conversion)));
        let value = match called {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return Err(ConversionStage::Invocation(error.to_string())),
            Err(_) => return Err(ConversionStage::Invocation("it panicked".to_owned())),
        };
        let own = TypeName::parse(&descriptor.result_type, false);
        let target = TypeName::parse(target_type, false);
        let fits = coerce(value, &own).and_then(|value| coerce(value, &target));
        fits.map_err(|_| ConversionStage::ResultValidation)
    }
}

impl fmt::Debug for RegisteredConverter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredConverter").field(&self.descriptor.id).finish()
    }
}

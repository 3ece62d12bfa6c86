//! The registry of activity types.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

#[cfg(feature = "http")]
use super::http::HttpServices;
use super::{
    Activity, ActivityContext, Choice, ConverterDescriptor, Descriptor, EndedChild, Fault, OutputConverter,
    RegisteredConverter, Resumption, Step, TriggerStimulus, composition, control_flow, flowchart, generic, parallel,
    primitives, publish_event, run_task, scheduling, scripting, state_machine, switch, try_catch,
};
use crate::Error;
use crate::expression::{language_requirements, script_activities};
#[cfg(feature = "http")]
use crate::mail::MailClient;
use crate::schedule::Schedule;

type StepFuture<'a> = Pin<Box<dyn Future<Output = Result<Step, Fault>> + Send + 'a>>;
type ChoicesFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Choice>, Fault>> + Send + 'a>>;

/// The object-safe form of [`Activity`]: it boxes the futures, so that implementors need not.
pub(crate) trait ErasedActivity: Send + Sync {
    fn execute<'a>(&'a self, context: &'a mut ActivityContext<'_>) -> StepFuture<'a>;
    fn resumed<'a>(&'a self, context: &'a mut ActivityContext<'_>, resumption: Resumption) -> StepFuture<'a>;
    fn child_completed<'a>(&'a self, context: &'a mut ActivityContext<'_>, child: EndedChild) -> StepFuture<'a>;
    fn child_cancelled<'a>(&'a self, context: &'a mut ActivityContext<'_>, child: EndedChild) -> StepFuture<'a>;
    fn trigger_stimuli(&self, inputs: &Map<String, Value>) -> Result<Vec<TriggerStimulus>, Vec<String>>;
    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<crate::Result<Schedule>>;
    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String>;
    fn choices<'a>(&'a self, input: &'a str, values: &'a Map<String, Value>) -> ChoicesFuture<'a>;
}

impl<A: Activity> ErasedActivity for A {
    fn execute<'a>(&'a self, context: &'a mut ActivityContext<'_>) -> StepFuture<'a> {
        Box::pin(Activity::execute(self, context))
    }

    fn resumed<'a>(&'a self, context: &'a mut ActivityContext<'_>, resumption: Resumption) -> StepFuture<'a> {
        Box::pin(Activity::resumed(self, context, resumption))
    }

    fn child_completed<'a>(&'a self, context: &'a mut ActivityContext<'_>, child: EndedChild) -> StepFuture<'a> {
        Box::pin(Activity::child_completed(self, context, child))
    }

    fn child_cancelled<'a>(&'a self, context: &'a mut ActivityContext<'_>, child: EndedChild) -> StepFuture<'a> {
        Box::pin(Activity::child_cancelled(self, context, child))
    }

    fn trigger_stimuli(&self, inputs: &Map<String, Value>) -> Result<Vec<TriggerStimulus>, Vec<String>> {
        Activity::trigger_stimuli(self, inputs)
    }

    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<crate::Result<Schedule>> {
        Activity::trigger_schedule(self, inputs)
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        Activity::input_problems(self, inputs)
    }

    fn choices<'a>(&'a self, input: &'a str, values: &'a Map<String, Value>) -> ChoicesFuture<'a> {
        Box::pin(Activity::choices(self, input, values))
    }
}

/// A registered activity type.
#[derive(Clone)]
pub(crate) struct RegisteredActivity {
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) activity: Arc<dyn ErasedActivity>,
}

/// The activity types that an engine knows, by name and version.
#[derive(Clone, Default)]
pub struct Catalogue {
    types: HashMap<String, BTreeMap<i32, RegisteredActivity>>,
    converters: BTreeMap<String, RegisteredConverter>,
    /// What the HTTP activities share.
    #[cfg(feature = "http")]
    pub(super) http: Arc<HttpServices>,
    /// The client of mails, if a server is set.
    #[cfg(feature = "http")]
    pub(super) mail: Option<MailClient>,
}

impl Catalogue {
    /// A catalogue without types.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A catalogue of Elsa's activity types, and of Mainspring's own.
    pub fn standard() -> Self {
        let mut catalogue = Self::empty();
        catalogue
            .register(control_flow::Workflow)
            .register(control_flow::Sequence)
            .register(parallel::Parallel)
            .register(parallel::Fork)
            .register(flowchart::Flowchart)
            .register(flowchart::FlowDecision)
            .register(switch::FlowSwitch)
            .register(flowchart::FlowFork)
            .register(flowchart::FlowJoin)
            .register(flowchart::FlowNode)
            .register(flowchart::Start)
            .register(flowchart::End)
            .register(state_machine::StateMachine)
            .register(control_flow::If)
            .register(switch::Switch)
            .register(control_flow::While)
            .register(control_flow::DoWhile)
            .register(control_flow::For)
            .register(control_flow::ForEach)
            .register(parallel::ParallelForEach)
            .register(control_flow::Break)
            .register(try_catch::Try)
            .register(control_flow::Finish)
            .register(control_flow::Complete)
            .register(primitives::FaultActivity)
            .register(primitives::SetVariable)
            .register(primitives::SetName)
            .register(primitives::Correlate)
            .register(primitives::SetOutput)
            .register(primitives::WriteLine)
            .register(scheduling::Delay)
            .register(scheduling::Timer)
            .register(scheduling::CronActivity)
            .register(scheduling::StartAt)
            .register(primitives::Event)
            .register(publish_event::PublishEvent)
            .register(run_task::RunTask)
            .register(composition::DispatchWorkflow)
            .register(composition::BulkDispatchWorkflows)
            .register(composition::ExecuteWorkflow);
        #[cfg(feature = "http")]
        catalogue.register_http(&Arc::default());
        for (type_name, language) in script_activities() {
            catalogue.register(scripting::RunScript(type_name, language));
        }
        catalogue
    }

    /// Adds an activity type; one of the same name and version is replaced.
    pub fn register(&mut self, activity: impl Activity) -> &mut Self {
        let descriptor = activity.descriptor();
        let versions = self.types.entry(descriptor.type_name.clone()).or_default();
        versions.insert(
            descriptor.version,
            RegisteredActivity {
                descriptor: Arc::new(descriptor),
                activity: Arc::new(activity),
            },
        );
        self
    }

    /// Adds a converter of outputs.
    ///
    /// # Errors
    /// `invalid-converter`, also when another converter has the same id except for upper and lower case.
    pub fn register_converter(&mut self, converter: impl OutputConverter) -> crate::Result<&mut Self> {
        let registered = RegisteredConverter::new(converter)?;
        let id = registered.descriptor.id.clone();
        if let Some(other) = self.converters.keys().find(|other| other.eq_ignore_ascii_case(&id)) {
            let message = format!("the output converter {id:?} cannot be used: {other:?} is registered already");
            return Err(Error::invalid("invalid-converter", message));
        }
        self.converters.insert(id, registered);
        Ok(self)
    }

    /// The converter of exactly that id.
    pub(crate) fn converter(&self, id: &str) -> Option<&RegisteredConverter> {
        self.converters.get(id)
    }

    /// The registered converters, sorted by id.
    pub fn converters(&self) -> impl Iterator<Item = &ConverterDescriptor> {
        self.converters.values().map(|registered| &*registered.descriptor)
    }

    /// Removes all versions of a type; returns whether it was registered.
    pub fn remove(&mut self, type_name: &str) -> bool {
        self.types.remove(type_name).is_some()
    }

    /// Everything that a definition can require of this catalogue and this build, sorted: see [`requirement`].
    pub(crate) fn requirements(&self) -> Vec<String> {
        let mut all: Vec<String> = self.types.keys().cloned().collect();
        for (name, versions) in &self.types {
            all.extend(versions.keys().map(|version| requirement(name, *version)));
            all.extend(generic::requirements_of(name).map(str::to_owned));
        }
        all.extend(self.converters.keys().map(|id| converter_requirement(id)));
        all.extend(language_requirements());
        all.sort();
        all.dedup();
        all
    }

    /// The registered versions of a type, in ascending order.
    pub(crate) fn versions(&self, type_name: &str) -> Vec<i32> {
        let versions = self.versions_of(type_name);
        versions
            .map(|versions| versions.keys().copied().collect())
            .unwrap_or_default()
    }

    /// The type of that name in exactly the version that a definition names. Without one (0), version 1 or, if that is
    /// not registered, the newest. Elsa's own types carry the versions of Elsa's packages, so any version of them is
    /// found. A generic type of Elsa resolves to its plain type.
    pub(crate) fn find(&self, type_name: &str, version: i32) -> Option<&RegisteredActivity> {
        let versions = self.versions_of(type_name)?;
        match versions.get(&version) {
            Some(found) => Some(found),
            None if is_elsa_type(type_name) => versions.values().next_back(),
            None if version > 0 => None,
            None => versions.get(&1).or_else(|| versions.values().next_back()),
        }
    }

    fn versions_of(&self, type_name: &str) -> Option<&BTreeMap<i32, RegisteredActivity>> {
        let registered = self.types.get(type_name);
        registered.or_else(|| self.types.get(generic::plain_type(type_name)?))
    }

    /// The choices of a [refreshed](super::InputDescriptor::refreshed) input now, see [`Activity::choices`]; `None` if there is
    /// no such type.
    ///
    /// # Errors
    /// The fault of the activity type.
    pub async fn choices(
        &self,
        type_name: &str,
        version: i32,
        input: &str,
        values: &Map<String, Value>,
    ) -> Option<Result<Vec<Choice>, Fault>> {
        let registered = self.find(type_name, version)?;
        Some(registered.activity.choices(input, values).await)
    }

    /// The descriptor of a type, see [`Catalogue::descriptors`].
    pub fn descriptor(&self, type_name: &str, version: i32) -> Option<&Descriptor> {
        self.find(type_name, version).map(|registered| &*registered.descriptor)
    }

    /// All types, sorted by name and version.
    pub fn descriptors(&self) -> Vec<&Descriptor> {
        let mut all: Vec<&Descriptor> = self
            .types
            .values()
            .flat_map(BTreeMap::values)
            .map(|registered| &*registered.descriptor)
            .collect();
        all.sort_by(|a, b| a.type_name.cmp(&b.type_name).then(a.version.cmp(&b.version)));
        all
    }
}

/// Whether a type is one of Elsa's, by its prefix. Types of a program have another prefix, or none.
pub(crate) fn is_elsa_type(type_name: &str) -> bool {
    type_name.starts_with("Elsa.")
}

/// What a node must have registered to run an activity: the type, with the version if a definition names one and the
/// type is not Elsa's; for a generic type of Elsa, its name without the argument.
pub(crate) fn requirement(type_name: &str, version: i32) -> String {
    if let Some(generic) = generic::generic_requirement(type_name) {
        generic.to_owned()
    } else if version > 0 && !is_elsa_type(type_name) {
        format!("{type_name}@{version}")
    } else {
        type_name.to_owned()
    }
}

/// What a node must have registered to convert outputs.
pub(crate) fn converter_requirement(id: &str) -> String {
    format!("converter:{id}")
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.types.keys()).finish()
    }
}

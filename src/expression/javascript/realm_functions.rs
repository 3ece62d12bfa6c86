//! The functions of a realm that only the engine calls, and the host functions that implement Elsa's.

use std::cell::RefCell;
use std::rc::Rc;

use chrono::Utc;
use mainspring_language::parse_date_text;
use rquickjs::context::EvalOptions;
use rquickjs::object::Filter;
use rquickjs::{Array, Atom, Ctx, Error, Exception, Function, Object, Persistent, TypedArray, Value as JsValue};
use serde_json::{Map, Value};

use super::convert::to_js;
use super::locale_compare::locale_compare;
use super::realm_bytecode::RealmScripts;
use super::script_watch::ScriptWatch;
use crate::expression::named_values::{NO_SECRETS, NamedValues};
use crate::expression::resume_links::LinkMaker;
use crate::expression::script::ScriptScope;
use crate::expression::script_options::ScriptOptions;
use crate::expression::script_view::input_named;

/// Runs a text by a direct `eval`. The text begins with a call of `BEGIN`; from then on the name `eval` refers to what
/// scripts find there, and the heap has no more room for the compiler. Each realm uses a different name, which no
/// script can declare.
const RUNNER: &str = "(__mainspring_source__, eval, __mainspring_begun__) => { \
                      const BEGIN = () => { eval = __mainspring_begun__(); }; \
                      return eval(__mainspring_source__); }";

/// What the functions of the host read and set.
pub(super) struct HostState {
    /// What the running script can see.
    pub(super) scope: RefCell<ScriptScope>,
    /// The secrets that the running script has received.
    pub(super) secrets: RefCell<Vec<String>>,
    /// What the operator lets scripts read.
    pub(super) named: NamedValues,
    /// Makes the resume links of the running script.
    pub(super) links: LinkMaker,
}

impl HostState {
    pub(super) fn new(options: &ScriptOptions) -> Self {
        Self {
            scope: RefCell::default(),
            secrets: RefCell::default(),
            named: options.named.clone(),
            links: LinkMaker::new(&options.links),
        }
    }

    /// The URL of a resume link, until a moment in milliseconds since 1970, or for a time span. Without an event it leads to the
    /// bookmark of the running script's activity.
    fn link_url(
        &self,
        event: Option<&str>,
        until: Option<f64>,
        lifetime: Option<&str>,
        uses: Option<f64>,
    ) -> Result<String, String> {
        let scope = self.scope.borrow();
        let owner = scope.workflow.link_owner();
        match until {
            Some(until) => self.links.until_time(owner, event, until, uses),
            None => self.links.of_texts(owner, event, lifetime, uses),
        }
    }
}

pub(super) struct RealmFunctions {
    pub(super) begin: Persistent<Function<'static>>,
    pub(super) finish: Persistent<Function<'static>>,
    pub(super) flatten: Persistent<Function<'static>>,
    /// Makes the value of a declared kind.
    pub(super) typed: Persistent<Function<'static>>,
    pub(super) define: Persistent<Function<'static>>,
    /// Compiles a text that is one expression.
    pub(super) expression: Persistent<Function<'static>>,
    /// Compiles a text that is the body of a function.
    pub(super) body: Persistent<Function<'static>>,
    /// The same for texts that await.
    pub(super) async_expression: Persistent<Function<'static>>,
    pub(super) async_body: Persistent<Function<'static>>,
    /// Runs a text, with the two functions below.
    pub(super) run: Persistent<Function<'static>>,
    pub(super) eval: Persistent<Function<'static>>,
    pub(super) begun: Persistent<Function<'static>>,
    /// The call at the beginning of a text that runs.
    pub(super) begin_call: String,
    pub(super) sweep: Sweep,
}

/// Removes what a script has left behind.
pub(super) struct Sweep {
    /// Whether nothing was changed, provided that nothing was added.
    pub(super) is_whole: Persistent<Function<'static>>,
    pub(super) sweep: Persistent<Function<'static>>,
    /// Own properties of the global object.
    pub(super) count: usize,
}

impl RealmFunctions {
    /// Makes Elsa's functions in a new realm, bounds the others, and freezes it.
    pub(super) fn install(ctx: &Ctx<'_>, state: &Rc<HostState>, watch: &Rc<ScriptWatch>) -> rquickjs::Result<Self> {
        let host = Object::new(ctx.clone())?;
        let from = Rc::clone(state);
        host.set("pull", Function::new(ctx.clone(), ScopeReader(from).function())?)?;
        let from = Rc::clone(state);
        let names = move || from.scope.borrow().variables.keys().cloned().collect::<Vec<String>>();
        host.set("names", Function::new(ctx.clone(), names)?)?;
        host.set("random", Function::new(ctx.clone(), rand::random::<f64>)?)?;
        host.set("guid", Function::new(ctx.clone(), || uuid::Uuid::new_v4().to_string())?)?;
        let from = Rc::clone(state);
        let config = move |name: String| from.named.setting(&name).map(str::to_owned);
        host.set("config", Function::new(ctx.clone(), config)?)?;
        let from = Rc::clone(state);
        let secret = move |ctx: Ctx<'_>, name: String| {
            if from.scope.borrow().hides_secrets {
                return Err(Exception::throw_message(&ctx, NO_SECRETS));
            }
            let found = from.named.secret(&name);
            from.secrets.borrow_mut().extend(found.clone().ok());
            found.map_err(|reason| Exception::throw_message(&ctx, &reason))
        };
        host.set("secret", Function::new(ctx.clone(), secret)?)?;
        let from = Rc::clone(state);
        let link_url = move |ctx: Ctx<'_>,
                             event: Option<String>,
                             until: Option<f64>,
                             lifetime: Option<String>,
                             uses: Option<f64>| {
            let url = from.link_url(event.as_deref(), until, lifetime.as_deref(), uses);
            url.map_err(|reason| Exception::throw_message(&ctx, &reason))
        };
        host.set("linkUrl", Function::new(ctx.clone(), link_url)?)?;
        host.set("encode", Function::new(ctx.clone(), encode)?)?;
        host.set("decode", Function::new(ctx.clone(), decode)?)?;
        let scripts = RealmScripts::load(ctx)?;
        scripts.utc.call::<_, ()>(())?;
        host.set("parseDate", Function::new(ctx.clone(), parse_date)?)?;
        let types: Array<'_> = scripts.types.call((host.clone(),))?;
        host.set("plain", types.get::<Function<'_>>(0)?)?;
        let typed: Function<'_> = types.get(1)?;
        host.set("typed", typed.clone())?;
        let parts: Array<'_> = scripts.prelude.call((host,))?;
        let keep = |index| Ok::<_, Error>(Persistent::save(ctx, parts.get::<Function<'_>>(index)?));
        let mut sloppy = EvalOptions::default();
        sloppy.strict = false;
        let begin_call = format!("begin_{}", uuid::Uuid::new_v4().simple());
        let run: Function<'_> = ctx.eval_with_options(RUNNER.replace("BEGIN", &begin_call), sloppy)?;
        let eval: Function<'_> = ctx.globals().get("eval")?;
        let host = Object::new(ctx.clone())?;
        let of = Rc::clone(watch);
        let room = move |ctx: Ctx<'_>, has_room: bool| {
            if has_room && of.interrupts() {
                return Err(Exception::throw_range(&ctx, "no pattern is compiled any more"));
            }
            of.set_room(has_room);
            Ok(())
        };
        host.set("room", Function::new(ctx.clone(), room)?)?;
        let of = Rc::clone(watch);
        host.set("stops", Function::new(ctx.clone(), move || of.interrupts())?)?;
        host.set("localeCompare", Function::new(ctx.clone(), locale_compare)?)?;
        scripts.lockdown.call::<_, ()>((host,))?;
        let begun = Function::new(ctx.clone(), Begun(Rc::clone(watch)).function())?;
        let sweep: Array<'_> = scripts.freeze.call((eval.clone(),))?;
        let sweep = Sweep {
            is_whole: Persistent::save(ctx, sweep.get::<Function<'_>>(0)?),
            sweep: Persistent::save(ctx, sweep.get::<Function<'_>>(1)?),
            count: count_globals(ctx),
        };
        Ok(Self {
            begin: keep(0)?,
            finish: keep(1)?,
            flatten: keep(2)?,
            typed: Persistent::save(ctx, typed),
            define: keep(3)?,
            expression: keep(4)?,
            body: keep(5)?,
            async_expression: keep(6)?,
            async_body: keep(7)?,
            run: Persistent::save(ctx, run),
            eval: Persistent::save(ctx, eval),
            begun: Persistent::save(ctx, begun),
            begin_call: format!("{begin_call}();"),
            sweep,
        })
    }
}

/// Own properties of the global object.
pub(super) fn count_globals(ctx: &Ctx<'_>) -> usize {
    let all = Filter::new().string().symbol();
    ctx.globals().own_keys::<Atom<'_>>(all).len()
}

/// Called when a text has been compiled and begins to run: returns what the name `eval` refers to from now on.
struct Begun(Rc<ScriptWatch>);

impl Begun {
    fn function(self) -> impl for<'js> Fn(Ctx<'js>) -> rquickjs::Result<JsValue<'js>> {
        move |ctx| {
            self.0.set_room(false);
            ctx.globals().get("eval")
        }
    }
}

/// Reads single values of the scope when a script asks for them.
struct ScopeReader(Rc<HostState>);

impl ScopeReader {
    /// `typed` makes the value of a declared kind of a value of JSON.
    fn function(
        self,
    ) -> impl for<'js> Fn(Ctx<'js>, i32, String, Option<String>, Function<'js>) -> rquickjs::Result<JsValue<'js>> {
        move |ctx, kind, name, part, typed| {
            let scope = self.0.scope.borrow();
            let input = (kind == 1).then(|| input_named(&scope.inputs, &name)).flatten();
            let found = match kind {
                0 => scope.variables.get(&name),
                1 => input.map(|(_, value)| value),
                2 => scope
                    .outputs
                    .get(&name)
                    .and_then(|outputs| output(outputs, part.as_deref())),
                4 => scope.last_result.as_ref(),
                // By a name that the script gives.
                6 => {
                    let is_known = scope.activities.is_empty() || scope.activities.contains(&name);
                    let found = scope.outputs.get(&name);
                    if found.is_none() && !is_known {
                        let message = format!("no activity of this workflow has the id or the name {name:?}");
                        return Err(Exception::throw_message(&ctx, &message));
                    }
                    found.and_then(|outputs| output(outputs, part.as_deref()))
                }
                _ => return fact(&ctx, &scope, &name),
            };
            let Some(found) = found else {
                return Ok(JsValue::new_undefined(ctx));
            };
            let value = to_js(&ctx, found)?;
            let declared = match kind {
                0 => scope.kinds.variable(&name),
                1 => input.and_then(|(name, _)| scope.kinds.input(name)),
                _ => None,
            };
            match declared {
                Some((kind, is_list)) => typed.call((kind as i32, is_list, value)),
                None => Ok(value),
            }
        }
    }
}

/// One output of an activity: the named one, or the only one, or else `Result`.
fn output<'a>(outputs: &'a Value, name: Option<&str>) -> Option<&'a Value> {
    let outputs: &Map<String, Value> = outputs.as_object()?;
    match name {
        Some(name) => outputs.get(name),
        None => outputs
            .get("Result")
            .or_else(|| outputs.get("result"))
            .or_else(|| outputs.values().next()),
    }
}

fn fact<'js>(ctx: &Ctx<'js>, scope: &ScriptScope, name: &str) -> rquickjs::Result<JsValue<'js>> {
    let facts = &scope.workflow;
    let text = match name {
        "instanceId" => Some(&facts.instance_id),
        "definitionId" => Some(&facts.definition_id),
        "definitionVersionId" => Some(&facts.definition_version_id),
        "definitionVersion" => return Ok(JsValue::new_int(ctx.clone(), facts.definition_version)),
        "correlationId" => facts.correlation_id.as_ref(),
        "name" => facts.name.as_ref(),
        _ => None,
    };
    match text {
        Some(text) => rquickjs::String::from_str(ctx.clone(), text).map(rquickjs::String::into_value),
        None => Ok(JsValue::new_null(ctx.clone())),
    }
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> rquickjs::Result<TypedArray<'js, u8>> {
    TypedArray::new(ctx, text.into_bytes())
}

/// The milliseconds since 1970 and the minutes of its offset, if the text has one.
fn parse_date(text: String) -> Option<Vec<Option<f64>>> {
    let read = parse_date_text(&text, Utc::now())?;
    let offset = read.offset.map(|offset| f64::from(offset.local_minus_utc() / 60));
    let milliseconds = read.or_utc().timestamp_millis() as f64;
    Some(vec![Some(milliseconds), offset])
}

/// As in .NET, invalid UTF-8 becomes U+FFFD.
fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

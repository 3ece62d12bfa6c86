//! Runs the statements of a template, one after another, into a text.

use std::rc::Rc;

use super::budget::{Held, TemplateBudget};
use super::comparison::equal;
use super::data::TemplateData;
use super::error::TemplateFailure;
use super::number;
use super::syntax::{Condition, Loop, LoopOffset, Statement, TemplateExpression};
use super::value::{ForLoop, Value};

/// Bytes that a variable takes, besides its value.
const LOCAL_BYTES: usize = 96;

/// One rendering.
pub(super) struct Renderer<'a, 's> {
    pub(super) source: &'a str,
    pub(super) data: &'a dyn TemplateData,
    pub(super) budget: TemplateBudget<'s>,
    /// The variables of the template by name, in any case; and the counters of its tags.
    locals: Vec<Local<'a>>,
    /// What only the body of a loop sees, the innermost last.
    loops: Vec<LoopScope<'a>>,
    out: String,
    /// The bytes of unfinished captures.
    captured: Option<Held>,
}

struct Local<'a> {
    slot: Slot,
    name: &'a str,
    /// Of a cycle, whose name is a value.
    group: Option<String>,
    value: Value<'a>,
    _held: Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Variable,
    /// `increment` and `decrement`.
    Counter,
    Cycle,
    /// Where loops over a name ended.
    LoopEnd,
}

struct LoopScope<'a> {
    name: &'a str,
    item: Value<'a>,
    state: Rc<ForLoop>,
    parent: Option<Rc<ForLoop>>,
}

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Normal,
    Break,
    Continue,
}

impl<'a, 's> Renderer<'a, 's> {
    pub(super) fn new(source: &'a str, data: &'a dyn TemplateData, budget: TemplateBudget<'s>) -> Self {
        Self {
            source,
            data,
            budget,
            locals: Vec::new(),
            loops: Vec::new(),
            out: String::new(),
            captured: None,
        }
    }

    /// The text of a template.
    pub(super) fn run(mut self, statements: &'a [Statement]) -> Result<String, TemplateFailure> {
        self.block(statements)?;
        Ok(self.out)
    }

    /// A variable of the template, or of a loop.
    pub(super) fn local(&self, name: &str) -> Result<Option<Value<'a>>, TemplateFailure> {
        self.budget.spend_bytes(name.len())?;
        for scope in self.loops.iter().rev() {
            if scope.name.eq_ignore_ascii_case(name) {
                return Ok(Some(scope.item.clone()));
            }
            if name.eq_ignore_ascii_case("forloop") {
                return Ok(Some(Value::ForLoop(Rc::clone(&scope.state))));
            }
            if name.eq_ignore_ascii_case("parentloop")
                && let Some(parent) = &scope.parent
            {
                return Ok(Some(Value::ForLoop(Rc::clone(parent))));
            }
        }
        self.slot(Slot::Variable, name, None)
    }

    fn slot(&self, slot: Slot, name: &str, group: Option<&str>) -> Result<Option<Value<'a>>, TemplateFailure> {
        self.budget.spend(self.search_steps())?;
        let found = self.locals.iter().find(|local| local.is(slot, name, group));
        Ok(found.map(|local| local.value.clone()))
    }

    /// Steps of a search among the variables.
    fn search_steps(&self) -> u64 {
        u64::try_from(self.locals.len() / 16).unwrap_or(u64::MAX)
    }

    fn set(
        &mut self,
        slot: Slot,
        name: &'a str,
        group: Option<String>,
        value: Value<'a>,
    ) -> Result<(), TemplateFailure> {
        self.budget.spend_bytes(name.len())?;
        self.budget.spend(self.search_steps())?;
        if let Some(local) = self
            .locals
            .iter_mut()
            .find(|local| local.is(slot, name, group.as_deref()))
        {
            local.value = value;
            return Ok(());
        }
        let held = self.budget.hold(LOCAL_BYTES + group.as_ref().map_or(0, String::len))?;
        self.locals.push(Local {
            slot,
            name,
            group,
            value,
            _held: held,
        });
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), TemplateFailure> {
        let budget = &self.budget;
        budget.spend_bytes(text.len())?;
        budget.check_output(self.out.len().saturating_add(text.len()))?;
        if let Some(held) = &mut self.captured {
            budget.check_memory(text.len())?;
            held.grow(text.len());
        }
        self.out.push_str(text);
        Ok(())
    }

    fn write_value(&mut self, value: &Value<'a>) -> Result<(), TemplateFailure> {
        match value.bare() {
            Value::Number(number) => self.write(&number::output(*number)),
            Value::Nil | Value::Empty | Value::Blank | Value::Map(_) | Value::ForLoop(_) => Ok(()),
            Value::Items(_) | Value::List(_) | Value::Range(..) => {
                for index in 0..value.len() {
                    self.budget.spend(1)?;
                    if let Some(item) = value.item(index)? {
                        let text = item.text(&self.budget)?;
                        self.write(&text)?;
                    }
                }
                Ok(())
            }
            value => {
                let text = value.text(&self.budget)?;
                self.write(&text)
            }
        }
    }

    fn block(&mut self, statements: &'a [Statement]) -> Result<Flow, TemplateFailure> {
        for statement in statements {
            let flow = self.statement(statement)?;
            if flow != Flow::Normal {
                return Ok(flow);
            }
        }
        Ok(Flow::Normal)
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<Flow, TemplateFailure> {
        self.budget.spend(1)?;
        match statement {
            Statement::Text(range) => {
                let source = self.source;
                let text = source.get(range.start as usize..range.end as usize);
                self.write(text.unwrap_or_default())?;
            }
            Statement::Output { at, value } => {
                let written = self.evaluate(value).and_then(|value| self.write_value(&value));
                written.map_err(|failure| failure.placed(*at))?;
            }
            Statement::Assign { at, name, value } => {
                let value = self.evaluate(value).map_err(|failure| failure.placed(*at))?;
                self.set(Slot::Variable, name, None, value)?;
            }
            Statement::Capture { name, body } => return self.capture(name, body),
            Statement::If {
                at,
                branches,
                otherwise,
            } => {
                for (Condition { value, is_negated }, body) in branches {
                    let value = self.evaluate(value).map_err(|failure| failure.placed(*at))?;
                    if value.is_true() != *is_negated {
                        return self.block(body);
                    }
                }
                if let Some(body) = otherwise {
                    let is_unless = matches!(branches.as_slice(), [(Condition { is_negated: true, .. }, _)]);
                    let flow = self.block(body)?;
                    // The else of an unless keeps a break to itself.
                    return Ok(if is_unless { Flow::Normal } else { flow });
                }
            }
            Statement::Case {
                at,
                subject,
                whens,
                otherwise,
            } => self
                .case(subject, whens, otherwise.as_deref())
                .map_err(|failure| failure.placed(*at))?,
            Statement::For(repeated) => self.repeat(repeated).map_err(|failure| failure.placed(repeated.at))?,
            Statement::Cycle { at, group, values } => self
                .cycle(group.as_ref(), values)
                .map_err(|failure| failure.placed(*at))?,
            Statement::Count { name, by } => {
                let value = match self.slot(Slot::Counter, name, None)? {
                    Some(value) => {
                        let number = value.number(&self.budget)?;
                        Value::Number(number.add(i64::from(*by).into()).unwrap_or(number))
                    }
                    None => Value::whole(0),
                };
                self.write_value(&value)?;
                self.set(Slot::Counter, name, None, value)?;
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Group(body) => return self.block(body),
        }
        Ok(Flow::Normal)
    }

    fn capture(&mut self, name: &'a str, body: &'a [Statement]) -> Result<Flow, TemplateFailure> {
        let outer = std::mem::take(&mut self.out);
        let outer_held = self.captured.replace(self.budget.hold(0)?);
        let flow = self.block(body);
        let text = std::mem::replace(&mut self.out, outer);
        self.captured = outer_held;
        let value = Value::made(text, &self.budget)?;
        self.set(Slot::Variable, name, None, value)?;
        flow
    }

    /// Each value that equals the subject runs its body, so one body may run more than once. A break ends the body only.
    fn case(
        &mut self,
        subject: &'a TemplateExpression,
        whens: &'a [(Vec<TemplateExpression>, Vec<Statement>)],
        otherwise: Option<&'a [Statement]>,
    ) -> Result<(), TemplateFailure> {
        let subject = self.evaluate(subject)?;
        let mut is_matched = false;
        for (options, body) in whens {
            for option in options {
                let option = self.evaluate(option)?;
                if equal(&subject, &option, &self.budget)? {
                    is_matched = true;
                    self.block(body)?;
                }
            }
        }
        if let Some(body) = otherwise.filter(|_| !is_matched) {
            self.block(body)?;
        }
        Ok(())
    }

    fn cycle(
        &mut self,
        group: Option<&'a TemplateExpression>,
        values: &'a [TemplateExpression],
    ) -> Result<(), TemplateFailure> {
        let group = match group {
            Some(group) => {
                let group = self.evaluate(group)?.text(&self.budget)?;
                self.budget.spend_bytes(group.len())?;
                group.to_string()
            }
            None => String::new(),
        };
        let seen = self.slot(Slot::Cycle, "", Some(&group))?;
        let seen = seen.map_or(Ok(0), |seen| seen.integer("a cycle", &self.budget))?;
        let index = usize::try_from(seen).unwrap_or(0) % values.len().max(1);
        if let Some(value) = values.get(index) {
            let value = self.evaluate(value)?;
            self.write_value(&value)?;
        }
        let next = i64::try_from(index + 1).unwrap_or(0);
        self.set(Slot::Cycle, "", Some(group), Value::whole(next))
    }

    fn repeat(&mut self, repeated: &'a Loop) -> Result<(), TemplateFailure> {
        let source = self.evaluate(&repeated.source)?;
        let source = match source.bare() {
            // Pairs, and a text as a whole.
            Value::Map(_) | Value::Text(_) => Value::list(source.items(&self.budget)?, &self.budget)?,
            _ => source,
        };
        let length = i64::try_from(source.len()).unwrap_or(i64::MAX);
        let continued = match &repeated.source {
            TemplateExpression::Path(path) => Some(&*path.root),
            _ => None,
        };
        let mut start = 0;
        let mut count = length;
        if length > 0 {
            start = match &repeated.offset {
                None => 0,
                Some(LoopOffset::Value(offset)) => self.evaluate(offset)?.integer("the offset", &self.budget)?,
                Some(LoopOffset::Continue) => {
                    let end = continued.map(|name| self.slot(Slot::LoopEnd, name, None));
                    let end = end.transpose()?.flatten();
                    end.map_or(Ok(0), |end| end.integer("the offset", &self.budget))?
                }
            };
            if start < 0 {
                return Err(TemplateFailure::invalid(format!(
                    "the offset of a loop is {start}; use 0 or more"
                )));
            }
            count = (length - start).max(0);
            if let Some(limit) = &repeated.limit {
                let limit = self.evaluate(limit)?.integer("the limit", &self.budget)?;
                // Less than 0: so many from the end are left out.
                count = if limit >= 0 {
                    count.min(limit)
                } else {
                    (count + limit).max(0)
                };
            }
        }
        if count == 0 {
            if let Some(body) = &repeated.otherwise {
                self.block(body)?;
            }
            return Ok(());
        }
        let state = Rc::new(ForLoop::default());
        state.length.set(start + count);
        self.loops.push(LoopScope {
            name: &repeated.name,
            item: Value::Nil,
            parent: self.loops.last().map(|scope| Rc::clone(&scope.state)),
            state: Rc::clone(&state),
        });
        let result = self.iterate(repeated, &source, &state, (start, count), continued);
        self.loops.pop();
        result
    }

    fn iterate(
        &mut self,
        repeated: &'a Loop,
        source: &Value<'a>,
        state: &Rc<ForLoop>,
        (start, count): (i64, i64),
        continued: Option<&'a str>,
    ) -> Result<(), TemplateFailure> {
        for index in start..start + count {
            self.budget.spend(1)?;
            let place = if repeated.is_reversed {
                2 * start + count - 1 - index
            } else {
                index
            };
            let item = source.item(usize::try_from(place).unwrap_or(usize::MAX))?;
            if let Some(scope) = self.loops.last_mut() {
                scope.item = item.unwrap_or(Value::Nil);
            }
            state.index.set(index);
            if let Some(name) = continued {
                self.set(Slot::LoopEnd, name, None, Value::whole(index + 1))?;
            }
            if self.block(&repeated.body)? == Flow::Break {
                break;
            }
        }
        Ok(())
    }
}

impl Local<'_> {
    fn is(&self, slot: Slot, name: &str, group: Option<&str>) -> bool {
        self.slot == slot && self.name.eq_ignore_ascii_case(name) && self.group.as_deref() == group
    }
}

//! The variables of the workflow that a template names.

use std::collections::BTreeMap;

use super::error::{ErrorKind, TemplateError};
use super::syntax::{LoopOffset, Path, PathSegment, Statement, TemplateExpression};

/// The names behind `Variables`, each with its first place. A name that is computed is not among them.
pub(super) fn of(text: &str, block: &[Statement]) -> BTreeMap<String, TemplateError> {
    let mut names = Names::default();
    names.block(block);
    let place = |(name, at): (String, u32)| {
        let problem = TemplateError::at(text, at as usize, ErrorKind::Invalid, name.clone());
        (name, problem)
    };
    names.found.into_iter().map(place).collect()
}

#[derive(Default)]
struct Names {
    found: BTreeMap<String, u32>,
}

impl Names {
    fn block(&mut self, block: &[Statement]) {
        for statement in block {
            match statement {
                Statement::Text(_) | Statement::Count { .. } | Statement::Break | Statement::Continue => {}
                Statement::Output { value, .. } | Statement::Assign { value, .. } => self.expression(value),
                Statement::Capture { body, .. } | Statement::Group(body) => self.block(body),
                Statement::If {
                    branches, otherwise, ..
                } => {
                    for (condition, body) in branches {
                        self.expression(&condition.value);
                        self.block(body);
                    }
                    self.block(otherwise.as_deref().unwrap_or_default());
                }
                Statement::Case {
                    subject,
                    whens,
                    otherwise,
                    ..
                } => {
                    self.expression(subject);
                    for (options, body) in whens {
                        options.iter().for_each(|option| self.expression(option));
                        self.block(body);
                    }
                    self.block(otherwise.as_deref().unwrap_or_default());
                }
                Statement::For(repeated) => {
                    self.expression(&repeated.source);
                    repeated.limit.iter().for_each(|limit| self.expression(limit));
                    if let Some(LoopOffset::Value(offset)) = &repeated.offset {
                        self.expression(offset);
                    }
                    self.block(&repeated.body);
                    self.block(repeated.otherwise.as_deref().unwrap_or_default());
                }
                Statement::Cycle { group, values, .. } => {
                    group.iter().chain(values).for_each(|value| self.expression(value));
                }
            }
        }
    }

    fn expression(&mut self, expression: &TemplateExpression) {
        match expression {
            TemplateExpression::Empty
            | TemplateExpression::Blank
            | TemplateExpression::Boolean(_)
            | TemplateExpression::Number(_)
            | TemplateExpression::Text(_) => {}
            TemplateExpression::Path(path) => self.path(path),
            TemplateExpression::Range(ends) => {
                self.expression(&ends.0);
                self.expression(&ends.1);
            }
            TemplateExpression::Compare(parts) => {
                self.expression(&parts.0);
                self.expression(&parts.2);
            }
            TemplateExpression::Logic { first, rest } => {
                self.expression(first);
                rest.iter().for_each(|(_, value)| self.expression(value));
            }
            TemplateExpression::Filtered { input, calls } => {
                self.expression(input);
                let arguments = calls.iter().flat_map(|call| &call.arguments);
                arguments.for_each(|(_, value)| self.expression(value));
            }
        }
    }

    fn path(&mut self, path: &Path) {
        for segment in &path.segments {
            if let PathSegment::Index(index) = segment {
                self.expression(index);
            }
        }
        if &*path.root != "Variables" {
            return;
        }
        let name = match path.segments.first() {
            Some(PathSegment::Member(name) | PathSegment::Index(TemplateExpression::Text(name))) => name,
            _ => return,
        };
        self.found.entry(name.to_string()).or_insert(path.at);
    }
}

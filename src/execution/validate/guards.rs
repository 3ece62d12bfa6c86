//! What a `Mainspring.Try` needs: a part to guard, something to do with its faults, and categories that exist.

use std::cell::OnceCell;

use crate::activity::{ActivityNode, Catalogue, NodeInput, TRY, camel_case, known_categories};
use crate::definition::{Problems, ValidationError};
use crate::execution::evaluate::object;
use crate::execution::program::Program;
use crate::expression::coerce;
use crate::schedule::similar_names;
use crate::shortened::shortened;

/// What the guards of a definition can name.
pub(super) struct Guards<'p> {
    catalogue: &'p Catalogue,
    program: &'p Program,
    /// The categories that faults of the workflow can have, sorted; `None` if that depends on an instance.
    categories: OnceCell<Option<Vec<String>>>,
}

impl<'p> Guards<'p> {
    pub(super) fn of(catalogue: &'p Catalogue, program: &'p Program) -> Self {
        Self {
            catalogue,
            program,
            categories: OnceCell::new(),
        }
    }

    pub(super) fn check(&self, node: &ActivityNode, errors: &mut Problems) {
        if node.type_name == TRY {
            let known = || {
                let known = self.categories.get_or_init(|| categories(self.catalogue, self.program));
                known.as_deref()
            };
            check(node, known, errors);
        }
    }
}

fn check<'k>(node: &ActivityNode, known: impl FnOnce() -> Option<&'k [String]>, errors: &mut Problems) {
    let title = node.title();
    let has = |port: &str| node.ports.iter().any(|(name, _)| name == port);
    let mut report = |message: String| errors.push(ValidationError::of(&node.id, message));
    if !has("Try") {
        report(format!(
            "The activity {title} has nothing to try; give its property try an activity, or remove it"
        ));
    }
    if !has("Catch") && !has("Finally") {
        report(format!(
            "The activity {title} has neither a catch nor a finally, so it does nothing with a fault; give it one of them, or \
             remove it"
        ));
    }
    let selects = |name: &str| input(node, name).is_some_and(|input| input.expression.is_some());
    for name in ["CatchCodes", "CatchCategories"] {
        if selects(name) && !has("Catch") && has("Finally") && !literals(node, name).is_some_and(|list| list.is_empty())
        {
            report(format!(
                "The activity {title} selects faults by {}, and has no catch for them; give its property catch an activity, or \
                 remove the selection",
                camel_case(name)
            ));
        }
    }
    let Some(given) = literals(node, "CatchCategories") else {
        return;
    };
    let Some(known) = known() else {
        return;
    };
    let mut found = 0;
    for category in given {
        if known.iter().any(|known| known.eq_ignore_ascii_case(category.trim())) {
            continue;
        }
        found += 1;
        if found > Problems::MOST {
            return;
        }
        let near = similar_names(&category, known.iter().cloned());
        let hint = match near.first() {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("the known ones are {}.", listed(known)),
        };
        report(format!(
            "The activity {title} catches the category {category}, which no activity has; {hint} An activity type declares its own \
             categories in its descriptor"
        ));
    }
}

/// The first names, as a message lists them.
fn listed(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(100).map(String::as_str).collect();
    shortened(&first.join(", "), 1_000).into_owned()
}

/// The categories that faults of the workflow can have, sorted; `None` if that depends on an instance.
fn categories(catalogue: &Catalogue, program: &Program) -> Option<Vec<String>> {
    let mut known: Vec<String> = known_categories().iter().map(|&name| name.to_owned()).collect();
    for descriptor in catalogue.descriptors() {
        known.extend(descriptor.fault_categories.iter().cloned());
    }
    for node in program.tree.iter().filter(|node| node.type_name == "Elsa.Fault") {
        let category = input(node, "Category")?;
        match (&category.expression, &category.memory_reference) {
            (None, None) => {}
            (Some(expression), None) if expression.kind == "Literal" => {
                known.extend(expression.value.as_str().map(|name| name.trim().to_owned()));
            }
            _ => return None,
        }
    }
    known.retain(|name| !name.is_empty());
    known.sort();
    known.dedup();
    Some(known)
}

fn input<'a>(node: &'a ActivityNode, name: &str) -> Option<&'a NodeInput> {
    node.inputs.iter().find(|input| input.name == name)
}

/// The texts in a list that is not computed; blank ones are left out, as they select nothing.
fn literals(node: &ActivityNode, name: &str) -> Option<Vec<String>> {
    let input = input(node, name)?;
    let expression = input.expression.as_ref()?;
    let value = match expression.kind.as_str() {
        "Literal" => expression.value.clone(),
        "Object" => object(&expression.value, &input.convert_to).ok()?,
        _ => return None,
    };
    let value = coerce(value, &input.convert_to).ok()?;
    let items = value.as_array().cloned().unwrap_or_default();
    let texts = items
        .into_iter()
        .filter_map(|item| Some(item.as_str()?.trim().to_owned()));
    Some(texts.filter(|text| !text.is_empty()).collect())
}

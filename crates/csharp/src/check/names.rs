//! The names that a definition declares, and how scripts find them.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use crate::types::{DeclaredType, Ty};

/// What a definition declares: a script can name it. The names do not change once a script was checked with them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Variables by their names.
    pub variables: BTreeMap<String, DeclaredType>,
    /// Inputs of the workflow by their names.
    pub inputs: BTreeMap<String, DeclaredType>,
    /// It is the script of an activity, which may set outcomes.
    pub is_activity: bool,
    /// Nothing is known: every name may exist.
    pub is_open: bool,
    /// The other forms of the names.
    forms: OnceLock<Forms>,
}

/// Names by what they are in Pascal case, and without regard to case. Of names with one form the first counts.
#[derive(Clone, Debug)]
struct Forms {
    pascal: HashMap<String, String>,
    variables: HashMap<String, String>,
    inputs: HashMap<String, String>,
}

/// What a name that is not declared is similar to.
pub(super) enum Similar<'n> {
    Variable(&'n str),
    Input(&'n str),
}

impl Names {
    /// The names of variables and inputs, for scripts of expressions.
    pub fn new(variables: BTreeMap<String, DeclaredType>, inputs: BTreeMap<String, DeclaredType>) -> Self {
        Self {
            variables,
            inputs,
            ..Self::default()
        }
    }

    /// The variable of this name, or whose name in Pascal case is this one.
    pub(super) fn variable(&self, name: &str) -> Option<(&str, &Ty)> {
        let exact = self.variables.get_key_value(name);
        let found = exact.or_else(|| self.variables.get_key_value(self.forms().pascal.get(name)?))?;
        Some((found.0, &found.1.0))
    }

    /// The input of this name.
    pub(super) fn input(&self, name: &str) -> Option<&Ty> {
        self.inputs.get(name).map(|declared| &declared.0)
    }

    /// What has this name in another case.
    pub(super) fn similar(&self, name: &str) -> Option<Similar<'_>> {
        let (forms, name) = (self.forms(), name.to_ascii_lowercase());
        let variable = forms.variables.get(&name).map(|name| Similar::Variable(name));
        variable.or_else(|| forms.inputs.get(&name).map(|name| Similar::Input(name)))
    }

    fn forms(&self) -> &Forms {
        self.forms.get_or_init(|| {
            let mut in_pascal = HashMap::new();
            for name in self.variables.keys() {
                in_pascal.entry(pascal(name)).or_insert_with(|| name.clone());
            }
            Forms {
                pascal: in_pascal,
                variables: without_case(self.variables.keys()),
                inputs: without_case(self.inputs.keys()),
            }
        })
    }
}

/// A name in Pascal case, as Elsa writes the members of `Variables`.
pub(crate) fn pascal(name: &str) -> String {
    let mut start = true;
    let chars = name.chars().filter_map(|c| match c {
        ' ' | '-' | '_' => {
            start = true;
            None
        }
        _ if std::mem::take(&mut start) => Some(c.to_uppercase().next().unwrap_or(c)),
        _ => Some(c),
    });
    chars.collect()
}

fn without_case<'n>(names: impl Iterator<Item = &'n String>) -> HashMap<String, String> {
    let mut forms = HashMap::new();
    for name in names {
        for form in [name.to_ascii_lowercase(), pascal(name).to_ascii_lowercase()] {
            forms.entry(form).or_insert_with(|| name.clone());
        }
    }
    forms
}

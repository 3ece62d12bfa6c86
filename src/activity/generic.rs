//! Elsa's generic activity types, as programs write them: `Elsa.SetVariable<Int32>`.
//!
//! The name contains .NET's name of the type argument, so the number of names is unlimited; `Elsa.ForEach<T>` is in the
//! namespace of its class. Each runs as the plain type, because the definition names the types of the values itself.

/// A generic type: the beginning of its names, its plain type, and what a node must know to run it.
struct GenericType {
    begins: &'static str,
    plain: &'static str,
    requirement: &'static str,
}

static GENERIC_TYPES: [GenericType; 4] = [
    GenericType {
        begins: "Elsa.SetVariable<",
        plain: "Elsa.SetVariable",
        requirement: "Elsa.SetVariable<>",
    },
    GenericType {
        begins: "Elsa.ParallelForEach<",
        plain: "Elsa.ParallelForEach",
        requirement: "Elsa.ParallelForEach<>",
    },
    GenericType {
        begins: "Elsa.Workflows.Activities.ForEach<",
        plain: "Elsa.ForEach",
        requirement: "Elsa.ForEach<>",
    },
    GenericType {
        begins: "Elsa.ForEach<",
        plain: "Elsa.ForEach",
        requirement: "Elsa.ForEach<>",
    },
];

fn find(type_name: &str) -> Option<&'static GenericType> {
    let mut types = GENERIC_TYPES.iter();
    types.find(|generic| type_name.starts_with(generic.begins) && type_name.ends_with('>'))
}

/// The plain type that a generic one runs as.
pub(super) fn plain_type(type_name: &str) -> Option<&'static str> {
    find(type_name).map(|generic| generic.plain)
}

/// What a node must know to run a generic type, whatever its argument: earlier nodes know the plain type only.
pub(super) fn generic_requirement(type_name: &str) -> Option<&'static str> {
    find(type_name).map(|generic| generic.requirement)
}

/// What a node that knows a plain type knows with it.
pub(super) fn requirements_of(plain: &str) -> impl Iterator<Item = &'static str> {
    let known = GENERIC_TYPES.iter().filter(move |generic| generic.plain == plain);
    known.map(|generic| generic.requirement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_names_are_distinguished_from_others() {
        for (name, plain) in [
            ("Elsa.SetVariable<Int32>", Some("Elsa.SetVariable")),
            ("Elsa.ParallelForEach<List<String>>", Some("Elsa.ParallelForEach")),
            ("Elsa.Workflows.Activities.ForEach<Object>", Some("Elsa.ForEach")),
            ("Elsa.ForEach<Object>", Some("Elsa.ForEach")),
            ("Elsa.SetVariable", None),
            ("Elsa.SetVariable<", None),
            ("Elsa.WriteLine<String>", None),
            ("Acme.SetVariable<Int32>", None),
        ] {
            assert_eq!(plain_type(name), plain, "{name}");
        }
    }
}

//! One JavaScript heap with the functions that Elsa gives its scripts.

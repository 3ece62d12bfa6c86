//! Workflows made of workflows.

mod nested;

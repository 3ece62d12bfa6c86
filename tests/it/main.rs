//! One binary of integration tests: a module per behaviour.

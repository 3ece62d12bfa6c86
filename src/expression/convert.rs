//! Values between JSON and JavaScript.

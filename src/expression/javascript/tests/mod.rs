//! Scripts from the caller's side.

mod language;
mod sandbox;
mod slow_scripts;

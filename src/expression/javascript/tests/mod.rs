//! Scripts from the caller's side.

mod declarations;
mod language;
mod sandbox;
mod slow_scripts;

//! Scripts from the caller's side.

mod declarations;
mod instances;
mod language;
mod ordinary_scripts;
mod sandbox;
mod slow_scripts;

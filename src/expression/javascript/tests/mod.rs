//! Scripts from the caller's side.

mod battery;
mod big_integers;
mod brief_scripts;
mod declarations;
mod instances;
mod language;
mod long_values;
mod named_values;
mod ordinary_scripts;
mod resume_links;
mod sandbox;
mod slow_scripts;
mod straight_line;
mod syntax;
mod types;

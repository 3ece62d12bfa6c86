//! The program: its commands, settings, exit codes and images.

mod compose;
mod demo;
mod dev;
mod elsa_report;
mod eval;
mod hanging_scripts;
mod serve;
mod slow_connection;
mod stop;

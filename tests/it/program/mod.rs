//! The program: its commands, settings, exit codes and images.

mod compose;
mod demo;
mod dev;
mod serve;
mod slow_connection;

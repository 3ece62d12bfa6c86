//! The engine: doors that accept, a loop that claims, bursts that run and commit.
//!
//! # Layout
//!
//! - `engine`, `options`: what a program holds; `request`: what it asks and gets.
//! - `definitions`, `start`, `resume`, `read`: its methods, by subject; `waiting`: how doors wait.
//! - `supervisor`: keeps a registration; `shift`: everything that works under one.
//! - `hints`: what nodes tell each other about waiting work.
//! - `claiming`: finds what is to be done; `attend`: sees it through; `burst`: its steps, one consuming type each.
//! - `doors`, `in_flight`, `alarm`, `programs`, `published`: who waits, what runs, when to look, what is
//!   compiled, what the API shows.
//! - `instruction`, `effects`: between rows and the interpreter.

mod alarm;
mod attend;
mod burst;
mod claiming;
mod definitions;
mod doors;
mod effects;
mod engine;
mod hints;
mod in_flight;
mod instruction;
mod options;
mod programs;
mod published;
mod read;
mod request;
mod resume;
mod shift;
mod start;
mod supervisor;
mod waiting;

pub use engine::{Engine, check, migrate};
pub use options::EngineBuilder;
pub use request::{
    DefinitionFilter, DefinitionSummary, EventAccepted, EventRequest, Executed, Idempotency, InstanceDetail,
    InstanceFilter, InstanceSummary, JournalRecord, Listed, Page, Published, Readiness, ResumeRequest, StartRequest,
    VersionOptions,
};

//! The engine: doors that accept, a loop that claims, bursts that run and commit.
//!
//! # Layout
//!
//! - `engine`, `options`: what a program holds; `request`: what it asks and gets.
//! - `definitions`, `start`, `resume`, `delete`, `read`: its methods, by subject; `waiting`: how doors wait.
//! - `supervisor`: keeps a registration; `shift`: everything that works under one.
//! - `services`: what carries hints and signals; `hints`: what nodes tell each other about waiting work.
//! - `capability`: what this node leaves to others, as it lacks an activity.
//! - `token`: resumes by whoever has a URL for it.
//! - `overview`, `dead_letters`: what an operator sees and does; `lock_reports`: what a node tells of its locks.
//! - `claiming`: finds what is to be done; `attend`: sees it through; `burst`: its steps, one consuming type each.
//! - `faults`: what operators see of activities that failed.
//! - `tidy`: makes room where work went through.
//! - `firing`: starts instances when it is time; `timetable`: what that means for a row; `schedules`: for operators.
//! - `instance_lock`, `doors`, `in_flight`, `alarm`, `programs`, `published`: who waits, what runs, when to look, what is
//!   compiled, what the API shows.
//! - `instruction`, `effects`: between rows and the interpreter.

mod alarm;
mod attend;
mod burst;
mod byte_cache;
mod capability;
mod claiming;
mod dead_letters;
mod definitions;
mod delete;
mod doors;
mod effects;
mod engine;
mod faults;
mod firing;
mod hints;
mod in_flight;
mod instance_lock;
mod instruction;
mod lock_reports;
mod options;
mod overview;
mod programs;
mod published;
mod read;
mod request;
mod resume;
mod schedules;
mod services;
mod shift;
mod start;
mod supervisor;
#[cfg(test)]
mod tests;
mod tidy;
mod timetable;
mod token;
mod waiting;

pub use dead_letters::{
    DeadLetter, DeadLetterBatch, DeadLetterCause, DeadLetterFilter, DeadLetterReplayed, DeadLettersReplayed,
};
pub use engine::{Engine, check, migrate};
pub use options::{EngineBuilder, Role};
pub use overview::{ClusterLock, ClusterNode, ClusterNodeState, QueueItem};
#[cfg(test)]
pub(crate) use request::ExecutedState;
pub use request::{
    DefinitionFilter, DefinitionSummary, EventAccepted, EventRequest, Executed, Idempotency, InstanceDetail,
    InstanceFilter, InstanceSelection, InstanceSummary, JournalRecord, Listed, Page, Published, Readiness,
    ResumeRequest, StartRequest, VersionOptions,
};
pub use schedules::{ScheduleFilter, ScheduleState, ScheduleSummary};
pub use token::{GoodToken, TokenResume};

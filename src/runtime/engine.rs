//! STUB of the engine.
#![allow(missing_docs, clippy::unused_async)]

use std::time::Duration;

use serde_json::Value;

use super::request::*;
use crate::Violation;
use crate::definition::WorkflowDefinition;
use crate::id::{DefinitionId, InstanceId, NodeId, VersionId};
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub struct Engine(());

#[derive(Clone, Debug, Default)]
pub struct EngineBuilder(());

fn stub<T>() -> Result<T> {
    Err(Error::internal("stub"))
}

impl Engine {
    pub fn builder(_database_url: impl Into<String>) -> EngineBuilder {
        EngineBuilder(())
    }
    pub async fn import(&self, _definition: WorkflowDefinition) -> Result<Value> {
        stub()
    }
    pub async fn save(&self, _definition: WorkflowDefinition, _publish: bool) -> Result<Published> {
        stub()
    }
    pub async fn publish(&self, _id: &DefinitionId) -> Result<Published> {
        stub()
    }
    pub async fn definition(&self, _id: &DefinitionId, _which: VersionOptions) -> Result<Value> {
        stub()
    }
    pub async fn definition_version(&self, _id: &VersionId) -> Result<Value> {
        stub()
    }
    pub async fn definitions(&self, _filter: &DefinitionFilter, _page: Page) -> Result<Listed<DefinitionSummary>> {
        stub()
    }
    pub async fn execute(&self, _request: StartRequest) -> Result<Executed> {
        stub()
    }
    pub async fn dispatch(&self, _request: StartRequest) -> Result<InstanceId> {
        stub()
    }
    pub async fn resume(&self, _request: ResumeRequest) -> Result<Executed> {
        stub()
    }
    pub async fn trigger_event(&self, _request: EventRequest) -> Result<EventAccepted> {
        stub()
    }
    pub async fn cancel(&self, _id: &InstanceId) -> Result<bool> {
        stub()
    }
    pub async fn instances(&self, _filter: &InstanceFilter, _page: Page) -> Result<Listed<InstanceSummary>> {
        stub()
    }
    pub async fn instance(&self, _id: &InstanceId) -> Result<InstanceDetail> {
        stub()
    }
    pub async fn journal(&self, _id: &InstanceId, _page: Page) -> Result<Listed<JournalRecord>> {
        stub()
    }
    pub fn readiness(&self) -> Readiness {
        Readiness {
            database: false,
            registered: false,
        }
    }
    pub fn node_id(&self) -> NodeId {
        NodeId::new("stub")
    }
    pub async fn shutdown(&self) {}
}

impl EngineBuilder {
    pub fn schema(self, _schema: &str) -> Self {
        self
    }
    pub fn node_id(self, _id: &str) -> Self {
        self
    }
    pub fn migrate(self, _yes: bool) -> Self {
        self
    }
    pub fn workers(self, _count: usize) -> Self {
        self
    }
    pub fn pool_size(self, _count: usize) -> Self {
        self
    }
    pub fn check_in(self, _every: Duration) -> Self {
        self
    }
    pub fn tolerance(self, _bound: Duration) -> Self {
        self
    }
    pub fn answer_timeout(self, _bound: Duration) -> Self {
        self
    }
    pub fn inbox_lifetime(self, _bound: Duration) -> Self {
        self
    }
    pub async fn start(self) -> Result<Engine> {
        match std::env::var("MAINSPRING_STUB_START").as_deref() {
            Ok("works") => Ok(Engine(())),
            _ => Err(Error::unavailable("database-unavailable", "stub: no database")),
        }
    }
}

pub async fn migrate(_database_url: &str, _schema: &str) -> Result<Vec<String>> {
    Err(Error::unavailable("database-unavailable", "stub: no database"))
}

pub async fn check(_database_url: &str, _schema: &str) -> Result<Vec<Violation>> {
    Err(Error::unavailable("database-unavailable", "stub: no database"))
}

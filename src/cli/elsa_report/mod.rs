//! `mainspring elsa report`: which definitions of an Elsa server run here, and why the others do not. The source is only read.
//!
//! # Layout
//! - `folder`: exports in files; `server`: the definitions of a running server, by the requests of `elsa_server`;
//!   `read_definition`: what both yield.
//! - `verdict`: the checks of a publish; `uses`: which definitions use which others as activities.
//! - `deployment`: the database for imports; `print`: the report; `progress`: the lines meanwhile.

mod deployment;
mod elsa_server;
mod folder;
mod print;
mod progress;
mod read_definition;
mod server;
mod uses;
mod verdict;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::settings::{Common, ReportSettings};
use crate::definition::ValidationError;
use crate::harness::failure::Failure;
use crate::harness::{print_line, without_controls};
use deployment::Deployment;
use elsa_server::ElsaServer;
use print::{ReportDocument, Summary};
use progress::ProgressLine;
use read_definition::{ReadDefinition, ReportBudget};
use verdict::{Finding, Judge, Verdict};

/// Reports, and imports what runs if that is wanted. Exit code 1 if a definition does not run, or is not imported.
pub(super) async fn run(common: &Common, settings: &ReportSettings) -> Result<(), Failure> {
    if settings.import {
        // Before anything is read that a wrong command line would throw away.
        common.database_url()?;
    }
    let (mut progress, mut budget) = (ProgressLine::begin(), ReportBudget::default());
    let read = match is_url(&settings.source) {
        true => {
            let server = ElsaServer::of(&settings.source, settings.api_key_file.as_ref())?;
            server::read(&server, &mut budget, &mut progress).await?
        }
        false => folder::read(Path::new(&settings.source), &mut budget, &mut progress)?,
    };
    let judge = Judge::of(&read, settings.expressions.script_options());
    let order = judge.order();
    let mut verdicts = verdicts(&judge, &order, &mut progress).await;
    if settings.import {
        import(common, &read, &order, &mut verdicts, &mut progress).await?;
    }
    let verdicts: Vec<Verdict> = (0..read.len()).filter_map(|at| verdicts.remove(&at)).collect();
    let summary = Summary::of(&verdicts);
    if settings.json {
        let document = ReportDocument {
            definitions: &verdicts,
            summary: &summary,
        };
        let text = serde_json::to_string(&document);
        let text = text.map_err(|error| Failure::failed(format!("the report cannot be written: {error}")))?;
        print_line(&without_controls(&text));
    } else {
        verdicts
            .iter()
            .flat_map(print::lines)
            .for_each(|line| print_line(&line));
        print_line(&summary.line());
    }
    let is_good = |verdict: &Verdict| verdict.runs() && verdict.imported != Some(false);
    if verdicts.iter().all(is_good) {
        Ok(())
    } else {
        Err(Failure::reported())
    }
}

fn is_url(source: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| source.starts_with(scheme))
}

/// The verdicts by the places of the definitions.
async fn verdicts(judge: &Judge<'_>, order: &[usize], progress: &mut ProgressLine) -> HashMap<usize, Verdict> {
    let mut verdicts = HashMap::new();
    let mut running = HashSet::new();
    for (done, at) in order.iter().enumerate() {
        progress.show("checked", done, order.len());
        let runs = |used: usize| running.contains(&used);
        let verdict = judge.verdict(*at, &runs).await;
        if let Some(verdict) = verdict {
            if verdict.runs() {
                running.insert(*at);
            }
            verdicts.insert(*at, verdict);
        }
    }
    verdicts
}

/// Imports what runs: first what is used as an activity, and of one definition the earlier version.
async fn import(
    common: &Common,
    read: &[ReadDefinition],
    order: &[usize],
    verdicts: &mut HashMap<usize, Verdict>,
    progress: &mut ProgressLine,
) -> Result<(), Failure> {
    let mut chosen: Vec<usize> = order.to_vec();
    chosen.retain(|at| verdicts.get(at).is_some_and(Verdict::runs));
    let definition = |at: usize| read.get(at).and_then(|read| read.definition.as_ref().ok());
    // Each with the first of its versions, in the order of their numbers; one without an id is its own.
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut ranked = Vec::with_capacity(chosen.len());
    for (rank, at) in chosen.iter().enumerate() {
        let Some(own) = definition(*at) else { continue };
        let rank = match own.definition_id.as_str() {
            "" => rank,
            id => *first.entry(id).or_insert(rank),
        };
        ranked.push(((rank, own.version), *at));
    }
    ranked.sort();
    let deployment = Deployment::open(common).await?;
    for (done, (_, at)) in ranked.iter().enumerate() {
        progress.show("imported", done, ranked.len());
        let (Some(read), Some(verdict)) = (read.get(*at), verdicts.get_mut(at)) else {
            continue;
        };
        let imported = deployment.import(read).await;
        verdict.imported = Some(imported.is_ok());
        if let Err(problem) = imported {
            let message = format!("it is not imported: {problem}");
            verdict.errors.push(ValidationError::of("", message));
            // A definition that is not in the database does not run on it.
            verdict.finding = Finding::Refused;
        }
    }
    deployment.close().await;
    Ok(())
}

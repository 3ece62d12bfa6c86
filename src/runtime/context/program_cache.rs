//! The cache of compiled definitions by version id, bounded by bytes. A version that was ever published or started never
//! changes, and no other version is compiled here, so no entry goes stale.
//!
//! A program that is evicted, or is larger than the budget, lives as long as a burst uses it, and is found until then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OnceCell;

use super::byte_cache::ByteCache;
use super::composition::composed;
use crate::db::Pool;
use crate::execution::{Interpreter, Program, StartValues};
use crate::id::{ActivityId, DefinitionId, TenantId, VersionId};
use crate::store::definition::{self, VersionSelector};
use crate::{Error, Result, compute};

/// How many definitions' published versions are remembered: two short ids each.
const CAPACITY: usize = 4096;

/// From so many entries of programs that are not kept, the unused ones are removed.
const LEFTOVERS: usize = 64;

/// The bytes of a kept program beside its own.
const OVERHEAD: usize = 512;

type Key = (TenantId, VersionId);

/// Empty while one caller compiles; the others wait.
type Cell = Arc<OnceCell<Arc<Program>>>;

pub(crate) struct ProgramCache {
    known: Mutex<Known>,
    /// The published version at the last read. It may have been replaced since.
    published: Mutex<HashMap<(TenantId, DefinitionId), VersionId>>,
}

/// A start that was checked.
pub(crate) struct CheckedStart {
    /// For this version; an empty one: none is published, which the statement that accepts a start finds out as well.
    pub(crate) version: VersionId,
    /// The fields, each with its problem.
    pub(crate) problems: Vec<(String, String)>,
    /// The activity to begin at, if the caller names its node id.
    pub(crate) trigger: Option<ActivityId>,
}

struct Known {
    kept: ByteCache<Key, Arc<Program>>,
    /// Not kept, but perhaps in use.
    loose: HashMap<Key, Weak<Program>>,
    compiling: HashMap<Key, Cell>,
}

impl Known {
    fn find(&mut self, key: &Key) -> Option<Arc<Program>> {
        let kept = self.kept.get(key).map(Arc::clone);
        kept.or_else(|| self.loose.get(key)?.upgrade())
    }

    fn keep(&mut self, key: Key, program: &Arc<Program>) {
        self.loose.remove(&key);
        for (key, program) in self.kept.insert(key, Arc::clone(program), program.bytes() + OVERHEAD) {
            self.loose.insert(key, Arc::downgrade(&program));
        }
        if self.loose.len() >= LEFTOVERS {
            self.loose.retain(|_, program| program.strong_count() > 0);
        }
    }

    fn cell(&mut self, key: &Key) -> Cell {
        if self.compiling.len() >= LEFTOVERS {
            // Of callers that were dropped while they compiled.
            self.compiling.retain(|_, cell| Arc::strong_count(cell) > 1);
        }
        Arc::clone(self.compiling.entry(key.clone()).or_default())
    }
}

impl ProgramCache {
    /// Keeps programs of up to `budget` bytes.
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            known: Mutex::new(Known {
                kept: ByteCache::new("programs", budget),
                loose: HashMap::new(),
                compiling: HashMap::new(),
            }),
            published: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, HashMap<(TenantId, DefinitionId), VersionId>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a start before it is accepted: for the version that it names, else for the one that was published at the last read,
    /// which the statement that accepts it compares.
    pub(crate) async fn check_start(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        start: (&TenantId, &DefinitionId, Option<&VersionId>),
        values: StartValues<'_>,
    ) -> Result<CheckedStart> {
        let (tenant, definition, version) = start;
        let remembered = match version {
            Some(version) => Some(version.clone()),
            None => self.published().get(&(tenant.clone(), definition.clone())).cloned(),
        };
        if let Some(remembered) = remembered {
            let checked = self.check_for(pool, interpreter, tenant, remembered, values).await?;
            if checked.problems.is_empty() || version.is_some() {
                return Ok(checked);
            }
        }
        // Nothing remembered, or perhaps replaced since.
        let wanted = VersionSelector {
            definition_id: Some(definition.clone()),
            published: true,
            ..VersionSelector::default()
        };
        let Some(row) = definition::find(pool, tenant, &wanted).await? else {
            return Ok(CheckedStart {
                version: VersionId::default(),
                problems: Vec::new(),
                trigger: None,
            });
        };
        self.remember_published(tenant, definition, &row.version_id);
        self.check_for(pool, interpreter, tenant, row.version_id, values).await
    }

    /// Checks a start for one version.
    pub(crate) async fn check_for(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        tenant: &TenantId,
        version: VersionId,
        values: StartValues<'_>,
    ) -> Result<CheckedStart> {
        let program = self.get(pool, interpreter, tenant, &version).await?;
        Ok(CheckedStart {
            problems: program.start_errors(values),
            trigger: values.trigger_node_id.and_then(|node_id| program.activity_at(node_id)),
            version,
        })
    }

    /// This version was the published one a moment ago.
    pub(crate) fn remember_published(&self, tenant: &TenantId, definition: &DefinitionId, version: &VersionId) {
        let mut published = self.published();
        if published.len() >= CAPACITY {
            published.clear();
        }
        published.insert((tenant.clone(), definition.clone()), version.clone());
    }

    /// Whether this node knows all activities of this version, else of the published one, as far as it was read.
    pub(crate) fn can_run(&self, tenant: &TenantId, definition: &DefinitionId, version: Option<&VersionId>) -> bool {
        let published = match version {
            Some(version) => Some(version.clone()),
            None => self.published().get(&(tenant.clone(), definition.clone())).cloned(),
        };
        let Some(version) = published else { return true };
        let program = self.known().find(&(tenant.clone(), version));
        program.is_none_or(|program| program.missing_activity_types().is_empty())
    }

    /// The program of a version, compiled once. Dropped while it compiles, the next caller begins again.
    pub(crate) async fn get(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        tenant: &TenantId,
        version: &VersionId,
    ) -> Result<Arc<Program>> {
        let key = (tenant.clone(), version.clone());
        let cell = {
            let mut known = self.known();
            if let Some(program) = known.find(&key) {
                return Ok(program);
            }
            known.cell(&key)
        };
        let compiled = cell.get_or_try_init(|| compile(pool, interpreter, tenant, version));
        // Boxed, as it is seldom awaited and part of the future of every burst.
        let compiled = Box::pin(compiled).await.map(Arc::clone);
        let mut known = self.known();
        // The first caller that is done; after an error the next one begins again.
        if known
            .compiling
            .get(&key)
            .is_some_and(|current| Arc::ptr_eq(current, &cell))
        {
            known.compiling.remove(&key);
            if let Ok(program) = &compiled {
                known.keep(key, program);
            }
        }
        compiled
    }
}

async fn compile(
    pool: &Pool,
    interpreter: &Interpreter,
    tenant: &TenantId,
    version: &VersionId,
) -> Result<Arc<Program>> {
    let missing = || {
        Error::not_found(
            "definition-not-found",
            format!("no workflow definition has the version id {version:?}"),
        )
    };
    let rows = definition::composition::used_versions(pool, tenant, &[version.as_str()]).await?;
    let is_long = rows.len() > 10 || rows.iter().any(|row| compute::is_large(&row.body));
    let (wanted, interpreter) = (version.clone(), interpreter.clone());
    let compiling = compute::run(is_long, move || {
        let Some((definition, composition)) = composed(rows, &wanted)? else {
            return Ok(None);
        };
        interpreter
            .compile_composed(&definition, &composition)
            .map(|program| Some(Arc::new(program)))
    });
    compiling.await??.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::activity::Catalogue;
    use crate::definition::WorkflowDefinition;
    use crate::execution::InterpreterOptions;

    fn program(activities: usize) -> Arc<Program> {
        let lines: Vec<Value> = (0..activities)
            .map(|n| {
                json!({"type": "Elsa.WriteLine", "id": format!("line-{n}"), "version": 1, "name": format!("Line {n}"),
                       "metadata": {"designer": {"position": {"x": n, "y": 7}}},
                       "text": {"typeName": "String", "expression": {"type": "Literal", "value": format!("This is line {n}")}}})
            })
            .collect();
        let connections: Vec<Value> = (1..activities)
            .map(|n| {
                json!({"source": {"activity": format!("line-{}", n - 1), "port": "Done"},
                            "target": {"activity": format!("line-{n}"), "port": "In"}})
            })
            .collect();
        let body =
            json!({"root": {"type": "Elsa.Flowchart", "id": "root", "activities": lines, "connections": connections}});
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let definition = WorkflowDefinition::from_value(body).unwrap();
        Arc::new(interpreter.compile(&definition).unwrap())
    }

    fn key(id: &str) -> Key {
        (TenantId::default(), VersionId::new(id))
    }

    #[test]
    fn bytes_bound_what_is_kept_and_not_what_runs() {
        let (small, large) = (program(1), program(200));
        let budget = large.bytes();
        let programs = ProgramCache::new(budget);
        let mut known = programs.known();
        known.keep(key("large"), &large);
        assert!(
            known.kept.get(&key("large")).is_none(),
            "larger than the budget with its overhead"
        );
        assert!(known.find(&key("large")).is_some(), "it is in use");
        drop(large);
        assert!(known.find(&key("large")).is_none(), "no burst uses it any more");
        assert_eq!(known.kept.used(), 0);
        for n in 0..200 {
            known.keep(key(&n.to_string()), &program(1));
        }
        let (used, one) = (known.kept.used(), small.bytes() + OVERHEAD);
        assert!(used > 20 * one && used <= budget, "{used}");
        assert!(known.find(&key("199")).is_some() && known.find(&key("0")).is_none());
        assert!(known.loose.len() <= LEFTOVERS, "what nothing uses is forgotten");
    }

    /// In a process of its own: what is measured is the memory of the whole process.
    #[test]
    fn the_estimate_of_a_program_is_honest() {
        let alone = "runtime::context::program_cache::tests::the_estimate_is_honest_alone";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", alone, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && output.contains("1 passed"), "{output}");
    }

    #[test]
    #[ignore = "run by the test above, in a process of its own"]
    fn the_estimate_is_honest_alone() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/statm").unwrap();
            status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        // The allocator reuses the memory of the first one for the others.
        drop(program(4000));
        let before = resident();
        let programs: Vec<_> = (0..5).map(|_| program(4000)).collect();
        let grown = resident() - before;
        let estimate: usize = programs.iter().map(|program| program.bytes()).sum();
        println!("estimated {} KiB, grown by {} KiB", estimate >> 10, grown >> 10);
        // The definitions themselves were freed in between, which leaves holes.
        assert!(estimate > grown / 2 && estimate < grown * 3, "{estimate} for {grown}");
    }
}

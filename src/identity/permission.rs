//! The permissions that routes ask for, and sets of them.
//!
//! A permission is a name such as `read:workflow-definitions`, as in Elsa. A set may have wildcards: `*` is every permission,
//! and `read:*` every one that begins with `read:`. Names that no route asks for stay in a set: they are those of a workflow
//! endpoint's `Policy`, or of a program behind the same identity provider.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Every permission, present and future.
const EVERYTHING: &str = "*";
/// What a wildcard ends with.
const WILDCARD: &str = ":*";

macro_rules! permissions {
    ($($variant:ident = $name:literal, $description:literal;)*) => {
        /// A permission that routes ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Permission {
            $(#[doc = $description] $variant,)*
        }

        impl Permission {
            /// All of them, in the order of the reference.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name, as tokens and roles have it.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it allows, for the reference.
            #[cfg(test)]
            pub(crate) const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)*
                }
            }
        }
    };
}

permissions! {
    ReadWorkflowDefinitions = "read:workflow-definitions", "Read, list, compare and export definitions.";
    WriteWorkflowDefinitions = "write:workflow-definitions", "Save and import definitions.";
    PublishWorkflowDefinitions = "publish:workflow-definitions", "Publish versions, and revert to them.";
    RetractWorkflowDefinitions = "retract:workflow-definitions", "Retract published versions.";
    DeleteWorkflowDefinitions = "delete:workflow-definitions", "Delete definitions and versions.";
    ExecWorkflowDefinitions = "exec:workflow-definitions", "Start instances.";
    RefreshWorkflowDefinitions = "actions:workflow-definitions:refresh", "Compute triggers and schedules again.";
    ReloadWorkflowDefinitions = "actions:workflow-definitions:reload", "Read definitions of providers again.";
    ReadWorkflowInstances = "read:workflow-instances", "Read, list, follow and export instances and their journals.";
    WriteWorkflowInstances = "write:workflow-instances", "Resume instances, set their variables, import instances.";
    CancelWorkflowInstances = "cancel:workflow-instances", "Cancel instances.";
    DeleteWorkflowInstances = "delete:workflow-instances", "Delete instances.";
    ReadActivityExecution = "read:activity-execution", "Read what activities did.";
    ReadActivityDescriptors = "read:activity-descriptors", "Read which activities exist.";
    ReadActivityDescriptorsOptions = "read:activity-descriptors-options", "Read the choices of an input.";
    ReadExpressionDescriptors = "read:expression-descriptors", "Read which expressions exist.";
    ReadOutputConverters = "read:output-converters", "Read which output converters exist.";
    ReadStorageDrivers = "read:storage-drivers", "Read which storage drivers exist.";
    ReadVariableDescriptors = "read:variable-descriptors", "Read which types variables have.";
    ReadInstalledFeatures = "read:installed-features", "Read which features the server has.";
    ReadCommitStrategies = "read:commit-strategies", "Read which commit strategies exist.";
    ReadIncidentStrategies = "read:incident-strategies", "Read which incident strategies exist.";
    ReadLogPersistenceStrategies = "read:log-persistence-strategies", "Read which strategies of log persistence exist.";
    ReadWorkflowActivationStrategies = "read:workflow-activation-strategies", "Read which activation strategies exist.";
    ReadResilience = "read:resilience", "Read resilience strategies and retries.";
    ReadResilienceStrategies = "read:resilience:strategies", "Read which resilience strategies exist.";
    ReadResilienceRetries = "read:resilience:retries", "Read the retries of an activity.";
    ReadJavascriptTypeDefinitions = "read:javascript-type-definitions", "Read the types for the editor of expressions.";
    TriggerEvent = "trigger:event", "Publish events.";
    TasksComplete = "tasks:complete", "List and complete tasks.";
    ExecTests = "exec:tests", "Run one activity or expression of a draft.";
    ReadDeadLetters = "read:bookmark-queue:dead-letters", "Read dead letters.";
    DeleteDeadLetters = "delete:bookmark-queue:dead-letters", "Delete dead letters.";
    ReplayDeadLetters = "replay:bookmark-queue:dead-letters", "Turn dead letters into work again.";
    ReadWorkflowRuntime = "read:workflow-runtime", "Read whether the cluster accepts work.";
    ManageWorkflowRuntime = "ManageWorkflowRuntime", "Pause, resume and drain the cluster, as Elsa names it.";
    ReadAlterations = "read:alterations", "Read alterations.";
    RunAlterations = "run:alterations", "Alter instances, and retry faulted ones.";
    ReadUser = "read:user", "List users.";
    CreateUser = "create:user", "Create users.";
    UpdateUser = "update:user", "Change roles and passwords of users, and disable them.";
    DeleteUser = "delete:user", "Delete users.";
    ReadRole = "read:role", "List roles.";
    CreateRole = "create:role", "Create roles.";
    UpdateRole = "update:role", "Change roles.";
    DeleteRole = "delete:role", "Delete roles, and read what that would change.";
    ReadApplication = "read:application", "List applications.";
    CreateApplication = "create:application", "Create applications and their keys.";
    DeleteApplication = "delete:application", "Delete applications: their keys are good no more.";
    ReadCluster = "read:cluster", "Read nodes, work and locks of the cluster.";
    WriteCluster = "write:cluster", "Pause, resume and drain the cluster.";
    ReadSchedules = "read:schedules", "Read schedules and timers.";
    WriteSchedules = "write:schedules", "Pause, resume and fire schedules.";
    ReadResumeLinks = "read:resume-links", "List resume links.";
    WriteResumeLinks = "write:resume-links", "Make and revoke resume links.";
    ReadWebhooks = "read:webhooks", "List webhook sinks and deliveries.";
    WriteWebhooks = "write:webhooks", "Change webhook sinks, and deliver events again.";
    ReadAudit = "read:audit", "Read and export the audit.";
}

impl Permission {
    /// Whether it is about what all tenants share: only callers of the default tenant use it.
    pub(crate) const fn is_cluster_wide(self) -> bool {
        matches!(
            self,
            Self::ReadCluster | Self::WriteCluster | Self::ManageWorkflowRuntime
        )
    }

    /// Its place in a set.
    const fn bit(self) -> u128 {
        1 << self as u32
    }
}

/// A set of permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// As they were given; shared, because each request has a copy.
    names: Arc<BTreeSet<String>>,
    /// Those that routes ask for, wildcards included: a request is checked without a comparison of texts.
    known: u128,
}

impl Permissions {
    /// All permissions.
    pub(crate) fn everything() -> Self {
        Self::of([EVERYTHING.to_owned()].into_iter())
    }

    /// The set of these names and wildcards; unknown names are kept.
    pub(crate) fn of(names: impl Iterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.collect();
        let covered = |permission: &&Permission| covers_name(&names, permission.name());
        let known = Permission::ALL
            .iter()
            .filter(covered)
            .fold(0, |bits, one| bits | one.bit());
        Self {
            names: Arc::new(names),
            known,
        }
    }

    /// Whether it has one of these permissions; of none it has none.
    pub(crate) fn allows(&self, any_of: &[Permission]) -> bool {
        any_of.iter().any(|permission| self.known & permission.bit() != 0)
    }

    /// Whether it has the permission with this name, which no route has to know.
    pub(crate) fn has(&self, name: &str) -> bool {
        covers_name(&self.names, name)
    }

    /// Whether it has all that another set has: who has it can give the other set away.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.names.iter().all(|name| self.has(name))
    }

    /// Whether it has every permission: Elsa's policy `SecurityRoot`.
    pub(crate) fn is_everything(&self) -> bool {
        self.names.contains(EVERYTHING)
    }

    /// The names and wildcards, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Whether a name, or a wildcard itself, is in a set or below one of its wildcards.
fn covers_name(names: &BTreeSet<String>, name: &str) -> bool {
    let below_wildcard = || {
        let ends = name.match_indices(':').map(|(at, _)| at);
        ends.filter_map(|at| name.get(..at))
            .any(|verb| !verb.is_empty() && names.contains(&format!("{verb}{WILDCARD}")))
    };
    names.contains(EVERYTHING) || names.contains(name) || below_wildcard()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Permissions {
        Permissions::of(names.iter().map(|&name| name.to_owned()))
    }

    #[test]
    fn each_permission_has_a_name_of_its_own_and_a_place() {
        let names: BTreeSet<_> = Permission::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Permission::ALL.len());
        assert!(Permission::ALL.len() <= u128::BITS as usize);
        for one in Permission::ALL {
            assert!(set(&[one.name()]).allows(&[*one]), "{one:?}");
            assert_eq!(set(&[one.name()]).known.count_ones(), 1, "{one:?}");
            assert!(one.description().ends_with('.'), "{one:?}");
        }
    }

    #[test]
    fn wildcards_allow_what_begins_with_them() {
        use Permission::{ReadDeadLetters, ReadWorkflowDefinitions, WriteWorkflowDefinitions};
        let readers = set(&["read:*"]);
        assert!(readers.allows(&[ReadWorkflowDefinitions]) && readers.allows(&[ReadDeadLetters]));
        assert!(!readers.allows(&[WriteWorkflowDefinitions]) && !readers.allows(&[]));
        assert!(readers.allows(&[WriteWorkflowDefinitions, ReadWorkflowDefinitions]));
        assert!(readers.has("read:of-a-policy") && !readers.has("reader:x") && !readers.has("read"));
        assert!(set(&["read:bookmark-queue:*"]).allows(&[ReadDeadLetters]));
        assert!(!set(&["read:bookmark-queue:*"]).allows(&[ReadWorkflowDefinitions]));
        assert!(
            Permission::ALL
                .iter()
                .all(|&one| Permissions::everything().allows(&[one]))
        );
        for nothing in ["", ":*", "**", "*:*", "READ:*", "read*", " *"] {
            assert_eq!(set(&[nothing]).known, 0, "{nothing:?}");
        }
    }

    #[test]
    fn a_set_gives_away_no_more_than_it_has() {
        let editor = set(&["read:*", "write:workflow-definitions", "approve:invoices"]);
        for own in [
            &["read:user"][..],
            &["read:*"],
            &["read:bookmark-queue:*"],
            &["approve:invoices", "write:workflow-definitions"],
            &[],
        ] {
            assert!(editor.covers(&set(own)), "{own:?}");
        }
        for greater in [
            &["*"][..],
            &["write:*"],
            &["approve:orders"],
            &["read:user", "create:user"],
        ] {
            assert!(!editor.covers(&set(greater)), "{greater:?}");
            assert!(Permissions::everything().covers(&set(greater)));
        }
    }
}

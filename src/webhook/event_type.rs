//! The events that sinks receive.

/// An event of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventType {
    /// The first commit of an instance.
    Started,
    /// A burst has ended, and the instance waits.
    Suspended,
    /// The instance has ended as it was meant to.
    Finished,
    /// The instance has ended with a fault.
    Faulted,
    /// The instance was cancelled.
    Cancelled,
    /// `Elsa.RunTask` waits for the result of a task.
    RunTask,
    /// A row was given up. The database makes this one; see `dead_letter` in the schema.
    DeadLetter,
}

impl EventType {
    pub(crate) const ALL: [Self; 7] = [
        Self::Started,
        Self::Suspended,
        Self::Finished,
        Self::Faulted,
        Self::Cancelled,
        Self::RunTask,
        Self::DeadLetter,
    ];

    /// The text in `eventType`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Started => "WorkflowInstance.Started",
            Self::Suspended => "WorkflowInstance.Suspended",
            Self::Finished => "WorkflowInstance.Finished",
            Self::Faulted => "WorkflowInstance.Faulted",
            Self::Cancelled => "WorkflowInstance.Cancelled",
            Self::RunTask => "Elsa.RunTask",
            Self::DeadLetter => "DeadLetter.Created",
        }
    }
}

/// Whether an event has this type.
pub(crate) fn is_known(text: &str) -> bool {
    EventType::ALL.iter().any(|known| known.as_str() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_is_compared_exactly() {
        assert!(is_known("Elsa.RunTask") && is_known("DeadLetter.Created"));
        assert!(!is_known("elsa.runtask") && !is_known("RunTask") && !is_known(""));
    }
}

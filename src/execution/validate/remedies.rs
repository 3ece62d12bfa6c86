//! Elsa's activity types and functions of scripts that this engine does not run, each with what to do instead.

/// The remedy by type. A program that registers a type of that name runs it.
const REMEDIES: [(&str, &str); 14] = [
    (
        "Elsa.ReadLine",
        "a server has no console to read from; wait for an Elsa.Event or an Elsa.RunTask, whose payload or result is the line",
    ),
    (
        "Elsa.RunPython",
        "write it as an Elsa.RunJavaScript or Elsa.RunCSharp, or let a program do it as an Elsa.RunTask",
    ),
    (
        "Elsa.Inline",
        "its code exists only in the .NET program that built the workflow; register an activity of a program, or use an Elsa.RunTask",
    ),
    (
        "Elsa.HostMethodActivity",
        "it calls a method of a .NET program; register an activity of a program, or use an Elsa.RunTask",
    ),
    (
        "Elsa.NotFoundActivity",
        "it stands for an activity whose type the server that wrote the definition did not know; replace it by that activity, or remove it",
    ),
    ("Elsa.BpmnProcess", "draw the process as an Elsa.Flowchart"),
    (
        "Elsa.WebhookEventReceived",
        "wait for an Elsa.Event, and let the sender publish it by POST /events/{name}/trigger",
    ),
    (
        "Elsa.HttpEndpoint",
        "start the workflow by POST /workflow-definitions/{id}/execute, or wait for an Elsa.Event",
    ),
    (
        "Elsa.SendHttpRequest",
        "let a program send it as an Elsa.RunTask, or register an activity of a program",
    ),
    (
        "Elsa.FlowSendHttpRequest",
        "let a program send it as an Elsa.RunTask, or register an activity of a program",
    ),
    (
        "Elsa.DownloadHttpFile",
        "let a program download it as an Elsa.RunTask, or register an activity of a program",
    ),
    (
        "Elsa.WriteHttpResponse",
        "set an output of the workflow by Elsa.SetOutput, which the response to an execute contains",
    ),
    (
        "Elsa.WriteFileHttpResponse",
        "set an output of the workflow by Elsa.SetOutput, which the response to an execute contains",
    ),
    (
        "Elsa.HttpRequest",
        "let a program send it as an Elsa.RunTask, or register an activity of a program",
    ),
];

/// The remedies of types that a provider of Elsa's names, by their prefix.
const PREFIXES: [(&str, &str); 2] = [
    ("Elsa.Dynamic.HostMethod.", "Elsa.HostMethodActivity"),
    ("Webhooks.", "Elsa.WebhookEventReceived"),
];

/// What to do instead of an activity of this type, if it is one of Elsa's that this engine does not run.
pub(super) fn remedy(type_name: &str) -> Option<&'static str> {
    let prefix = PREFIXES.iter().find(|(prefix, _)| type_name.starts_with(prefix));
    let known = prefix.map_or(type_name, |(_, like)| like);
    REMEDIES
        .iter()
        .find(|(name, _)| *name == known)
        .map(|(_, remedy)| *remedy)
}

//! Elsa's activity types that this engine does not run, each with its module and what to do instead.

/// The remedy by type. A program that registers a type of that name runs it.
const REMEDIES: [(&str, &str); 12] = [
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
        "name its source and its event types in the webhooks-file of the nodes, which makes its activity Webhooks.<Source>.<Event>; or \
         wait for an Elsa.Event, and let the sender publish it by POST /events/{name}/trigger",
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
        "Elsa.SendEmail",
        "let a program send it as an Elsa.RunTask, or register an activity of a program",
    ),
    (
        "Elsa.HttpRequest",
        "use Elsa.FlowSendHttpRequest, or Elsa.SendHttpRequest outside of a flowchart",
    ),
];

/// The remedies of types that a provider of Elsa's names, by their prefix.
const PREFIXES: [(&str, &str); 2] = [
    ("Elsa.Dynamic.HostMethod.", "Elsa.HostMethodActivity"),
    ("Webhooks.", "Elsa.WebhookEventReceived"),
];

/// The extension modules of Elsa, by the types of their activities or, with a dot at the end, what those begin with.
const MODULES: [(&str, &str); 15] = [
    ("Elsa.Agents.", "Elsa.Agents"),
    ("Elsa.SqlQuery", "Elsa.Sql"),
    ("Elsa.SqlCommand", "Elsa.Sql"),
    ("Elsa.SqlSingleValue", "Elsa.Sql"),
    ("Elsa.OpenFile", "Elsa.Storage.Files"),
    ("Elsa.SaveFile", "Elsa.Storage.Files"),
    ("Elsa.Kafka.", "Elsa.Kafka"),
    ("Elsa.ServiceBus.", "Elsa.ServiceBus"),
    ("Elsa.AzureServiceBus.", "Elsa.AzureServiceBus"),
    ("Elsa.MassTransit.", "Elsa.MassTransit"),
    ("Elsa.Zendesk.", "Elsa.Zendesk"),
    ("Elsa.Slack.", "Elsa.Slack"),
    ("Elsa.GitHub.", "Elsa.GitHub"),
    ("Telnyx.", "Elsa.Telnyx"),
    ("OrchardCore.", "Elsa.OrchardCore"),
];

/// The module of Elsa that has this type, if it is known for it.
pub(super) fn module(type_name: &str) -> Option<&'static str> {
    let is_of = |name: &str| {
        if name.ends_with('.') {
            type_name.starts_with(name)
        } else {
            type_name == name
        }
    };
    MODULES.iter().find(|(name, _)| is_of(name)).map(|(_, module)| *module)
}

/// What to do instead of an activity of this type, if it is one of Elsa's that this engine does not run.
pub(super) fn remedy(type_name: &str) -> Option<&'static str> {
    let prefix = PREFIXES.iter().find(|(prefix, _)| type_name.starts_with(prefix));
    let known = prefix.map_or(type_name, |(_, like)| like);
    REMEDIES
        .iter()
        .find(|(name, _)| *name == known)
        .map(|(_, remedy)| *remedy)
}

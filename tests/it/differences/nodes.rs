//! What a node is, and what becomes of its work.

use super::Difference;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "A node that ends in the middle of a burst",
        elsa: "the instance stays `Running`; a node restarts it from its last commit after 5 minutes without a change",
        here: "another node goes on with it from its last commit within a second; a service that is called again gets the same \
               idempotency key",
        why: "a crash costs a moment, and no operator",
        other: "–",
        test: "it::failover::take_over::claims_of_a_killed_node_are_run_by_the_others",
    },
    Difference {
        what: "`https://` in `ASPNETCORE_URLS`",
        elsa: "serves TLS",
        here: "ignored with a warning; the first `http://` address is taken",
        why: "a proxy or the platform has the certificates",
        other: "a proxy before the nodes",
        test: "cli::elsa::tests::addresses_are_read_as_by_kestrel",
    },
    Difference {
        what: "Control characters in what `Elsa.WriteLine` writes",
        elsa: "written as they are",
        here: "escaped: one line of a workflow is one line of the output",
        why: "a workflow cannot add lines to the log or control a terminal",
        other: "–",
        test: "it::input::text::a_workflow_writes_one_line_per_line_and_none_of_the_programs",
    },
    Difference {
        what: "`ChannelName` and `StartNewTrace` of `Elsa.DispatchWorkflow` and `Elsa.BulkDispatchWorkflows`",
        elsa: "choose the channel of the dispatcher, and begin a trace",
        here: "no effect",
        why: "all nodes take work from one queue in the database, which needs no channels",
        other: "`--roles` and `--workers` of a node, or a `--schema` of its own",
        test: "it::differences::events::a_channel_has_no_effect",
    },
];

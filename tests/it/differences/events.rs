//! What starts an instance, and what it waits for.

use serde_json::{Value, json};

use super::Difference;
use super::run::{ID, id_of, lines, only_instance, published};
use crate::support::Http;
use crate::support::cases::{activity, arrow, event, flag, flowchart, line, script, sequence, text};
use crate::support::single_node::SingleNode;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "An event that starts an instance whose next activity waits for the same event",
        elsa: "starts the instance, and then resumes it, too",
        here: "starts it; it waits for the next event",
        why: "one event is met once, by what waited or could start at that moment",
        other: "publish the event again",
        test: "it::differences::events::an_event_that_starts_an_instance_does_not_resume_it",
    },
    Difference {
        what: "A trigger that is executed again in its instance",
        elsa: "completes at once within the first burst; after a wait it waits",
        here: "waits, like any other time that it is executed",
        why: "the first event is used up, and a loop around a trigger would never end",
        other: "run what is to be repeated behind the trigger, and leave the trigger out of the loop",
        test: "it::differences::events::a_trigger_that_is_executed_again_waits",
    },
    Difference {
        what: "An event that nothing waits for",
        elsa: "kept for 10 minutes for instances that begin to wait for it",
        here: "kept for `inbox-lifetime` (24 h), also for a workflow that is published with such a trigger; with an addressee it \
               is then a dead letter",
        why: "events and waits arrive in any order, and none is lost without a trace",
        other: "`inbox-lifetime = \"10m\"`",
        test: "it::library::requests::an_event_starts_what_it_triggers_once_and_so_does_one_that_came_before_the_publish",
    },
    Difference {
        what: "Activation strategies (`SingletonStrategy` and so on)",
        elsa: "hold for executes and events",
        here: "hold for every start: also for timers, dispatches, children and imports",
        why: "a workflow that may run once does not run twice because of who starts it",
        other: "`AllowAlwaysStrategy`, and an `Elsa.If` where it matters",
        test: "it::differences::events::an_activation_strategy_holds_for_dispatches_and_children",
    },
    Difference {
        what: "Two starts at the same moment under an activation strategy",
        elsa: "both may run: the check and the start are two steps",
        here: "one runs, on any number of nodes",
        why: "the start holds a key in the database until its instance has ended",
        other: "–",
        test: "it::api::start_checks::an_activation_strategy_holds_on_every_node_from_the_publish_on",
    },
    Difference {
        what: "What a schedule of a cron expression or interval missed while no node ran",
        elsa: "is lost; the next occurrence is computed at the start",
        here: "`misfire` decides: by default the latest missed occurrence fires once (`FireOnceNow`)",
        why: "a nightly job runs although the server was down at night",
        other: "`misfire` `Skip`",
        test: "schedule::tests::misfires::every_kind_policy_and_downtime",
    },
    Difference {
        what: "Schedules of a cluster",
        elsa: "each node fires its own timers, unless Quartz or Hangfire is configured",
        here: "each occurrence starts one instance in the whole cluster",
        why: "a second node makes work safer, and not double",
        other: "–",
        test: "it::timers::kill::every_occurrence_fires_once_through_kills_at_every_failpoint_and_at_random",
    },
    Difference {
        what: "Cron expressions with five fields",
        elsa: "an exception: the second is required",
        here: "taken; the second is 0",
        why: "most expressions have five fields",
        other: "six fields",
        test: "schedule::tests::cronos::five_fields_and_six",
    },
    Difference {
        what: "Cron expressions in an Elsa server that is configured with Quartz",
        elsa: "Quartz's dialect: days of the week are 1 to 7 from Sunday on, one of both days is `?`, and there may be a year",
        here: "the dialect of Cronos, Elsa's default: days of the week are 0 to 7 from Sunday on. A publish warns of what Quartz reads \
               otherwise",
        why: "one expression has one meaning, whatever the server is built with",
        other: "names of days (`MON`), which are the same in both",
        test: "execution::tests::warnings::a_cron_expression_that_quartz_reads_otherwise_is_a_warning",
    },
    Difference {
        what: "An interval below a second, and a cron expression that never fires",
        elsa: "accepted",
        here: "refused; an interval needs `belowASecond`",
        why: "both are mistakes more often than not",
        other: "`belowASecond`: `true`",
        test: "it::timers::schedules::every_error_of_a_schedule_is_reported_at_the_publish",
    },
    Difference {
        what: "Webhooks that the server sends",
        elsa: "sent from memory, without a signature, to the sinks of the configuration: only `RunTask`; what is not sent is lost with the \
               process",
        here: "rows of the commit that causes them, signed, sent until the sink has them or three days have passed, then dead letters that can \
               be replayed; also for what instances begin and come to, and to sinks of the API",
        why: "what was committed is told at least once, and its receiver can know who tells it",
        other: "an `eventTypes` of `[\"Elsa.RunTask\"]`; a receiver may ignore the signature",
        test: "it::webhooks::kill::a_kill_between_claim_and_mark_loses_no_delivery",
    },
    Difference {
        what: "Events that come to `POST /webhooks`",
        elsa: "taken from anyone",
        here: "taken with a signature of the source (401 otherwise), once for each `webhook-id`; a source without a secret is refused at the start",
        why: "the route needs no key, and starts workflows",
        other: "sign with a Standard Webhooks library, or publish the event with a key by `POST /events/{name}/trigger`",
        test: "it::webhooks::sources::an_event_that_no_secret_signs_starts_nothing",
    },
    Difference {
        what: "The type of the activity of a webhook event",
        elsa: "what the binding of the source names",
        here: "`Webhooks.<Source>.<Event>`, made of both names (`Webhooks.Shop.OrderPaid` for `order.paid`), unless the file says another one",
        why: "two sources never have one type, and Elsa's older servers named it so",
        other: "`activityType` of the event in the webhooks-file",
        test: "it::webhooks::sources::an_event_starts_and_resumes_workflows_once_for_its_id",
    },
];

fn trigger() -> Value {
    let mut trigger = event("Go");
    trigger["canStartWorkflow"] = json!(true);
    trigger
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_starts_an_instance_does_not_resume_it() {
    let mut waits = event("Go");
    waits["id"] = json!("again");
    let node = published(sequence("root", &[trigger(), waits, line("end")])).await;
    node.http.trigger("Go", &json!({})).await;
    let instance = only_instance(&node.http, "Suspended").await;
    assert!(lines(&node.http, id_of(&instance)).await.is_empty());
    // The next one resumes it, and starts another.
    node.http.trigger("Go", &json!({})).await;
    node.http.instance_becomes(id_of(&instance), "Finished").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_is_executed_again_waits() {
    let chart = flowchart(
        &[trigger(), line("round")],
        &[arrow("wait-Go", "Done", "round"), arrow("round", "Done", "wait-Go")],
    );
    let node = published(chart).await;
    node.http.trigger("Go", &json!({})).await;
    let instance = only_instance(&node.http, "Suspended").await;
    assert_eq!(lines(&node.http, id_of(&instance)).await, ["round"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_has_no_effect() {
    let node = published(line("a")).await;
    let child = activity(
        "Elsa.DispatchWorkflow",
        "child",
        json!({"workflowDefinitionId": text(ID), "channelName": text("other"), "startNewTrace": flag(true)}),
    );
    node.publish("parent", child).await;
    node.http.execute("parent", &json!({})).await;
    let instance = only_instance(&node.http, "Finished").await;
    assert_eq!(lines(&node.http, id_of(&instance)).await, ["a"]);
}

/// The number of instances of the workflow that have not ended.
async fn running(http: &Http) -> Value {
    let path = format!("workflow-instances?definitionId={ID}&status=Running");
    http.get(&path).await.expect(200)["totalCount"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_strategy_holds_for_dispatches_and_children() {
    let node = SingleNode::start(&[]).await;
    let single =
        json!({"definitionId": ID, "root": event("Never"), "options": {"activationStrategyType": "SingletonStrategy"}});
    node.http.publish(&single).await;
    node.http.execute(ID, &json!({})).await;
    let dispatch = node
        .http
        .post(&format!("workflow-definitions/{ID}/dispatch"), &json!({}))
        .await;
    dispatch.assert_refused(409, "cannot-start");
    let child = activity(
        "Elsa.DispatchWorkflow",
        "child",
        json!({"workflowDefinitionId": text(ID), "waitForCompletion": flag(true),
            "result": {"typeName": "Object", "memoryReference": {"id": "r"}}}),
    );
    let says = activity(
        "Elsa.SetOutput",
        "out",
        json!({"outputName": text("Was"), "outputValue": script("String", "getR().subStatus")}),
    );
    let parent = json!({"definitionId": "parent", "root": sequence("root", &[child, says]),
        "variables": [{"id": "r", "name": "R", "typeName": "Object"}], "outputs": [{"name": "Was", "type": "String"}]});
    node.http.publish(&parent).await;
    let started = node.http.execute("parent", &json!({})).await;
    let id = id_of(&started["workflowState"]);
    node.http.instance_becomes(id, "Finished").await;
    let ended = node.http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!(ended["workflowState"]["output"]["Was"], "Faulted", "{ended}");
    assert_eq!(running(&node.http).await, 1);
}

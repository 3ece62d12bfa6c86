//! What the REST API answers.

use reqwest::Method;
use serde_json::{Value, json};

use super::Difference;
use super::run::{ID, executed, published};
use crate::support::Http;
use crate::support::cases::line;
use crate::support::single_node::SingleNode;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "`POST /workflow-instances` with nothing but the fields of a start, such as `{\"definitionId\": \"x\"}`",
        elsa: "lists the instances of the definition",
        here: "starts an instance",
        why: "programs of this project start instances so; Elsa's clients send further fields when they list",
        other: "any field of a list beside it, as `{\"definitionId\": \"x\", \"page\": 0}`, or `GET`",
        test: "it::differences::api::a_body_of_a_start_starts",
    },
    Difference {
        what: "A refresh token (`POST /identity/refresh-token`)",
        elsa: "good again and again until it expires",
        here: "good once: a repeat within 30 s gets the same pair, a later one ends the session (401 `token-reused`)",
        why: "a copy of it shows itself, and ends what it was taken for",
        other: "–",
        test: "it::api::identity::elsas_clients_sign_in_and_go_on_at_any_node",
    },
    Difference {
        what: "The hashes of passwords and keys in answers, and `POST /identity/secrets/hash`",
        elsa: "answered to those who may add users and applications",
        here: "never answered; no such route",
        why: "a hash helps only who guesses",
        other: "`mainspring user add`, `mainspring key add`",
        test: "it::api::identity::administrators_manage_users_roles_and_applications",
    },
    Difference {
        what: "Deleting a definition",
        elsa: "deletes its instances, running ones, too",
        here: "keeps them: what runs goes on, and what has ended can be read",
        why: "a mistake in the list of definitions ends no order that is under way",
        other: "`POST /bulk-actions/delete/workflow-instances` with `{\"workflowDefinitionId\": \"x\"}`",
        test: "it::api::definitions::a_draft_runs_and_what_is_deleted_keeps_its_instances",
    },
    Difference {
        what: "Deleting a definition that another one uses as an activity",
        elsa: "204",
        here: "409 `definition-used`",
        why: "no published workflow loses a part of it",
        other: "delete the consumers first (`GET /workflow-definitions/{id}/consumers`)",
        test: "it::composition::nested::a_consumer_is_published_looked_into_and_protects_what_it_uses",
    },
    Difference {
        what: "Publishing a read-only definition that has never been published",
        elsa: "403",
        here: "published",
        why: "nothing else could publish what was imported",
        other: "leave it unpublished: an import saves a draft",
        test: "it::api::readonly::a_readonly_definition_is_published_once",
    },
    Difference {
        what: "Deleting a version of a definition of the system by its id",
        elsa: "204",
        here: "403 `definition-readonly`",
        why: "only the program that embeds the engine changes what belongs to the system",
        other: "the program deletes it",
        test: "it::api::readonly::what_belongs_to_the_system_is_changed_by_no_client",
    },
    Difference {
        what: "The number of a new definition that an import creates",
        elsa: "1",
        here: "that of its file",
        why: "instances and consumers may name it",
        other: "leave `version` out of the file",
        test: "it::api::readonly::a_new_definition_begins_at_one_with_a_sequence",
    },
    Difference {
        what: "A start at an `activityHandle`",
        elsa: "executes only that activity",
        here: "begins at it, inside of its containers; `activityInstanceId`, or `activityHash` alone, is 400 `not-supported`",
        why: "what stands behind the activity runs, too, and a new instance has no executions",
        other: "a workflow of that activity alone",
        test: "it::api::elsa_json::a_start_begins_at_the_activity_of_a_handle",
    },
    Difference {
        what: "Lists without `pageSize`, and with a large one",
        elsa: "everything; no maximum",
        here: "100 rows; more than 1,000 are refused (400)",
        why: "no request takes the memory of a node",
        other: "several pages",
        test: "it::differences::api::a_list_has_pages",
    },
    Difference {
        what: "`searchTerm` of instances",
        elsa: "finds any part of ids, names and correlation ids",
        here: "finds any part of the ids of definition and version, and the beginning of an instance's id, name and correlation id",
        why: "it stays quick with millions of instances",
        other: "[two indexes](rest.md#instances): then any part of the first 256 characters of names and correlation ids",
        test: "it::api::instance_list::filters_orders_and_pages_agree_with_a_model",
    },
    Difference {
        what: "`totalCount` of a list of instances",
        elsa: "exact",
        here: "exact to 10,000; beyond, an estimate (`totalCountIsEstimate`)",
        why: "as above",
        other: "a filter that finds fewer",
        test: "store::instance::list::tests::a_count_above_ten_thousand_is_an_estimate_and_says_so",
    },
    Difference {
        what: "The filter `isSystem` of instances with the value `false`",
        elsa: "leaves out those of the system",
        here: "no effect",
        why: "Elsa Studio sends it with every list, which stays quick, as versions of the system are rare",
        other: "`isSystem` of each instance of the list",
        test: "it::api::elsa_json::an_instance_says_whether_it_executes_and_whether_it_is_the_systems",
    },
    Difference {
        what: "A bulk action with many definitions, a `bulk-dispatch` with a large `count`, and a retry of many instances",
        elsa: "no maximum",
        here: "at most 1,000 each (400)",
        why: "no request takes the memory of a node",
        other: "several requests",
        test: "it::differences::api::a_bulk_action_takes_a_thousand_ids",
    },
    Difference {
        what: "Unknown ids on cancel, variables, journal and completion of a task",
        elsa: "200",
        here: "404",
        why: "a misspelt id is no success",
        other: "take 404 as done",
        test: "it::api::workflows::what_is_unknown_is_not_found",
    },
    Difference {
        what: "`POST /tests/activities` of an activity that does not exist",
        elsa: "400",
        here: "404 `activity-not-found`, or `definition-not-found`",
        why: "it is what is asked for that does not exist, and not the request that is wrong",
        other: "–",
        test: "it::api::activity_test::what_names_no_activity_is_refused",
    },
    Difference {
        what: "`GET /package/version` without credentials",
        elsa: "200",
        here: "401, like all routes of the API",
        why: "the version is a hint for attackers",
        other: "send the key, or read `GET /health/live`, which needs none",
        test: "it::differences::api::the_version_needs_the_key",
    },
    Difference {
        what: "`POST /bulk-actions/delete/workflow-instances` with `{}`",
        elsa: "deletes all instances",
        here: "400",
        why: "a field with a wrong name deletes nothing",
        other: "name the definitions or the instances",
        test: "it::fencing::cancel_and_delete::bulk_actions_affect_exactly_the_selected_instances",
    },
    Difference {
        what: "An `input` of an execute that is no object",
        elsa: "ignored",
        here: "400",
        why: "an instance does not run without what it was given",
        other: "leave `input` out",
        test: "it::differences::api::an_input_that_is_no_object_is_refused",
    },
    Difference {
        what: "`GET /activity-executions/list` without `workflowInstanceId`",
        elsa: "those of all instances",
        here: "400 `missing-field`",
        why: "no request takes the memory of a node",
        other: "one request for each instance",
        test: "it::differences::api::activity_executions_are_those_of_an_instance",
    },
    Difference {
        what: "Importing an instance that another Elsa server exported",
        elsa: "taken",
        here: "400 `instance-not-importable`; files of this engine are taken",
        why: "the state of an instance is that of its engine",
        other: "let instances end in Elsa, and start new ones here",
        test: "it::api::instance_files::what_cannot_be_continued_is_refused_and_changes_nothing",
    },
    Difference {
        what: "Importing an instance that exists",
        elsa: "overwrites it",
        here: "409 `instance-exists`",
        why: "what runs here is newer than a file",
        other: "delete the instance first",
        test: "it::api::instance_files::what_cannot_be_continued_is_refused_and_changes_nothing",
    },
    Difference {
        what: "Control characters in ids and names, and U+0000 in any text",
        elsa: "taken, if the database takes them",
        here: "400 `invalid-text`, `invalid-path` and so on",
        why: "PostgreSQL stores no U+0000, and ids stand in logs",
        other: "–",
        test: "it::input::text::ids_have_no_control_characters",
    },
    Difference {
        what: "`clrType` of the descriptors of activities",
        elsa: "the type of .NET",
        here: "left out",
        why: "there is none",
        other: "`typeName`, which names the activity",
        test: "it::differences::api::a_descriptor_has_no_type_of_dotnet",
    },
    Difference {
        what: "`GET /alterations/workflows/retry`",
        elsa: "retries, as by POST",
        here: "405",
        why: "a page of another site can make a browser send a GET",
        other: "POST",
        test: "it::differences::api::a_retry_is_posted",
    },
    Difference {
        what: "A retry of activities that have not faulted",
        elsa: "executes the named activities anew",
        here: "they are not executed, and the result says so (`not-faulted` if nothing of the instance has faulted); what has \
               faulted keeps its execution and its idempotency key",
        why: "no effect happens twice, and a service that is called again recognises the call",
        other: "start a new instance at the activity (`triggerActivityId`)",
        test: "execution::tests::retry::what_has_not_faulted_is_told_so_and_changes_nothing",
    },
    Difference {
        what: "`GET …/execute` of a server without an API key",
        elsa: "executes",
        here: "403 `header-required` without a header such as `X-Requested-With`",
        why: "as above",
        other: "the header, a key, or POST",
        test: "it::input::pages::no_page_acts_on_a_node_without_a_key",
    },
    Difference {
        what: "`Host` and `Origin` of requests",
        elsa: "any, in Elsa's image",
        here: "403 `host-not-allowed`, `cross-site-request`, but for the loopback, the address that the node listens on, and what \
               `--allowed-host` and `--cors-origin` name",
        why: "no web page drives a node of its reader's network",
        other: "`--allowed-host '*'` with a key; the origins of your pages in `--cors-origin`",
        test: "api::tests::a_request_of_a_foreign_page_is_rejected",
    },
    Difference {
        what: "How long an execute waits",
        elsa: "until the workflow waits or ends",
        here: "at most `answer-timeout` (30 s): then 202 with the state, and the workflow goes on",
        why: "connections are few, and a client that is gone cancels nothing",
        other: "raise `answer-timeout`",
        test: "it::differences::api::an_execute_is_answered_in_time",
    },
    Difference {
        what: "Bodies of requests",
        elsa: "30 MB, by the server's default; a field of a wrong type may be ignored",
        here: "10,485,760 bytes and 128 levels; one of the wrong type in a known field is refused",
        why: "parsed bodies share `body-memory`",
        other: "several requests",
        test: "it::api::workflows::bad_bodies_change_nothing",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_start_starts() {
    let node = published(line("a")).await;
    let started = node
        .http
        .post("workflow-instances", &json!({"definitionId": ID}))
        .await
        .expect(200);
    assert!(started["workflowInstanceId"].is_string(), "{started}");
    let list = json!({"definitionId": ID, "page": 0});
    let listed = node.http.post("workflow-instances", &list).await.expect(200);
    assert!(listed["totalCount"].is_number(), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_pages() {
    let node = published(line("a")).await;
    let many = json!({"definitionId": ID, "count": 101});
    let starts = node
        .http
        .post(&format!("workflow-definitions/{ID}/bulk-dispatch"), &many)
        .await;
    starts.expect(200);
    for list in ["workflow-instances", "workflow-definitions"] {
        let refused = node.http.get(&format!("{list}?pageSize=1001")).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    crate::support::wait_until("all instances", async || {
        node.http.get("workflow-instances").await.body["totalCount"] == 101
    })
    .await;
    let listed = node.http.get("workflow-instances").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 100);
    let whole = node.http.get("workflow-instances?pageSize=1000").await.expect(200);
    assert_eq!(whole["items"].as_array().unwrap().len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_action_takes_a_thousand_ids() {
    let node = SingleNode::start(&[]).await;
    for (count, status) in [(1000, 200), (1001, 400)] {
        let ids: Vec<String> = (0..count).map(|number| format!("none-{number}")).collect();
        let path = "bulk-actions/publish/workflow-definitions/by-definition-ids";
        let answer = node.http.post(path, &json!({ "definitionIds": ids })).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    node.publish(ID, line("a")).await;
    let path = format!("workflow-definitions/{ID}/bulk-dispatch");
    let refused = node.http.post(&path, &json!({"count": 1001})).await;
    refused.assert_refused(400, "invalid-field");
    let ids: Vec<String> = (0..1001).map(|number| format!("none-{number}")).collect();
    let retry = json!({ "workflowInstanceIds": ids });
    let refused = node.http.post("alterations/workflows/retry", &retry).await;
    refused.assert_refused(400, "invalid-field");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_needs_the_key() {
    let node = SingleNode::with_key(&[]).await;
    let stranger = Http::new(&format!("http://{}", node.address));
    stranger
        .get("package/version")
        .await
        .assert_refused(401, "unauthorized");
    stranger.get("/health/live").await.expect(200);
    node.http.get("package/version").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_no_object_is_refused() {
    let node = published(line("a")).await;
    for input in [json!("text"), json!([1])] {
        let path = format!("workflow-definitions/{ID}/execute");
        let refused = node.http.post(&path, &json!({ "input": input })).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    assert_eq!(node.http.get("workflow-instances").await.expect(200)["totalCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_executions_are_those_of_an_instance() {
    let node = published(line("a")).await;
    executed(&node.http).await;
    for list in ["activity-executions/list", "activity-execution-summaries/list"] {
        node.http.get(list).await.assert_refused(400, "missing-field");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_descriptor_has_no_type_of_dotnet() {
    let node = SingleNode::start(&[]).await;
    let listed = node.http.get("descriptors/activities").await.expect(200);
    let items: &Vec<Value> = listed["items"].as_array().unwrap();
    assert!(items.len() > 20);
    assert!(
        items
            .iter()
            .all(|item| item["clrType"].is_null() && item["typeName"].is_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_posted() {
    let node = SingleNode::with_key(&[]).await;
    let path = "alterations/workflows/retry";
    node.http.get(path).await.assert_refused(405, "method-not-allowed");
    node.http
        .post(path, &json!({"workflowInstanceIds": ["none"]}))
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execute_is_answered_in_time() {
    let node = SingleNode::start(&["--answer-timeout", "1s", "--workers", "0"]).await;
    node.publish(ID, line("a")).await;
    let path = format!("workflow-definitions/{ID}/execute");
    let answer = node
        .http
        .send(Method::POST, &path, &[], Some(&json!({})))
        .await
        .unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.header("x-elsa-workflow-instance-id");
    assert!(!id.is_empty(), "{answer:?}");
}

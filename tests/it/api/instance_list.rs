//! The list of instances: every filter, order and page against a model of the same rows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Connection, Http, TestDatabase};

const ROWS: i64 = 240;

/// Rows of all kinds, over three versions of two definitions, a second apart, with equal times among them.
const FILL: &str = "
    INSERT INTO mainspring.instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                     version, correlation_id, name, incident_count, created_at, updated_at, finished_at, state)
    SELECT '', md5(n::text), v.definition_id, v.version_id, v.version, 1, 3 + n % 3, 1,
           CASE WHEN n % 3 = 0 THEN 'Order-' || n % 40 END, CASE WHEN n % 4 = 0 THEN 'Customer_' || n % 30 || '%' END,
           CASE WHEN n % 3 = 2 THEN 1 ELSE 0 END, t.at, t.at + (n % 7) * interval '1 second',
           t.at + (n % 7) * interval '1 second', '{}'
    FROM generate_series(1, 240) n
    JOIN (SELECT row_number() OVER (ORDER BY definition_id, version) - 1 AS number, *
          FROM mainspring.definition WHERE definition_id IN ('alpha', 'beta')) v ON v.number = n % 3
    CROSS JOIN LATERAL (SELECT '2026-01-01T00:00:00Z'::timestamptz + (n / 2) * interval '1 second') t(at)";

async fn publish(http: &Http, id: &str, name: &str) {
    let root = json!({"type": "Elsa.Event", "id": "e", "eventName": name});
    http.publish(&json!({"definitionId": id, "root": root})).await;
}

/// The instances as the database has them, as JSON in the form of the API.
async fn model(client: &Connection) -> Vec<Value> {
    let text = "SELECT id, definition_id, version_id, definition_version, status, sub_status, correlation_id, name,
                       incident_count, created_at, updated_at, finished_at
                FROM mainspring.instance ORDER BY id";
    let time = |at: chrono::DateTime<chrono::Utc>| at.timestamp_micros();
    let words = ["Pending", "Executing", "Suspended", "Finished", "Cancelled", "Faulted"];
    let rows = client.query(text, &[]).await.unwrap();
    let rows = rows.iter().map(|row| {
        json!({
            "id": row.get::<_, String>(0), "definitionId": row.get::<_, String>(1), "versionId": row.get::<_, String>(2),
            "version": row.get::<_, i32>(3), "status": if row.get::<_, i16>(4) == 0 { "Running" } else { "Finished" },
            "subStatus": words[row.get::<_, i16>(5) as usize], "correlationId": row.get::<_, Option<String>>(6),
            "name": row.get::<_, Option<String>>(7), "incidents": row.get::<_, i32>(8),
            "created": time(row.get(9)), "updated": time(row.get(10)),
            "finished": row.get::<_, Option<chrono::DateTime<chrono::Utc>>>(11).map(time),
        })
    });
    rows.collect()
}

fn ids(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn list(http: &Http, body: &Value) -> Value {
    http.post("workflow-instances", body).await.expect(200)
}

type Test = Box<dyn Fn(&Value) -> bool>;

/// Filters with what the model says of a row.
fn filters(rows: &[Value]) -> Vec<(Value, Test)> {
    let contains = |row: &Value, field: &str, part: &str| {
        row[field]
            .as_str()
            .is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
    };
    let (one, version) = (
        rows[17]["id"].as_str().unwrap().to_owned(),
        rows[3]["versionId"].as_str().unwrap().to_owned(),
    );
    let at = rows[100]["created"].as_i64().unwrap();
    let text = chrono::DateTime::from_timestamp_micros(at).unwrap().to_rfc3339();
    let times = move |column: &str, operator: &str| json!({"timestampFilters": [{"column": column, "operator": operator, "timestamp": text}]});
    let mut all: Vec<(Value, Test)> = vec![
        (json!({}), Box::new(|_| true)),
        (
            json!({"definitionId": "alpha"}),
            Box::new(|row| row["definitionId"] == "alpha"),
        ),
        (json!({"definitionIds": ["alpha", "beta"]}), Box::new(|_| true)),
        (json!({"definitionId": "gamma"}), Box::new(|_| false)),
        (json!({"definitionVersionIds": [version]}), {
            let version = version.clone();
            Box::new(move |row| row["versionId"] == *version)
        }),
        (
            json!({"definitionId": "alpha", "version": 2}),
            Box::new(|row| row["definitionId"] == "alpha" && row["version"] == 2),
        ),
        (json!({"version": 1}), Box::new(|row| row["version"] == 1)),
        (
            json!({"correlationId": "Order-9"}),
            Box::new(|row| row["correlationId"] == "Order-9"),
        ),
        (
            json!({"correlationIds": ["Order-9", "Order-12"]}),
            Box::new(|row| row["correlationId"] == "Order-9" || row["correlationId"] == "Order-12"),
        ),
        (
            json!({"name": "Customer_8%"}),
            Box::new(|row| row["name"] == "Customer_8%"),
        ),
        (json!({"hasIncidents": true}), Box::new(|row| row["incidents"] != 0)),
        (
            json!({"hasIncidents": false, "subStatus": "Cancelled"}),
            Box::new(|row| row["incidents"] == 0 && row["subStatus"] == "Cancelled"),
        ),
        (json!({"status": "Running"}), Box::new(|row| row["status"] == "Running")),
        (
            json!({"subStatuses": ["Suspended"], "definitionId": "beta"}),
            Box::new(|row| row["subStatus"] == "Suspended" && row["definitionId"] == "beta"),
        ),
        (
            json!({"statuses": ["Finished"], "subStatuses": ["Faulted", "Finished"]}),
            Box::new(|row| row["subStatus"] == "Faulted" || row["subStatus"] == "Finished"),
        ),
        (json!({"isSystem": true}), Box::new(|_| false)),
        (json!({"parentWorkflowInstanceIds": ["x"]}), Box::new(|_| false)),
        (json!({"searchTerm": one}), {
            let one = one.clone();
            Box::new(move |row| row["id"] == *one)
        }),
        (json!({"searchTerm": one[..6]}), {
            let one = one.clone();
            Box::new(move |row| row["id"].as_str().unwrap().starts_with(&one[..6]))
        }),
        (json!({"searchTerm": version}), {
            let version = version.clone();
            Box::new(move |row| row["versionId"] == *version)
        }),
        (
            json!({"searchTerm": "ALPH"}),
            Box::new(|row| row["definitionId"] == "alpha"),
        ),
        (
            json!({"searchTerm": "order-1"}),
            Box::new(move |row| contains(row, "correlationId", "order-1")),
        ),
        (
            json!({"searchTerm": "_8%"}),
            Box::new(move |row| contains(row, "name", "_8%")),
        ),
        (
            json!({"searchTerm": "customer_", "definitionId": "alpha"}),
            Box::new(move |row| contains(row, "name", "customer_") && row["definitionId"] == "alpha"),
        ),
    ];
    type Compare = fn(i64, i64) -> bool;
    let operators: [(&str, Compare); 6] = [
        ("Is", |x, at| x == at),
        ("IsNot", |x, at| x != at),
        ("GreaterThan", |x, at| x > at),
        ("GreaterThanOrEqual", |x, at| x >= at),
        ("LessThan", |x, at| x < at),
        ("LessThanOrEqual", |x, at| x <= at),
    ];
    for (column, field) in [
        ("CreatedAt", "created"),
        ("UpdatedAt", "updated"),
        ("FinishedAt", "finished"),
    ] {
        for (operator, compare) in operators {
            let test: Test = Box::new(move |row| match row[field].as_i64() {
                Some(time) => compare(time, at),
                None => operator == "IsNot",
            });
            all.push((times(column, operator), test));
        }
    }
    all
}

async fn every_filter_finds_what_the_model_finds(http: &Http, rows: &[Value]) {
    for (filter, test) in filters(rows) {
        let expected: BTreeSet<String> = rows
            .iter()
            .filter(|row| test(row))
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        let mut body = filter.clone();
        body["pageSize"] = 1000.into();
        let listed = list(http, &body).await;
        let found: BTreeSet<String> = ids(&listed).into_iter().collect();
        assert_eq!(found, expected, "{filter}");
        assert_eq!(listed["totalCount"], expected.len(), "{filter}");
        // A page of few rows counts by a statement of its own.
        body["pageSize"] = 1.into();
        assert_eq!(list(http, &body).await["totalCount"], expected.len(), "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_orders_and_pages_agree_with_a_model() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &[], "");
    let http = node.http.clone().unwrap();
    for (id, name) in [("alpha", "go"), ("alpha", "gone"), ("beta", "go")] {
        publish(&http, id, name).await;
    }
    let client = database.connect().await;
    client.batch_execute(FILL).await.unwrap();
    for statement in [
        "SET search_path = mainspring",
        "CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public",
        "CREATE INDEX CONCURRENTLY instance_name_trigrams ON instance
             USING gin (left(name, 256) public.gin_trgm_ops) WHERE name IS NOT NULL",
        "CREATE INDEX CONCURRENTLY instance_correlation_trigrams ON instance
             USING gin (left(correlation_id, 256) public.gin_trgm_ops) WHERE correlation_id IS NOT NULL",
    ] {
        client.execute(statement, &[]).await.unwrap();
    }
    for number in 0..3 {
        http.execute(
            "beta",
            &json!({"correlationId": format!("waits-{number}"), "name": "waits"}),
        )
        .await;
    }
    let rows = model(&client).await;
    assert_eq!(rows.len() as i64, ROWS + 3);
    every_filter_finds_what_the_model_finds(&http, &rows).await;

    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, field: &str| row[field].as_i64().unwrap_or(i64::MAX);
    for (order, field) in [
        ("Created", "created"),
        ("UpdatedAt", "updated"),
        ("Finished", "finished"),
        ("Name", "name"),
    ] {
        for direction in ["Ascending", "Descending"] {
            let mut sorted: Vec<&Value> = rows.iter().collect();
            sorted.sort_by_key(|row| {
                (
                    if field == "name" { 0 } else { number(row, field) },
                    if field == "name" {
                        text(row, field)
                    } else {
                        String::new()
                    },
                    text(row, "id"),
                )
            });
            if direction == "Descending" {
                sorted.reverse();
            }
            let expected: Vec<String> = sorted.iter().map(|row| text(row, "id")).collect();
            let body = |more: Value| {
                let mut body = json!({"orderBy": order, "orderDirection": direction, "pageSize": 50});
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                body
            };
            let (mut by_page, mut by_cursor) = (Vec::new(), Vec::new());
            for page in 0..6 {
                by_page.extend(ids(&list(&http, &body(json!({"page": page}))).await));
            }
            let mut cursor = json!(null);
            loop {
                let listed = list(&http, &body(json!({"cursor": cursor}))).await;
                by_cursor.extend(ids(&listed));
                assert_eq!(listed["totalCount"], rows.len());
                assert_eq!(listed["totalCountIsEstimate"], false);
                cursor = listed["nextCursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            assert_eq!(by_page, expected, "{order} {direction}");
            assert_eq!(by_cursor, expected, "{order} {direction}");
        }
    }
    let wrong = http
        .post("workflow-instances", &json!({"cursor": "x", "page": 0}))
        .await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("invalid-field")));

    // A long value is searched in its beginning, and filtered by the whole of it.
    let long: String = (0..10_000)
        .map(|_| char::from(rand::random_range(b'a'..=b'z')))
        .collect();
    let other = format!("{long}?");
    let rows = client
        .execute(
            "UPDATE mainspring.instance SET correlation_id = $1 || CASE WHEN id = md5('9') THEN '' ELSE '?' END
             WHERE correlation_id = 'Order-9'",
            &[&long],
        )
        .await
        .unwrap();
    assert_eq!(rows, 2);
    for (name, body, count) in [
        ("part of the beginning", json!({"searchTerm": long[100..140]}), 2),
        ("part of the end", json!({"searchTerm": long[5_000..5_040]}), 0),
        ("the one", json!({"correlationId": long}), 1),
        ("the other", json!({"correlationId": other}), 1),
        ("the beginning", json!({"correlationId": long[..256]}), 0),
    ] {
        assert_eq!(list(&http, &body).await["totalCount"], count, "{name}");
    }

    // Without trigrams the beginning of a text is found, in its case.
    client
        .batch_execute("DROP INDEX instance_name_trigrams, instance_correlation_trigrams")
        .await
        .unwrap();
    for (body, count) in [
        (json!({"searchTerm": "waits"}), 3),
        (json!({"searchTerm": "aits-1"}), 0),
        (json!({"correlationId": "waits-1"}), 1),
        (json!({"name": "waits"}), 3),
        (json!({"searchTerm": "Customer_8%"}), 4),
    ] {
        assert_eq!(list(&http, &body).await["totalCount"], count, "{body}");
    }
    // Rows that statements wrote have no records.
    client
        .batch_execute("DELETE FROM instance WHERE created_at < '2026-02-01'")
        .await
        .unwrap();
    assert_invariants(&database).await;
}

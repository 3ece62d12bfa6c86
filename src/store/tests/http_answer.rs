//! The ends of requests that are kept: rows of the commit that ends them, and of no other.

use std::time::Duration;

use uuid::Uuid;

use crate::assert_outcome;
use crate::id::RequestId;
use crate::store::code::AnswerOutcome;
use crate::store::commit::{AnswerRow, CommitOutcome, CommitRequest};
use crate::store::{http_answer, maintenance};
use crate::testing::store::{Fixture, Writer, burst};

fn answers(mut request: CommitRequest, id: u128, body: Option<&str>) -> CommitRequest {
    let outcome = match body {
        Some(_) => AnswerOutcome::Answered,
        None => AnswerOutcome::Waiting,
    };
    request.effects.answers.push(AnswerRow {
        no: 0,
        request_id: Uuid::from_u128(id),
        outcome: outcome.number(),
        status: body.map(|_| 200),
        headers: body.map(|_| vec!["a".to_owned(), "1".to_owned(), "b".to_owned(), String::new()]),
        body: body.map(|body| body.as_bytes().to_vec()),
    });
    request
}

/// The bodies of these requests that are kept, in the order of their ids.
async fn kept(writer: &Writer, ids: &[u128]) -> Vec<(u128, String, String)> {
    let ids: Vec<RequestId> = ids.iter().map(|id| RequestId(Uuid::from_u128(*id))).collect();
    let mut kept = http_answer::read(&writer.pool, &ids).await.unwrap();
    kept.sort_by_key(|answer| answer.request);
    let kept = kept.into_iter().map(|answer| {
        let is_answered = answer.outcome == AnswerOutcome::Answered;
        assert_eq!(answer.status, if is_answered { 200 } else { 0 });
        assert_eq!(answer.headers.len(), if is_answered { 2 } else { 0 });
        let body = String::from_utf8(answer.body).unwrap();
        (answer.request.0.as_u128(), answer.instance.as_str().to_owned(), body)
    });
    kept.collect()
}

#[tokio::test]
async fn a_commit_keeps_the_ends_of_its_requests_and_a_lost_one_none() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let first = answers(answers(burst("i", None), 1, Some("one")), 2, None);
    assert_outcome!(writer.write(first).await, CommitOutcome::Committed(_));
    let lost = answers(burst("i", Some(7)), 3, Some("lost"));
    assert_outcome!(writer.write(lost).await, CommitOutcome::VersionConflict);
    let both = vec![
        (1, "i".to_owned(), "one".to_owned()),
        (2, "i".to_owned(), String::new()),
    ];
    assert_eq!(kept(&writer, &[3, 2, 1, 9]).await, both);

    // A request under a key that had expired, and is used again.
    let again = answers(burst("j", None), 1, Some("again"));
    assert_outcome!(writer.write(again).await, CommitOutcome::Committed(_));
    assert_eq!(kept(&writer, &[1]).await, [(1, "j".to_owned(), "again".to_owned())]);
}

#[tokio::test]
async fn an_expired_end_is_not_read_and_is_purged() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for (id, instance) in [(1, "i"), (2, "j")] {
        let request = answers(burst(instance, None), id, Some("text"));
        assert_outcome!(writer.write(request).await, CommitOutcome::Committed(_));
    }
    fixture
        .execute("UPDATE http_answer SET expires_at = now() WHERE instance_id = 'i'")
        .await;
    assert_eq!(kept(&writer, &[1, 2]).await.len(), 1);
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(Duration::from_secs(60)))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM http_answer").await, 1);
}

#[tokio::test]
async fn the_check_finds_an_open_request_that_has_an_end() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    assert_outcome!(
        writer.write(answers(burst("i", None), 1, None)).await,
        CommitOutcome::Committed(_)
    );
    let state = |status: i16, answered: &str| {
        format!(
            r#"UPDATE instance SET status = {status}, finished_at = CASE WHEN {status} = 1 THEN now() END,
               state = '{{"requests":[{{"id":"{}{answered}}}]}}'"#,
            Uuid::from_u128(1)
        )
    };
    for (status, answered, wanted) in [
        (0, "\"", Some("open-request-with-answer")),
        (0, r#"","isAnswered":true"#, None),
        (1, r#"","isAnswered":true"#, Some("open-request-of-ended-instance")),
    ] {
        fixture.execute(&state(status, answered)).await;
        let broken = crate::store::check::check(&fixture.admin.client).await.unwrap();
        let mut broken = broken
            .iter()
            .filter(|broken| broken.invariant.starts_with("open-request"));
        assert_eq!(broken.next().map(|broken| &*broken.invariant), wanted);
    }
}

//! A claim takes bodies and states within its bounds and in order, and small work uses no room.

use std::collections::HashMap;

use crate::id::{InstanceId, TenantId};
use crate::store::claim::{self, Bytes, ClaimBounds, ClaimedInstance, InstanceKey};
use crate::store::commit::Claim;
use crate::store::dead_letter::{self, DeadLetterFilter};
use crate::testing::store::{Fixture, Writer};

/// Of each body here.
const BODY: usize = 10_000;

fn key(no: u32) -> InstanceKey {
    (TenantId::default(), InstanceId::new(format!("i{no}")))
}

fn bounds(share: usize, room: usize, is_idle: bool) -> ClaimBounds {
    ClaimBounds { share, room, is_idle }
}

/// Resumes of instances, `rows` each, in the order of the rows; the bodies compress well.
async fn resumes(fixture: &Fixture, instances: u32, rows: u32) {
    let insert = format!(
        "INSERT INTO work (tenant_id, instance_id, kind, body)
         SELECT '', 'i' || (n - 1) % {instances}, 1, ('\"' || repeat('x', {BODY} - 2) || '\"')::json
         FROM generate_series(1, {}) n",
        instances * rows
    );
    fixture.admin.client.batch_execute(&insert).await.unwrap();
}

async fn claimed(
    writer: &Writer,
    instances: u32,
    isolated: bool,
    bounds: ClaimBounds,
) -> HashMap<InstanceKey, ClaimedInstance> {
    let keys: Vec<InstanceKey> = (0..instances).map(key).collect();
    claim::claim(&writer.pool, writer.incarnation, &keys, isolated, bounds)
        .await
        .unwrap()
}

/// Of each instance how many rows were claimed, and whether something was left out.
fn counts(found: &HashMap<InstanceKey, ClaimedInstance>, instances: u32) -> Vec<(usize, bool)> {
    let of = |no| {
        found
            .get(&key(no))
            .map_or((0, false), |one| (one.rows.len(), one.is_left_out))
    };
    (0..instances).map(of).collect()
}

#[tokio::test]
async fn each_instance_gets_its_share_and_the_first_ones_the_room() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 3, 4).await;
    // The first row is within the share; the second exceeds it by 5,000, and the third by 10,000 more.
    let found = claimed(&writer, 3, false, bounds(15_000, 20_000, true)).await;
    assert_eq!(counts(&found, 3), [(3, true), (1, true), (1, true)]);
    let bytes = |no| found[&key(no)].bytes;
    let expected = Bytes {
        all: 3 * BODY,
        excess: 15_000,
    };
    assert_eq!((bytes(0), bytes(1)), (expected, Bytes { all: BODY, excess: 0 }));
    // In the order of their ids.
    let taken: Vec<Claim> = found[&key(0)].rows.iter().map(|row| row.claim.clone()).collect();
    let ids: Vec<i64> = taken
        .iter()
        .map(|claim| if let Claim::Work(id, _) = claim { id.0 } else { 0 })
        .collect();
    assert!(ids.is_sorted() && ids[0] == 1, "{ids:?}");
    let consume = "DELETE FROM work WHERE claimed_by IS NOT NULL";
    fixture.execute(consume).await;
    let found = claimed(&writer, 3, false, bounds(15_000, 20_000, true)).await;
    fixture.execute(consume).await;
    assert_eq!(
        counts(&found, 3),
        [(1, false), (3, false), (2, true)],
        "the rest follows"
    );
    let found = claimed(&writer, 3, false, bounds(15_000, 0, false)).await;
    assert_eq!(counts(&found, 3), [(0, false), (0, false), (1, false)]);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE claim_no <> 1").await, 0);
}

#[tokio::test]
async fn a_row_that_exceeds_everything_is_claimed_once_nothing_else_is_in_flight() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 2, 2).await;
    let found = claimed(&writer, 2, false, bounds(100, 1000, false)).await;
    assert_eq!(counts(&found, 2), [(0, true), (0, true)]);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE claim_no > 0").await, 0);
    let found = claimed(&writer, 2, false, bounds(100, 1000, true)).await;
    assert_eq!(counts(&found, 2), [(1, true), (0, true)]);
}

#[tokio::test]
async fn timers_and_a_cancel_are_claimed_though_there_is_no_room() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 1, 2).await;
    let more = "INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE VALUES ('', -9, 'i0', 3, '{}');
        INSERT INTO timer (tenant_id, instance_id, id, due, available_at) VALUES ('', 'i1', 'b', now(), now())";
    fixture.admin.client.batch_execute(more).await.unwrap();
    let found = claimed(&writer, 2, false, bounds(100, 0, false)).await;
    assert_eq!(counts(&found, 2), [(1, false), (1, false)]);
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM work WHERE claim_no = 1 AND id = -9")
            .await,
        1
    );
}

#[tokio::test]
async fn a_row_of_a_fan_out_has_the_bytes_of_its_payload() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let rows = format!(
        "WITH f AS (
             INSERT INTO fan_out (tenant_id, hash, name, payload, expires_at)
             SELECT '', 'h', 'n', ('\"' || repeat('x', {BODY} - 2) || '\"')::json, now() RETURNING id)
         INSERT INTO work (tenant_id, instance_id, kind, fan_out, body)
         SELECT '', 'i' || n, 2, f.id, '{{}}' FROM f, generate_series(0, 2) n"
    );
    fixture.admin.client.batch_execute(&rows).await.unwrap();
    let found = claimed(&writer, 3, false, bounds(100, 25_000, true)).await;
    assert_eq!(counts(&found, 3), [(1, false), (1, false), (0, true)]);
    let bytes = found[&key(0)].bytes;
    // The header of a stored value has four bytes.
    assert!((BODY + 2..=BODY + 6).contains(&bytes.all), "{bytes:?}");
}

#[tokio::test]
async fn an_isolated_row_needs_room_as_well() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 2, 1).await;
    let crash = "UPDATE work SET crashes = 2, has_begun = true WHERE instance_id = 'i1'";
    fixture.admin.client.batch_execute(crash).await.unwrap();
    let found = claimed(&writer, 2, true, bounds(100, 1000, false)).await;
    assert_eq!(counts(&found, 2), [(0, true), (0, true)]);
    let found = claimed(&writer, 2, true, bounds(100, 11_000, false)).await;
    assert_eq!(counts(&found, 2), [(1, false), (0, true)], "what the others leave");
}

#[tokio::test]
async fn a_large_state_is_read_only_if_it_fits() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let fill = format!(
        "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
         SELECT '', 'i' || n, 'd', 'd1', 1, 0, 2, 1, convert_to(repeat('y', CASE n WHEN 2 THEN 10 ELSE {BODY} END), 'UTF8')
         FROM generate_series(0, 2) n;
         INSERT INTO work (tenant_id, instance_id, kind, body) SELECT '', 'i' || n, 1, '{{}}' FROM generate_series(0, 2) n"
    );
    fixture.admin.client.batch_execute(&fill).await.unwrap();
    let found = claimed(&writer, 3, false, bounds(200, 15_000, true)).await;
    assert_eq!(counts(&found, 3), [(1, false), (1, true), (1, false)]);
    let unloaded = |no| found[&key(no)].is_unloaded;
    assert_eq!([unloaded(0), unloaded(1), unloaded(2)], [false, true, false]);
    let expected = Bytes {
        all: BODY + 2,
        excess: BODY - 200,
    };
    assert_eq!((found[&key(0)].bytes, found[&key(2)].bytes.excess), (expected, 0));
    // With the fields that stand in columns.
    assert!(found[&key(0)].loaded.as_ref().unwrap().state.len() > BODY);
    assert!(found[&key(1)].loaded.is_none() && found[&key(2)].loaded.is_some());
}

#[tokio::test]
async fn dead_letters_are_selected_in_pages_of_bytes() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let fill = format!(
        "INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, body, failures, crashes)
         SELECT '', 'i' || n, 1, 'failed', n, ('\"' || repeat('x', {BODY} - 2) || '\"')::json, 20, 0 FROM generate_series(1, 5) n"
    );
    fixture.admin.client.batch_execute(&fill).await.unwrap();
    let tenant = TenantId::default();
    let select = async |behind, bytes| {
        let selected = dead_letter::select(&writer.pool, &tenant, DeadLetterFilter::default(), behind, 100, bytes);
        selected.await.unwrap()
    };
    let (mut behind, mut pages) = (0, Vec::new());
    loop {
        let (dead_letters, is_cut) = select(behind, 25_000).await;
        pages.push((dead_letters.len(), is_cut));
        behind = dead_letters.last().unwrap().id;
        if !is_cut {
            break;
        }
    }
    assert_eq!(pages, [(2, true), (2, true), (1, false)]);
    let (dead_letters, is_cut) = select(0, 10).await;
    assert_eq!((dead_letters.len(), is_cut), (1, true), "one that exceeds the page");
}

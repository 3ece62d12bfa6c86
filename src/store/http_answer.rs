//! How requests of HTTP clients have ended: written by the commits that end them, read by the nodes at which the clients wait,
//! and for clients that repeat a request.

use uuid::Uuid;

use super::code::AnswerOutcome;
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, RequestId};

const READ: &str = include_str!("../../sql/queries/http_answer/read.sql");

/// The end of a request that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptAnswer {
    pub(crate) request: RequestId,
    /// The instance that it started or resumed.
    pub(crate) instance: InstanceId,
    pub(crate) outcome: AnswerOutcome,
    /// Zero unless answered, as the rest is empty.
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Reads how these requests have ended; those that have not, or were not kept, are left out.
pub(crate) async fn read(pool: &Pool, requests: &[RequestId]) -> Result<Vec<KeptAnswer>> {
    let ids: Vec<Uuid> = requests.iter().map(|request| request.0).collect();
    let rows = pool.query(READ, &[&ids]).await?;
    let at = columns!(rows; request_id, instance_id, outcome, status, headers, body)?;
    let kept = rows.iter().filter_map(|row| {
        let mut texts = row
            .get::<_, Option<Vec<String>>>(at.headers)
            .unwrap_or_default()
            .into_iter();
        let headers = std::iter::from_fn(|| Some((texts.next()?, texts.next()?))).collect();
        let status: Option<i16> = row.get(at.status);
        Some(KeptAnswer {
            request: RequestId(row.get(at.request_id)),
            instance: InstanceId::new(row.get::<_, String>(at.instance_id)),
            // A newer program wrote another one: the client waits on, until its time has passed.
            outcome: AnswerOutcome::from_number(row.get(at.outcome))?,
            status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or_default(),
            headers,
            body: row.get::<_, Option<Vec<u8>>>(at.body).unwrap_or_default(),
        })
    });
    Ok(kept.collect())
}

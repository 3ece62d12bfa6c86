//! Starts instances for what the inbox keeps when a trigger is published, page by page.
//!
//! The publishing transaction holds the stimulus keys: an event before it is in the inbox, and an event after it sees the
//! trigger. So it only notes the newest kept stimulus of each hash. The pages follow, on any node, each in its own
//! transaction that locks the note; a page starts what it takes from the inbox, and the note ends with the last page.

use deadpool_postgres::Object;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Pool, within};
use crate::failpoint;
use crate::id::StimulusHash;

const BEGIN: &str = include_str!("../../sql/queries/inbox_match/begin.sql");
const CLAIM: &str = include_str!("../../sql/queries/inbox_match/claim.sql");
const PAGE: &str = include_str!("../../sql/queries/inbox_match/page.sql");

/// The most starts of one page.
const PAGE_STARTS: i64 = 500;

/// The most bytes of payload that one page copies, unless a single stimulus has more.
const PAGE_BYTES: i64 = 4 << 20;

/// What one page did.
#[derive(Clone, Debug)]
pub(crate) struct MatchPage {
    pub(crate) definition: String,
    pub(crate) started: usize,
    /// Starts that the activation strategy refused.
    pub(crate) refused: i64,
}

/// Notes what the inbox keeps for the triggers of a definition, and forgets the notes of triggers that it no longer has.
/// Part of the publishing transaction, after the statement that locks the keys.
pub(super) async fn begin(client: &Object, tenant: &str, definition: &str, hashes: &[StimulusHash]) -> Result<()> {
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
    client.execute(BEGIN, &[&tenant, &definition, &hashes]).await?;
    Ok(())
}

/// Writes one page; `None` if nothing is left to match that another node is not busy with. If the future is dropped, the
/// page is written or not.
pub(crate) async fn page(pool: &Pool) -> Result<Option<MatchPage>> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let page = within(ANSWER_TIMEOUT, async {
        client.batch_execute("BEGIN").await?;
        let claim = client.prepare_cached(CLAIM).await?;
        let Some(claimed) = client.query_opt(&claim, &[]).await? else {
            client.batch_execute("ROLLBACK").await?;
            return Ok(None);
        };
        let page = client.prepare_cached(PAGE).await?;
        let (tenant, definition): (&str, &str) = (claimed.get("tenant_id"), claimed.get("definition_id"));
        let hash: &[u8] = claimed.get("hash");
        let (cursor, cut): (i64, i64) = (claimed.get("cursor"), claimed.get("cut"));
        let row = client
            .query_one(
                &page,
                &[&tenant, &definition, &hash, &cursor, &cut, &PAGE_STARTS, &PAGE_BYTES],
            )
            .await?;
        failpoint::hit("inbox_match.written").await?;
        client.batch_execute("COMMIT").await?;
        failpoint::hit("inbox_match.committed").await?;
        Ok::<_, crate::Error>(Some(MatchPage {
            definition: definition.to_owned(),
            started: usize::try_from(row.get::<_, i64>("started")).unwrap_or(0),
            refused: row.get("refused"),
        }))
    })
    .await?;
    connection.give_back();
    Ok(page)
}

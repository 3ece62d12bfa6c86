//! The definitions of a running Elsa server: of each the newest version, and the published one.

use std::collections::HashSet;

use serde_json::Value;

use super::elsa_server::ElsaServer;
use super::progress::ProgressLine;
use super::read_definition::{ReadDefinition, ReportBudget};
use crate::api::MAX_BODY;
use crate::harness::client::text_field;
use crate::harness::failure::Failure;

/// The versions of one page, and its most bytes.
const PAGE_SIZE: usize = 50;
const MOST_PAGE: usize = 32 << 20;

/// The most versions that are read.
const MOST_VERSIONS: usize = 100_000;

/// The most bytes of an id.
const MOST_ID: usize = 255;

/// After so many requests without an answer, in a row or in all, the server is not asked for the rest.
const SILENT_IN_A_ROW: usize = 3;
const SILENT_IN_ALL: usize = 20;

/// Reads all definitions. Errors: the list cannot be read; a definition that cannot be read is one of the result.
pub(super) async fn read(
    server: &ElsaServer,
    budget: &mut ReportBudget,
    progress: &mut ProgressLine,
) -> Result<Vec<ReadDefinition>, Failure> {
    let ids = listed(server, progress).await?;
    let mut all = Vec::with_capacity(ids.len());
    let (mut silent, mut silent_in_all) = (0, 0);
    for (at, id) in ids.iter().enumerate() {
        progress.show("read", at, ids.len());
        let path = format!("workflow-definitions/by-id/{}", encoded(id));
        let source = server.url(&path);
        if silent >= SILENT_IN_A_ROW || silent_in_all >= SILENT_IN_ALL {
            all.push(ReadDefinition::unreadable(
                source,
                "not read, as the server does not answer any more",
            ));
            continue;
        }
        let answer = server.get(&path, MAX_BODY).await;
        silent = match &answer {
            Err(error) if error.is_silent => silent + 1,
            _ => 0,
        };
        silent_in_all += usize::from(silent > 0);
        all.push(match answer {
            Ok(bytes) => ReadDefinition::within(budget, source, &bytes),
            Err(error) => ReadDefinition::unreadable(source, error.message),
        });
    }
    Ok(all)
}

/// The ids of the versions, page by page.
async fn listed(server: &ElsaServer, progress: &mut ProgressLine) -> Result<Vec<String>, Failure> {
    let mut ids = Vec::new();
    let (mut known, mut total) = (HashSet::new(), None);
    for page in 0..=MOST_VERSIONS / PAGE_SIZE {
        let path = format!("workflow-definitions?versionOptions=LatestOrPublished&page={page}&pageSize={PAGE_SIZE}");
        let bytes = server
            .get(&path, MOST_PAGE)
            .await
            .map_err(|error| error.into_failure())?;
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Some(items) = answer.get("items").and_then(Value::as_array) else {
            return Err(Failure::usage(format!(
                "{}: the answer is no list of Elsa's API; give its root, such as http://host:5001/elsa/api",
                server.url(&path)
            )));
        };
        let before = ids.len();
        for id in items
            .iter()
            .map(|item| text_field(item, "id"))
            .filter(|id| !id.is_empty() && id.len() <= MOST_ID)
        {
            if known.insert(id.to_owned()) {
                ids.push(id.to_owned());
            }
        }
        total = answer.get("totalCount").and_then(Value::as_u64).or(total);
        let all = total.unwrap_or(u64::MAX);
        progress.show("listed", ids.len(), usize::try_from(all).unwrap_or(usize::MAX));
        if ids.len() > MOST_VERSIONS {
            return Err(Failure::failed(format!(
                "the server lists more than {MOST_VERSIONS} versions"
            )));
        }
        // A server that ignores the page repeats the first one.
        if ids.len() == before || ids.len() as u64 >= all {
            break;
        }
    }
    // The report would seem complete otherwise.
    if let Some(total) = total.filter(|total| (ids.len() as u64) < *total) {
        let listed = ids.len();
        return Err(Failure::failed(format!(
            "the server has {total} versions and lists {listed} of them; export the definitions to a folder, and report on that"
        )));
    }
    Ok(ids)
}

/// An id as a segment of a path.
fn encoded(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && id.len() > 2) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment() {
        assert_eq!(encoded("a-1_b.c"), "a-1_b.c");
        assert_eq!(encoded("a/b ä?"), "a%2Fb%20%C3%A4%3F");
        assert_eq!(encoded(".."), "%2E%2E");
    }
}

//! The resume links that a burst makes. A link to a bookmark is bound when the call that it was made for has made its bookmarks.

use super::BurstRun;
use crate::activity::{ActivityCommands, Fault};
use crate::execution::burst_contract::MadeLink;
use crate::execution::cause::Cause;
use crate::expression::{CallLinks, LeadsTo, LinkRequest, LinkSource};
use crate::id::BookmarkId;

/// What a link weighs in the commit, in bytes.
const WEIGHT: usize = 200;

/// The links of a burst.
#[derive(Debug, Default)]
pub(in crate::execution) struct BurstLinks {
    made: Vec<MadeLink>,
    /// Those of an execution whose bookmarks are still to be made. What faults before leaves some behind.
    unbound: Vec<(u64, LinkRequest)>,
    /// How many the current work has made.
    number: u64,
}

impl BurstLinks {
    /// Those that the commit writes.
    pub(in crate::execution) fn into_made(self) -> Vec<MadeLink> {
        self.made
    }

    /// Other work begins, which has a key of its own.
    pub(super) fn begin(&mut self) {
        self.number = 0;
    }
}

impl BurstRun<'_> {
    /// From what the links of a call of this execution are derived.
    pub(super) fn call_links(&self, number: u64) -> CallLinks {
        let of_try = self.state.contexts.get(&number).and_then(|context| context.link_key);
        CallLinks::new(LinkSource {
            key: of_try.unwrap_or_else(|| self.link_key(number)),
            before: self.links.number,
        })
    }

    /// The key of the links that the current work makes. One idempotency key is that of all calls of its execution; each of them has
    /// links of its own.
    pub(super) fn link_key(&self, number: u64) -> u64 {
        let of_number = || Cause::key_of_number(number, self.child_seed);
        self.cause.map_or_else(of_number, Cause::key)
    }

    /// Takes over links of an execution.
    pub(super) fn add_links(&mut self, number: u64, links: Vec<LinkRequest>) {
        if links.is_empty() {
            return;
        }
        self.recorder.bytes += links.len() * WEIGHT;
        self.links.number += links.len() as u64;
        for link in links {
            match &link.leads_to {
                LeadsTo::Event(_) => self.links.made.push((link, None)),
                LeadsTo::Bookmark(_) => self.links.unbound.push((number, link)),
            }
        }
    }

    /// Refuses links to bookmarks that a call does not make.
    pub(super) fn check_links(&self, number: u64, commands: &ActivityCommands, bookmarks: usize) -> Result<(), Fault> {
        let before = self.links.unbound.iter().filter(|(execution, _)| *execution == number);
        let of_scripts = commands.script.iter().flat_map(|changes| &changes.links);
        let mut all = before.map(|(_, link)| link).chain(of_scripts).chain(&commands.links);
        let is_lost = |link: &LinkRequest| matches!(link.leads_to, LeadsTo::Bookmark(place) if place >= bookmarks);
        if all.any(is_lost) {
            let message = "A resume link was made for a bookmark of this activity, and the activity does not wait at that one: make \
                           the link in an activity that waits, or make one that triggers an event";
            return Err(Fault::new(message)
                .code("resume-link-without-bookmark")
                .quoting_nothing(true));
        }
        Ok(())
    }

    /// Binds the links of an execution to the bookmarks that its call has made.
    pub(super) fn bind_links(&mut self, number: u64, bookmarks: &[BookmarkId]) {
        let links = &mut self.links;
        for (_, link) in links.unbound.extract_if(.., |(execution, _)| *execution == number) {
            let place = match link.leads_to {
                LeadsTo::Bookmark(place) => place,
                LeadsTo::Event(_) => continue,
            };
            if let Some(bookmark) = bookmarks.get(place) {
                links.made.push((link, Some(bookmark.clone())));
            }
        }
    }
}

//! Resume links of an activity.

use std::time::Duration;

use super::context::ActivityContext;
use super::fault::Fault;
use crate::expression::{DEFAULT_LIFETIME, LeadsTo, LinkExpiry, LinkMaker, LinkOwner, MOST_LINKS, WantedLink};

/// A resume link to make.
#[derive(Clone, Debug)]
pub struct ResumeLinkOptions {
    /// Which of the bookmarks that this call creates it resumes, counted from 0. Default: the first one.
    pub bookmark: usize,
    /// How long it can be used, from the commit. Default: 7 days; at most ten years.
    pub lifetime: Duration,
    /// How often it can be used. Default: once.
    pub uses: u32,
}

impl Default for ResumeLinkOptions {
    fn default() -> Self {
        Self {
            bookmark: 0,
            lifetime: DEFAULT_LIFETIME,
            uses: 1,
        }
    }
}

impl ActivityContext<'_> {
    /// The URL of a link with which a person or a system resumes a bookmark that this call creates, without a key: a page asks
    /// before it does. It can be used from the commit of the burst on, is the same at each attempt, and begins with
    /// [`EngineBuilder::public_url`](crate::EngineBuilder::public_url).
    ///
    /// # Errors
    /// A lifetime or a number of uses beyond their bounds. If the call creates no such bookmark, the activity faults when it has
    /// returned.
    pub fn resume_url(&mut self, options: ResumeLinkOptions) -> Result<String, Fault> {
        let wanted = WantedLink {
            leads_to: LeadsTo::Bookmark(options.bookmark),
            expiry: LinkExpiry::After(options.lifetime),
            uses: options.uses,
        };
        self.link(wanted)
    }

    /// The URL of a link that triggers an event of this instance; see [`ActivityContext::resume_url`]. What waits for the event
    /// receives the input of the request.
    ///
    /// # Errors
    /// The same, and a name that no event has.
    pub fn event_url(&mut self, event: impl Into<String>, options: ResumeLinkOptions) -> Result<String, Fault> {
        let wanted = WantedLink {
            leads_to: LeadsTo::Event(event.into()),
            expiry: LinkExpiry::After(options.lifetime),
            uses: options.uses,
        };
        self.link(wanted)
    }

    fn link(&mut self, wanted: WantedLink) -> Result<String, Fault> {
        let refused = |reason: String| Fault::new(reason).code("invalid-resume-link");
        if self.commands.links.len() >= MOST_LINKS {
            return Err(refused(format!(
                "an activity makes at most {MOST_LINKS} resume links at once"
            )));
        }
        let maker = LinkMaker::new(self.resume_links);
        let owner = LinkOwner {
            instance: self.instance_id.as_str(),
            source: Some(self.call_links.source()),
        };
        let url = maker.create(owner, wanted).map_err(refused)?;
        let made = maker.take();
        self.call_links.add(made.len());
        self.commands.links.extend(made);
        Ok(url)
    }
}

//! The resume links that expressions and activities make: each lets its holder resume one bookmark, or trigger one event of one
//! instance, without a key.
//!
//! A link is a command: its URL is made at once, and its row is written by the commit of the burst. Its id is derived from what
//! sets the call off that makes it, its number there, and what it leads to. So a repeated burst and a retry of the activity make
//! the same link, and no link changes its meaning.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use mainspring_language::{TimeSpan, parse_date_text};

use crate::id::LinkId;

/// The longest name of an event in a link, in bytes.
const MAX_NAME: usize = 512;
/// How long a link can be used unless its maker says otherwise.
pub(crate) const DEFAULT_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// The longest lifetime of a link: ten years.
pub(crate) const LONGEST_LIFETIME: Duration = Duration::from_secs(3_653 * 24 * 3600);
/// How often a link can be used at most.
pub(crate) const MOST_USES: u32 = 1_000;
/// The most links that one script, or one call of an activity, makes: each of them is a row.
pub(crate) const MOST_LINKS: usize = 100;

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeadsTo {
    /// The bookmark with this number, from 0, of those that the call of the activity makes.
    Bookmark(usize),
    /// An event of the instance.
    Event(String),
}

impl LeadsTo {
    /// As a part of the id of a link.
    fn text(&self) -> String {
        match self {
            Self::Bookmark(place) => format!("b{place}"),
            Self::Event(name) => format!("e{name}"),
        }
    }
}

/// Until when a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkExpiry {
    /// So long from the commit.
    After(Duration),
    /// Until this time.
    At(DateTime<Utc>),
}

impl LinkExpiry {
    /// Reads a length of time or a date; without a text the default.
    pub(super) fn read(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return Ok(Self::After(DEFAULT_LIFETIME));
        };
        if let Some(span) = TimeSpan::parse(text) {
            let lifetime = span.to_duration().filter(|lifetime| !lifetime.is_zero());
            return lifetime.map(Self::After).ok_or_else(|| remedy(text));
        }
        let date = parse_date_text(text, Utc::now());
        date.map(|date| Self::At(date.or_utc().to_utc()))
            .ok_or_else(|| remedy(text))
    }

    /// Refuses what is too far away. Only the database decides what has expired; a bound of ten years needs no exact clock.
    pub(crate) fn check(self) -> Result<(), String> {
        let longest = TimeDelta::from_std(LONGEST_LIFETIME).unwrap_or_default();
        let is_near = match self {
            Self::After(lifetime) => !lifetime.is_zero() && lifetime <= LONGEST_LIFETIME,
            Self::At(time) => Utc::now().checked_add_signed(longest).is_some_and(|last| time <= last),
        };
        match is_near {
            true => Ok(()),
            false => Err("a resume link can be used for more than zero seconds and at most ten years".to_owned()),
        }
    }
}

fn remedy(text: &str) -> String {
    format!("{text:?} is not until when a link can be used: give a date, or a time span such as '1.00:00:00'")
}

/// A link that the commit of its burst writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkRequest {
    pub(crate) id: LinkId,
    pub(crate) leads_to: LeadsTo,
    pub(crate) expiry: LinkExpiry,
    pub(crate) uses: u32,
    /// The number of the key that has signed it.
    pub(crate) signed_by: i32,
}

/// From what the ids of links are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSource {
    /// The key, after the instance, of what has set the call off; at a retry that of the first try.
    pub(crate) key: u64,
    /// How many links were made under the key before.
    pub(crate) before: u64,
}

impl LinkSource {
    fn id(&self, instance: &str, number: u64, leads_to: &LeadsTo) -> LinkId {
        let maker = format!("{instance}/{:016x}", self.key);
        LinkId::of_execution(&maker, self.before.saturating_add(number), &leads_to.text())
    }
}

/// The links of one call of an activity: counted over its scripts.
#[derive(Debug)]
pub(crate) struct CallLinks {
    source: LinkSource,
    made: AtomicU64,
}

impl CallLinks {
    pub(crate) fn new(source: LinkSource) -> Self {
        Self {
            source,
            made: AtomicU64::new(0),
        }
    }

    /// For what makes links next.
    pub(crate) fn source(&self) -> LinkSource {
        let before = self.source.before.saturating_add(self.made.load(Ordering::Relaxed));
        LinkSource { before, ..self.source }
    }

    /// So many were made.
    pub(crate) fn add(&self, links: usize) {
        self.made.fetch_add(links as u64, Ordering::Relaxed);
    }
}

/// The URL of a link, with the number of the key that signs it.
type Signer = dyn Fn(LinkId, &LeadsTo) -> Option<(String, i32)> + Send + Sync;

/// Makes the URLs of links, once the engine has the key that signs them. Clones share it.
#[derive(Clone, Default)]
pub struct ResumeLinks(Arc<OnceLock<Box<Signer>>>);

impl ResumeLinks {
    /// Sets the function that makes the URLs; only the first call has an effect.
    pub(crate) fn sign_with(&self, signer: impl Fn(LinkId, &LeadsTo) -> Option<(String, i32)> + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(signer));
    }
}

impl fmt::Debug for ResumeLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResumeLinks").field(&self.0.get().is_some()).finish()
    }
}

/// Makes the links of one script, or of one call of an activity.
#[derive(Debug)]
pub(crate) struct LinkMaker {
    links: ResumeLinks,
    made: Mutex<Vec<LinkRequest>>,
}

/// A link that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct WantedLink {
    pub(crate) leads_to: LeadsTo,
    pub(crate) expiry: LinkExpiry,
    pub(crate) uses: u32,
}

/// What makes links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkOwner<'a> {
    pub(crate) instance: &'a str,
    /// Without it there are no links.
    pub(crate) source: Option<LinkSource>,
}

impl LinkMaker {
    pub(crate) fn new(links: &ResumeLinks) -> Self {
        Self {
            links: links.clone(),
            made: Mutex::default(),
        }
    }

    /// Makes the URL of a link of an instance. The error states why there is none.
    pub(crate) fn create(&self, owner: LinkOwner<'_>, link: WantedLink) -> Result<String, String> {
        let WantedLink { leads_to, expiry, uses } = link;
        let (Some(signer), Some(source)) = (self.links.0.get(), owner.source) else {
            return Err("a resume link needs an instance of a running engine".to_owned());
        };
        if let LeadsTo::Event(name) = &leads_to
            && (name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control))
        {
            return Err(format!(
                "the name of an event in a link has 1 to {MAX_NAME} bytes and no control characters"
            ));
        }
        expiry.check()?;
        if !(1..=MOST_USES).contains(&uses) {
            return Err(format!("a resume link can be used 1 to {MOST_USES} times"));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MOST_LINKS {
            return Err(format!("an activity makes at most {MOST_LINKS} resume links at once"));
        }
        let id = source.id(owner.instance, made.len() as u64, &leads_to);
        let (url, signed_by) = signer(id, &leads_to).ok_or_else(|| "this link cannot be signed".to_owned())?;
        made.push(LinkRequest {
            id,
            leads_to,
            expiry,
            uses,
            signed_by,
        });
        Ok(url)
    }

    /// The same for a script, which gives texts and numbers; without a name of an event a link to the bookmark of its activity.
    pub(super) fn of_texts(
        &self,
        owner: LinkOwner<'_>,
        event: Option<&str>,
        until: Option<&str>,
        uses: Option<f64>,
    ) -> Result<String, String> {
        self.until(owner, event, LinkExpiry::read(until)?, uses)
    }

    /// The same until a time in milliseconds since 1970.
    pub(super) fn until_time(
        &self,
        owner: LinkOwner<'_>,
        event: Option<&str>,
        milliseconds: f64,
        uses: Option<f64>,
    ) -> Result<String, String> {
        let time = DateTime::from_timestamp_millis(milliseconds as i64).filter(|_| milliseconds.is_finite());
        let time = time.ok_or_else(|| "until when a link can be used is not a date".to_owned())?;
        self.until(owner, event, LinkExpiry::At(time), uses)
    }

    fn until(
        &self,
        owner: LinkOwner<'_>,
        event: Option<&str>,
        expiry: LinkExpiry,
        uses: Option<f64>,
    ) -> Result<String, String> {
        let uses = uses.unwrap_or(1.0);
        let link = WantedLink {
            leads_to: event.map_or(LeadsTo::Bookmark(0), |name| LeadsTo::Event(name.to_owned())),
            expiry,
            // A number that is not whole, or none, is 0, which is refused.
            uses: if uses.fract() == 0.0 { uses as u32 } else { 0 },
        };
        self.create(owner, link)
    }

    /// The links that were made.
    pub(crate) fn take(&self) -> Vec<LinkRequest> {
        std::mem::take(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

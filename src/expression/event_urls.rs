//! The URLs that `createEventTriggerUrl` returns: each lets a client trigger one event of one instance without a key.

use std::fmt;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

/// The longest name of an event in a URL, in bytes.
const MAX_NAME: usize = 512;

type Signer = dyn Fn(&EventUrl<'_>) -> Option<String> + Send + Sync;

/// What a URL is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventUrl<'a> {
    /// The instance that receives the event.
    pub(crate) instance: &'a str,
    /// The name of the event.
    pub(crate) event: &'a str,
    /// When the URL expires; never if absent.
    pub(crate) expires: Option<DateTime<Utc>>,
}

/// Makes these URLs, once the engine has the key that signs them. Clones share it.
#[derive(Clone, Default)]
pub struct EventUrls(Arc<OnceLock<Box<Signer>>>);

impl EventUrls {
    /// Sets the function that makes the URLs; only the first call has an effect.
    pub(crate) fn sign_with(&self, signer: impl Fn(&EventUrl<'_>) -> Option<String> + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(signer));
    }

    /// Makes a URL. The error states why none can be made.
    pub(super) fn create(&self, url: &EventUrl<'_>) -> Result<String, String> {
        let signer = self.0.get().filter(|_| !url.instance.is_empty());
        let signer = signer.ok_or_else(|| "createEventTriggerUrl needs an instance of a running engine".to_owned())?;
        if url.event.is_empty() || url.event.len() > MAX_NAME || url.event.chars().any(char::is_control) {
            return Err(format!(
                "the name of an event in a URL has 1 to {MAX_NAME} bytes and no control characters"
            ));
        }
        signer(url).ok_or_else(|| "the URL of this event cannot be signed".to_owned())
    }
}

impl fmt::Debug for EventUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventUrls").field(&self.0.get().is_some()).finish()
    }
}

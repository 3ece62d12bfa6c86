//! The payload of a message: JSON of at most 7,900 bytes, with its sender and number.

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, RequestId, TenantId, WorkId};
use crate::wake::WakeNotification;

/// NOTIFY takes less than 8,000 bytes.
pub(super) const LONGEST: usize = 7_900;

/// The most bytes that keys, sender and number take.
const HEADER: usize = 200;

/// The longest id that a message carries, and the longest sender, in bytes.
const LONGEST_ID: usize = 255;
const LONGEST_SENDER: usize = 64;

/// What one message carries.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Payload {
    /// Identifies one connection of one process: an incarnation and a random number.
    pub(super) from: String,
    /// The number of the message, from 1 for each sender.
    pub(super) no: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    poll: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    schedules: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overlap_ended: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pause_changed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deliveries: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sinks_changed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ready: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    done: Vec<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cancelled: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    observed: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changed: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<RequestId>,
}

impl Payload {
    /// Parses a payload; none if no node can have sent it.
    pub(super) fn parse(payload: &str) -> Option<Self> {
        let payload: Self = serde_json::from_str(payload).ok()?;
        let of_tenants = || {
            payload
                .cancelled
                .iter()
                .chain(&payload.observed)
                .chain(&payload.changed)
        };
        let ids = payload.ready.iter().chain(of_tenants().map(|(_, id)| id));
        let sound = !payload.from.is_empty()
            && payload.from.len() <= LONGEST_SENDER
            && payload.no > 0
            && ids.map(String::len).all(|length| (1..=LONGEST_ID).contains(&length))
            && of_tenants().all(|(tenant, _)| tenant.len() <= LONGEST_ID);
        sound.then_some(payload)
    }

    /// The notifications in it.
    pub(super) fn notifications(self) -> Vec<WakeNotification> {
        let flags = [
            (self.poll, WakeNotification::Poll),
            (self.schedules, WakeNotification::Schedules),
            (self.overlap_ended, WakeNotification::OverlapEnded),
            (self.pause_changed, WakeNotification::PauseChanged),
            (self.deliveries, WakeNotification::Deliveries),
            (self.sinks_changed, WakeNotification::SinksChanged),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
        let of_tenants = |keys: Vec<(String, String)>, kind: fn(TenantId, InstanceId) -> WakeNotification| {
            keys.into_iter()
                .map(move |(tenant, id)| kind(TenantId::new(tenant), InstanceId::new(id)))
        };
        let ready = self.ready.into_iter().map(InstanceId::new);
        let works = |ids: Vec<i64>| ids.into_iter().map(WorkId);
        flags
            .chain(ready.map(WakeNotification::WorkReady))
            .chain(works(self.awaited).map(WakeNotification::ReplyAwaited))
            .chain(works(self.done).map(WakeNotification::WorkDone))
            .chain(of_tenants(self.cancelled, WakeNotification::InstanceCancelled))
            .chain(of_tenants(self.observed, WakeNotification::InstanceObserved))
            .chain(of_tenants(self.changed, WakeNotification::InstanceChanged))
            .chain(self.ended.into_iter().map(WakeNotification::RequestEnded))
            .collect()
    }
}

/// Packs notifications into as few messages as they need; `no` is the number of the last one that was sent.
pub(super) fn pack(from: &str, no: &mut u64, notifications: Vec<WakeNotification>) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut open = Payload::default();
    let mut left = LONGEST - HEADER;
    let mut close = |payload: Payload| {
        *no += 1;
        let payload = Payload {
            from: from.to_owned(),
            no: *no,
            ..payload
        };
        // Serializing strings and numbers does not fail.
        payloads.extend(serde_json::to_string(&payload));
    };
    let has_valid_length = |id: &InstanceId| (1..=LONGEST_ID).contains(&id.as_str().len());
    let have_valid_lengths =
        |tenant: &TenantId, id: &InstanceId| has_valid_length(id) && tenant.as_str().len() <= LONGEST_ID;
    for notification in notifications {
        let size = size(&notification);
        if size > left {
            close(std::mem::take(&mut open));
            left = LONGEST - HEADER;
        }
        left = left.saturating_sub(size);
        match notification {
            WakeNotification::Poll => open.poll = true,
            WakeNotification::Schedules => open.schedules = true,
            WakeNotification::OverlapEnded => open.overlap_ended = true,
            WakeNotification::PauseChanged => open.pause_changed = true,
            WakeNotification::Deliveries => open.deliveries = true,
            WakeNotification::SinksChanged => open.sinks_changed = true,
            WakeNotification::WorkReady(id) if has_valid_length(&id) => open.ready.push(id.into()),
            WakeNotification::InstanceCancelled(tenant, id) if have_valid_lengths(&tenant, &id) => {
                open.cancelled.push((tenant.into(), id.into()));
            }
            WakeNotification::InstanceObserved(tenant, id) if have_valid_lengths(&tenant, &id) => {
                open.observed.push((tenant.into(), id.into()));
            }
            WakeNotification::InstanceChanged(tenant, id) if have_valid_lengths(&tenant, &id) => {
                open.changed.push((tenant.into(), id.into()));
            }
            WakeNotification::InstanceObserved(..) | WakeNotification::InstanceChanged(..) => {}
            // No instance has such an id.
            WakeNotification::WorkReady(_) | WakeNotification::InstanceCancelled(..) => open.poll = true,
            WakeNotification::ReplyAwaited(WorkId(id)) => open.awaited.push(id),
            WakeNotification::WorkDone(WorkId(id)) => open.done.push(id),
            WakeNotification::RequestEnded(id) => open.ended.push(id),
        }
    }
    close(open);
    payloads
}

/// The maximum number of bytes that a notification takes, with its comma.
fn size(notification: &WakeNotification) -> usize {
    match notification {
        WakeNotification::Poll
        | WakeNotification::Schedules
        | WakeNotification::OverlapEnded
        | WakeNotification::PauseChanged
        | WakeNotification::Deliveries
        | WakeNotification::SinksChanged => 0,
        WakeNotification::WorkReady(id) => text_size(id.as_str()),
        // With the brackets of the pair.
        WakeNotification::InstanceCancelled(tenant, id)
        | WakeNotification::InstanceObserved(tenant, id)
        | WakeNotification::InstanceChanged(tenant, id) => text_size(tenant.as_str()) + text_size(id.as_str()) + 2,
        WakeNotification::ReplyAwaited(_) | WakeNotification::WorkDone(_) => 21,
        // 36 digits and dashes in quotes.
        WakeNotification::RequestEnded(_) => 39,
    }
}

fn text_size(text: &str) -> usize {
    serde_json::to_string(text).map_or(LONGEST_ID * 6, |text| text.len()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notifications_fit_into_few_messages_and_come_out_again() {
        let strange = "\u{1}\"\\é".repeat(50);
        let notifications: Vec<WakeNotification> = (0..1000)
            .map(|n| WakeNotification::WorkReady(InstanceId::new(format!("{n:032}"))))
            .chain((0..50).map(|n| WakeNotification::WorkReady(InstanceId::new(format!("{n:02}{strange}")))))
            .chain((0..1000).map(|n| WakeNotification::WorkDone(WorkId(i64::MAX - n))))
            .chain([
                WakeNotification::ReplyAwaited(WorkId(-1)),
                WakeNotification::Poll,
                WakeNotification::Schedules,
                WakeNotification::OverlapEnded,
                WakeNotification::PauseChanged,
                WakeNotification::Deliveries,
                WakeNotification::SinksChanged,
                WakeNotification::InstanceCancelled(TenantId::default(), InstanceId::new("gone")),
                WakeNotification::InstanceCancelled(TenantId::new("t"), InstanceId::new("gone")),
                WakeNotification::InstanceObserved(TenantId::default(), InstanceId::new("seen")),
                WakeNotification::InstanceChanged(TenantId::new("t"), InstanceId::new("seen")),
                WakeNotification::RequestEnded(RequestId::random()),
            ])
            .collect();
        let mut no = 6;
        let payloads = pack("17-x", &mut no, notifications.clone());
        assert!(payloads.iter().all(|payload| payload.len() <= LONGEST));
        assert!(payloads.len() < 15, "{}", payloads.len());
        assert_eq!(no, 6 + payloads.len() as u64);
        let mut read = std::collections::HashSet::new();
        for (place, text) in payloads.iter().enumerate() {
            let payload = Payload::parse(text).unwrap();
            assert_eq!((payload.from.as_str(), payload.no), ("17-x", 7 + place as u64));
            read.extend(payload.notifications());
        }
        assert_eq!(read, notifications.into_iter().collect());
    }

    #[test]
    fn what_no_node_can_have_sent_is_refused() {
        let long = "x".repeat(256);
        for payload in [
            "",
            "null",
            "{}",
            "[1]",
            r#"{"from": "", "no": 1}"#,
            r#"{"from": "a", "no": 0}"#,
            r#"{"from": "a", "no": -1}"#,
            r#"{"from": "a", "no": 1, "ready": [""]}"#,
            r#"{"from": "a", "no": 1, "ready": [1]}"#,
            r#"{"from": "a", "no": 1, "cancelled": ["i"]}"#,
            r#"{"from": "a", "no": 1, "cancelled": [["", ""]]}"#,
            r#"{"from": "a", "no": 1, "done": [1e99]}"#,
            r#"{"from": "a", "no": 1, "ended": ["x"]}"#,
            &format!(r#"{{"from": "{long}", "no": 1}}"#),
            &format!(r#"{{"from": "a", "no": 1, "ready": ["{long}"]}}"#),
        ] {
            assert_eq!(Payload::parse(payload), None, "{payload}");
        }
        // A newer node may send more.
        assert!(Payload::parse(r#"{"from": "a", "no": 1, "more": 1}"#).is_some());
    }

    #[test]
    fn an_id_that_is_too_long_becomes_a_poll() {
        let mut no = 0;
        let notification = WakeNotification::WorkReady(InstanceId::new("x".repeat(9000)));
        let payloads = pack("a", &mut no, vec![notification]);
        let notifications: Vec<WakeNotification> = payloads
            .iter()
            .flat_map(|text| Payload::parse(text).unwrap().notifications())
            .collect();
        assert_eq!(notifications, [WakeNotification::Poll]);
    }
}

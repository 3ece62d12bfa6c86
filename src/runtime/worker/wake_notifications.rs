//! How this node handles the notifications of other nodes.
//!
//! All nodes receive them at once: a random delay before the poll, shorter for idler nodes, keeps them from polling at once.
//! A node without room does not poll: the end of each of its bursts wakes its poller anyway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::runtime::context::node_context::NodeContext;
use crate::wake::{WakeNotification, WakeSubscription};

/// The longest delay before a poll: of a node with hardly any room left.
const LONGEST_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of an idle node.
const IDLE_DELAY: Duration = Duration::from_millis(1);

/// Handles notifications of other nodes until the incarnation stops.
pub(crate) async fn receive(node: Arc<NodeContext>, mut notifications: WakeSubscription) {
    let (claims, schedules) = (&node.claims, &node.schedules);
    loop {
        // Both are cancellation safe.
        let received = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            received = notifications.recv() => received,
        };
        let Some(received) = received else { return };
        let mut polls = false;
        for notification in received.iter() {
            match notification {
                WakeNotification::Poll => {
                    polls = true;
                    #[cfg(feature = "http")]
                    node.webhooks.may_be_due();
                }
                WakeNotification::Schedules => schedules.timer.wake_now(),
                // A burst that runs the instance wakes the poller at its end.
                WakeNotification::WorkReady(instance) => polls |= !claims.in_flight.note_work(instance),
                WakeNotification::InstanceCancelled(tenant, instance) => {
                    claims.cancel(&(tenant.clone(), instance.clone()));
                }
                WakeNotification::InstanceObserved(tenant, instance) => {
                    node.observed.announced(&(tenant.clone(), instance.clone()));
                }
                WakeNotification::InstanceChanged(tenant, instance) => {
                    node.observed.changed_elsewhere(&(tenant.clone(), instance.clone()));
                }
                WakeNotification::PauseChanged => node.pause.read_again(),
                WakeNotification::OverlapEnded => schedules.overlap_ended(),
                WakeNotification::ReplyAwaited(work) => node.notifications.wake.remember_awaited(*work),
                WakeNotification::WorkDone(work) => node.notifications.replies.reply_elsewhere(*work),
                WakeNotification::RequestEnded(id) => node.notifications.requests.ended_elsewhere(*id),
                #[cfg(feature = "http")]
                WakeNotification::Deliveries => node.webhooks.may_be_due(),
                #[cfg(feature = "http")]
                WakeNotification::SinksChanged => node.webhooks.expire(),
                // A build without HTTP sends no webhooks.
                #[cfg(not(feature = "http"))]
                WakeNotification::Deliveries | WakeNotification::SinksChanged => {}
            }
        }
        if polls {
            match poll_delay(claims.workers.room(), claims.workers.count) {
                Some(delay) => claims.wake_timer.wake_at(Instant::now() + delay),
                // The end of a burst makes room, and wakes the poller.
                None => claims.in_flight.note_poll(),
            }
        }
    }
}

/// How long a node with peers waits beyond the time at which a row is due, as all of them know of it.
pub(super) fn due_delay(node: &NodeContext) -> Duration {
    let workers = &node.claims.workers;
    let has_api_peers = node.lifecycle.reports.borrow().check_in.has_api_peers;
    let delay = has_api_peers.then(|| poll_delay(workers.room(), workers.count));
    delay.flatten().unwrap_or_default()
}

/// How long a node waits before it polls; `None` if it has no room.
fn poll_delay(room: usize, workers: usize) -> Option<Duration> {
    if room == 0 {
        return None;
    }
    let busy = 1.0 - room as f64 / workers.max(room) as f64;
    let longest = IDLE_DELAY + (LONGEST_DELAY - IDLE_DELAY).mul_f64(busy);
    Some(longest.mul_f64(rand::random_range(0.0..1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_node_polls_first_and_a_full_one_not_at_all() {
        assert_eq!(poll_delay(0, 0), None);
        assert_eq!(poll_delay(0, 64), None);
        for _ in 0..100 {
            assert!(poll_delay(64, 64).unwrap() <= IDLE_DELAY);
            assert!(poll_delay(1, 64).unwrap() <= LONGEST_DELAY);
        }
    }
}

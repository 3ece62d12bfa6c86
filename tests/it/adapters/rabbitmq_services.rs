//! Wake notifications and cache notifications over a real broker: the public suites, and what goes wrong with brokers.

use std::time::Duration;

use mainspring::id::InstanceId;
use mainspring::signal::{CacheNotification, CacheSignal, RabbitSignal};
use mainspring::testing::conformance::{signal, wake};
use mainspring::wake::{RabbitWake, WakeNotification, WakeSubscription, WakeTransport};

use crate::support::rabbitmq::RabbitProcess;
use crate::support::{Proxy, TIMEOUT, poll_until, wait_until};

fn prefix() -> String {
    format!("t{}", uuid::Uuid::new_v4().simple())
}

fn ready(id: &str) -> WakeNotification {
    WakeNotification::WorkReady(InstanceId::new(id))
}

/// Receives until this comes, into `before`.
async fn receive(subscription: &mut WakeSubscription, last: &WakeNotification, before: &mut Vec<WakeNotification>) {
    loop {
        for notification in wake::next(subscription).await.iter() {
            if notification == last {
                return;
            }
            before.push(notification.clone());
        }
    }
}

/// Receives until this comes; returns what came before.
async fn up_to(subscription: &mut WakeSubscription, last: &WakeNotification) -> Vec<WakeNotification> {
    let mut before = Vec::new();
    receive(subscription, last, &mut before).await;
    before
}

/// Sends until it arrives: what is sent while a connection is opened anew may be lost. Returns what came before.
async fn arrives(sender: &RabbitWake, subscription: &mut WakeSubscription, id: &str) -> Vec<WakeNotification> {
    let (mut before, sent) = (Vec::new(), ready(id));
    poll_until(TIMEOUT, "a notification to arrive", async || {
        sender.notify(vec![sent.clone()]);
        let received = receive(subscription, &sent, &mut before);
        tokio::time::timeout(Duration::from_millis(100), received).await.ok()
    })
    .await;
    before
}

/// An Erlang term that names a queue or an exchange.
pub(super) fn resource(kind: &str, name: &str) -> String {
    format!("rabbit_misc:r(<<\"/\">>, {kind}, <<\"{name}\">>)")
}

/// An Erlang term: the queues of an exchange.
pub(super) fn queues_of(exchange: &str) -> String {
    format!(
        "[Q || {{resource, _, queue, N}} = Q <- rabbit_amqqueue:list_names(), binary:match(N, <<\"{exchange}.\">>) =/= nomatch]"
    )
}

/// An Erlang term: the properties of a message of this type.
fn properties(kind: &str) -> String {
    let ten = ["undefined"; 10].join(", ");
    format!("{{'P_basic', {ten}, <<\"{kind}\">>, undefined, undefined, undefined}}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_notifications_over_rabbitmq_pass_the_suite() {
    let broker = RabbitProcess::shared();
    wake::conforms(async || {
        let prefix = prefix();
        let member = async || RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
        let pair: wake::Pair = (Box::new(member().await), Box::new(member().await));
        pair
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_notifications_over_rabbitmq_pass_the_suite() {
    let broker = RabbitProcess::shared();
    signal::conforms(async || {
        let prefix = prefix();
        let member = async || RabbitSignal::connect(&broker.url(), &prefix).await.unwrap();
        let pair: signal::Pair = (Box::new(member().await), Box::new(member().await));
        pair
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_with_tls_is_used_with_a_private_authority_and_a_certificate_of_the_client() {
    let (broker, prefix) = (RabbitProcess::shared(), prefix());
    let one = RabbitWake::connect(&broker.tls_url(), &prefix).await.unwrap();
    // The second of two hosts answers.
    let url = broker.url().replace("@", "@127.0.0.1:1,");
    let two = RabbitWake::connect(&url, &prefix).await.unwrap();
    let mut received = two.subscribe();
    one.notify(vec![ready("a")]);
    up_to(&mut received, &ready("a")).await;
    let without = broker.tls_url().split('?').next().unwrap().to_owned();
    let error = RabbitWake::connect(&without, &prefix).await.err().unwrap();
    assert!(
        error.is_unavailable() && error.message().contains("cacertfile"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_and_a_connection_that_is_closed_come_back() {
    let (broker, prefix) = (RabbitProcess::shared(), prefix());
    let one = RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
    let two = RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
    let caches = RabbitSignal::connect(&broker.url(), &prefix).await.unwrap();
    let (mut received, mut changes) = (two.subscribe(), caches.subscribe());
    let delete = |exchange: &str| {
        let found = queues_of(exchange);
        broker.eval(&format!(
            "lists:foreach(fun(N) -> {{ok, Q}} = rabbit_amqqueue:lookup(N), rabbit_amqqueue:delete(Q, false, false, <<\"t\">>) end, \
             {found})."
        ));
    };
    delete(&format!("{prefix}.wake"));
    // A poll takes the place of what was lost.
    let before = arrives(&one, &mut received, "a").await;
    assert!(before.contains(&WakeNotification::Poll), "{before:?}");
    delete(&format!("{prefix}.signal"));
    assert_eq!(signal::next(&mut changes).await, CacheNotification::Invalidate);
    caches.notify(signal::change(1, "d"));
    until_changed(&mut changes).await;
    // Other tests use the broker, too: only the connections of these queues.
    let ours = queues_of(&prefix);
    broker.eval(&format!(
        "lists:foreach(fun(N) -> {{ok, Q}} = rabbit_amqqueue:lookup(N), lists:foreach(fun(C) -> \
         [{{connection, P}}] = rabbit_channel:info(element(1, C), [connection]), \
         rabbit_networking:close_connection(P, <<\"test\">>) end, rabbit_amqqueue:consumers(Q)) end, {ours})."
    ));
    assert_eq!(signal::next(&mut changes).await, CacheNotification::Invalidate);
    let before = arrives(&one, &mut received, "b").await;
    assert!(before.contains(&WakeNotification::Poll), "{before:?}");
}

/// Receives the change of the definition `d`, after any number of notifications that a cache is empty.
async fn until_changed(changes: &mut mainspring::signal::CacheSubscription) {
    loop {
        match signal::next(changes).await {
            CacheNotification::Invalidate => {}
            changed => return assert_eq!(changed, CacheNotification::Changed(signal::change(1, "d"))),
        }
    }
}

/// The network carries nothing, and closes nothing: heartbeats show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_behind_a_silent_network_is_away_until_it_answers_again() {
    let (broker, prefix) = (RabbitProcess::shared(), prefix());
    let network = Proxy::before(&broker.url()).await;
    let url = format!("{}?heartbeat=1&connection_timeout=500", network.url());
    let one = RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
    let two = RabbitWake::connect(&url, &prefix).await.unwrap();
    let mut received = two.subscribe();
    arrives(&one, &mut received, "a").await;
    network.stall();
    wait_until("the broker to be away", async || two.is_away()).await;
    assert!(!one.is_away());
    network.cut();
    network.resume_traffic();
    let before = arrives(&one, &mut received, "b").await;
    assert!(before.contains(&WakeNotification::Poll), "{before:?}");
    assert!(!two.is_away());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_member_has_sent_is_dropped() {
    let (broker, prefix) = (RabbitProcess::shared(), prefix());
    let one = RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
    let two = RabbitWake::connect(&broker.url(), &prefix).await.unwrap();
    let mut received = two.subscribe();
    one.notify(vec![ready("a")]);
    up_to(&mut received, &ready("a")).await;
    let exchange = resource("exchange", &format!("{prefix}.wake"));
    for (kind, body) in [
        ("mainspring.wake.1", "<<\"rubbish\">>"),
        ("mainspring.wake.1", "<<255, 254>>"),
        (
            "mainspring.wake.1",
            "<<\"{\\\"from\\\":\\\"x\\\",\\\"no\\\":0,\\\"poll\\\":true}\">>",
        ),
        (
            "mainspring.wake.9",
            "<<\"{\\\"from\\\":\\\"x\\\",\\\"no\\\":1,\\\"poll\\\":true}\">>",
        ),
        ("mainspring.wake.1", "binary:copy(<<\" \">>, 100000)"),
    ] {
        let properties = properties(kind);
        broker.eval(&format!(
            "rabbit_basic:publish({exchange}, <<>>, {properties}, {body})."
        ));
    }
    one.notify(vec![ready("b")]);
    assert_eq!(up_to(&mut received, &ready("b")).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_is_named_with_its_remedy_and_without_a_secret() {
    let (broker, prefix) = (RabbitProcess::shared(), prefix());
    let port = broker.port();
    broker.eval(
        "rabbit_auth_backend_internal:add_user(<<\"limited\">>, <<\"geheim\">>, <<\"t\">>), \
         rabbit_auth_backend_internal:set_permissions(<<\"limited\">>, <<\"/\">>, <<\"^none$\">>, <<\"\">>, <<\"\">>, <<\"t\">>).",
    );
    let taken = resource("exchange", &format!("{prefix}.wake"));
    broker.eval(&format!(
        "rabbit_exchange:declare({taken}, direct, true, false, false, [], <<\"t\">>)."
    ));
    let tls = broker
        .tls_url()
        .replace(&format!(":{}/", tls_port(&broker.tls_url())), &format!(":{port}/"));
    for (url, is_invalid, named) in [
        (format!("amqp://guest:geheim@127.0.0.1:{port}/"), true, "password"),
        (
            format!("amqp://guest:guest@127.0.0.1:{port}/absent"),
            true,
            "\"absent\"",
        ),
        (
            format!("amqp://limited:geheim@127.0.0.1:{port}/"),
            true,
            "set_permissions",
        ),
        (broker.url(), true, "rabbitmq-prefix"),
        ("amqp://guest:geheim@127.0.0.1:1/".to_owned(), false, "127.0.0.1:1"),
        (tls, false, "TLS"),
        (
            broker.tls_url().split('?').next().unwrap().replace("amqps", "amqp"),
            false,
            "amqps",
        ),
    ] {
        let error = RabbitWake::connect(&url, &prefix).await.err().unwrap();
        let message = error.to_string();
        assert_eq!(error.is_invalid(), is_invalid, "{message}");
        assert_eq!(error.is_unavailable(), !is_invalid, "{message}");
        assert!(message.contains(named) && !message.contains("geheim"), "{message}");
    }
}

fn tls_port(url: &str) -> String {
    let rest = url.split("localhost:").nth(1).unwrap();
    rest.split('/').next().unwrap().to_owned()
}

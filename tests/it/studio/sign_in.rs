//! Sign-in as a person meets it: with an OpenID issuer, and over a page whose session has ended.

use reqwest::Method;
use serde_json::json;

use super::{
    DIALOG_IS_OPEN, NAME, PASSWORD, Studio, add_user, event, line, node_with, on_flowchart, saves_answered, select,
    settings,
};
use crate::support::browser::Page;
use crate::support::haproxy::HaProxy;
use crate::support::node::{NAMES, Node, assert_invariants};
use crate::support::openid_provider::OpenIdProvider;
use crate::support::single_node::{KEY, SingleNode};
use crate::support::{Http, TIMEOUT, TestDatabase, poll_until};

const TOKEN: &str = "document.querySelector('elsa-backend-provider').getAttribute('access-token')";

/// A node that takes tokens of the provider, and has a key. It has read the issuer.
async fn node_of(provider: &OpenIdProvider, definitions: &[serde_json::Value]) -> SingleNode {
    let file = provider.file();
    let node = node_with(&["--openid-file", file.path()], definitions).await;
    poll_until(TIMEOUT, "the issuer", async || {
        let ways = node.http.get("identity/sign-in").await.expect(200);
        (ways["issuers"][0]["isAway"] == json!(false)).then_some(())
    })
    .await;
    node
}

/// Signs in at the page of the provider.
async fn accept(page: &Page, user: &str) {
    page.fill("document.getElementById('user')", user).await;
    page.click("document.getElementById('accept')").await;
}

/// Opens Studio and signs in with the issuer.
async fn signed_in(node: &SingleNode, name: &str, user: &str) -> Studio {
    let studio = Studio::open(&format!("http://{}", node.address), name, "").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    studio.screenshot("1-sign-in").await;
    studio
        .page
        .click_text(".ms-issuer", "Continue with Company account")
        .await;
    studio.page.wait("location.pathname.endsWith('/authorize')").await;
    accept(&studio.page, user).await;
    studio.page.wait(&format!("{NAME} === '{user}'")).await;
    studio
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_an_issuer_and_signs_out() {
    let provider = OpenIdProvider::start().await;
    let node = node_of(&provider, &[on_flowchart("quick", "Quick", line("say", "Hello"))]).await;
    provider.set_lifetime(8);
    let studio = signed_in(&node, "sign-in-issuer", "admin").await;
    studio.wait_for_row("Quick").await;
    let address = studio.page.eval("location.search + location.hash").await;
    let address = address.as_str().unwrap();
    assert!(!address.contains("code=") && !address.contains("state="), "{address}");
    studio.screenshot("2-signed-in").await;

    // The next tokens come before these end, and Studio has them.
    let first = studio.page.wait(TOKEN).await;
    studio.page.wait(&format!("{TOKEN} !== {first}")).await;
    assert!(provider.counts().0 >= 1);
    assert_eq!(studio.page.eval(DIALOG_IS_OPEN).await, json!(false));

    // A second window is signed in as well; a sign-out in it asks in the first one, which keeps its page.
    provider.set_lifetime(300);
    studio
        .page
        .eval("window.kept = true; window.open('cluster', '_blank', 'noopener'); 0")
        .await;
    let second = studio.opened("/studio/cluster").await;
    second.wait(&format!("{NAME} === 'admin'")).await;
    second.click("document.getElementById('ms-sign-out')").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    studio.page.wait_for_text("You have signed out").await;
    studio.screenshot("3-signed-out-elsewhere").await;
    poll_until(TIMEOUT, "the sign-out at the issuer", async || {
        (provider.counts().1 == 1).then_some(())
    })
    .await;
    second.wait(DIALOG_IS_OPEN).await;
    assert_eq!(studio.page.eval("window.kept").await, json!(true));
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_during_an_edit_asks_in_place_and_loses_no_edit() {
    let provider = OpenIdProvider::start().await;
    let node = node_of(&provider, &[on_flowchart("quick", "Quick", line("say", "Hello"))]).await;
    provider.set_lifetime(8);
    let studio = signed_in(&node, "sign-in-expired", "author").await;
    studio.wait_for_row("Quick").await;
    studio.open_page("workflows/definitions/quick/edit").await;
    select(&studio, "say", "Text").await;
    studio.page.eval("window.kept = true").await;

    // The issuer ends the session, and the token ends.
    provider.end_sessions();
    let has_ended = "JSON.parse(localStorage.getItem('mainspring-session')).expiresAt + 4000 < Date.now()";
    studio.page.wait(has_ended).await;
    studio.fill("Text", "Changed").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    studio.page.wait_for_text("Your session has ended").await;
    studio.screenshot("2-asked-in-place").await;
    let latest = "workflow-definitions/by-definition-id/quick?versionOptions=Latest";
    assert_eq!(node.http.get(latest).await.expect(200)["version"], json!(1));

    // In a window of its own, so that the page stays.
    studio
        .page
        .click_text(".ms-issuer", "Continue with Company account")
        .await;
    let window = studio.opened("/authorize").await;
    accept(&window, "author").await;
    studio.page.wait(&format!("!{DIALOG_IS_OPEN}")).await;
    studio
        .wait_for_api(latest, "the edit", |body| {
            body["version"] == json!(2) && body.to_string().contains("Changed")
        })
        .await;
    assert_eq!(studio.page.eval("window.kept").await, json!(true));
    studio.screenshot("3-saved").await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_follow_what_one_may_see() {
    let provider = OpenIdProvider::start().await;
    let quick = on_flowchart("quick", "Quick", line("say", "Hello"));
    let node = node_of(
        &provider,
        &[quick, on_flowchart("waiting", "Waiting", event("wait", "Go"))],
    )
    .await;
    for user in ["reader", "author", "operator", "admin"] {
        let studio = signed_in(&node, &format!("sign-in-{user}"), user).await;
        studio.wait_for_row("Quick").await;
        studio.screenshot("2-definitions").await;
        studio.follow("Cluster").await;
        studio.page.wait("document.querySelector('.ms-table')").await;
        studio.screenshot("3-cluster").await;
        studio.open_page("workflows/definitions/quick/edit").await;
        select(&studio, "say", "Text").await;
        studio.fill("Text", user).await;
        let status = if ["author", "admin"].contains(&user) { 200 } else { 403 };
        poll_until(TIMEOUT, &format!("{status} for {user}"), async || {
            (saves_answered(&studio, status) > 0).then_some(())
        })
        .await;
        if status == 403 {
            studio
                .page
                .wait_for_text("This needs the permission write:workflow-definitions")
                .await;
        }
        studio.screenshot("4-saved-or-refused").await;
    }

    // Who may see nothing is informed of it.
    let studio = signed_in(&node, "sign-in-stranger", "stranger").await;
    studio.page.wait_for_text("may not see this page").await;
    let shown = "[...document.querySelectorAll('.ms-nav a')].filter(link => !link.hidden).length";
    assert_eq!(studio.page.eval(shown).await, json!(0));
    studio.screenshot("2-nothing").await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_does_not_succeed_says_why() {
    let provider = OpenIdProvider::start().await;
    let node = node_of(&provider, &[]).await;
    let base = format!("http://{}", node.address);
    let studio = Studio::open(&base, "sign-in-wrong", "").await;
    studio.page.wait(DIALOG_IS_OPEN).await;

    // A code that no user of this window has asked for.
    studio.goto("signed-in?code=c&state=s").await;
    studio.page.wait_for_text("did not begin in this window").await;
    studio.screenshot("1-foreign-code").await;
    studio.page.click_text(".ms-back", "Back to the sign-in").await;
    studio.page.wait(DIALOG_IS_OPEN).await;

    // A wrong key, and the right one.
    studio.sign_in("a-key-of-another-server").await;
    studio.page.wait_for_text("does not accept this key").await;
    studio.screenshot("2-wrong-key").await;
    studio.sign_in(KEY).await;
    studio.page.wait(&format!("{NAME} === 'API key'")).await;
    studio.page.click("document.getElementById('ms-sign-out')").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_with_a_password_and_a_wrong_one_is_refused() {
    let quick = on_flowchart("quick", "Quick", line("say", "Hello"));
    let node = node_with(&["--access-token-lifetime", "6s"], &[quick]).await;
    add_user(&node.http, "ada", "author").await;
    let studio = Studio::open(&format!("http://{}", node.address), "sign-in-password", "").await;
    studio.enter_password(Some("ada"), "wrong horse").await;
    studio
        .page
        .wait_for_text("The user name or the password is wrong.")
        .await;
    studio.screenshot("1-wrong").await;
    studio.enter_password(None, PASSWORD).await;
    studio.page.wait(&format!("{NAME} === 'ada'")).await;
    studio.wait_for_row("Quick").await;
    let first = studio.page.wait(TOKEN).await;
    studio.page.wait(&format!("{TOKEN} !== {first}")).await;
    assert_eq!(studio.page.eval(DIALOG_IS_OPEN).await, json!(false));
    studio.screenshot("2-signed-in").await;

    // A sign-out ends the session at the server, too.
    let token = studio.page.wait(TOKEN).await;
    studio.page.click("document.getElementById('ms-sign-out')").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    let authorization = format!("Bearer {}", token.as_str().unwrap());
    let stranger = Http::new(&format!("http://{}", node.address));
    poll_until(TIMEOUT, "the end of the session", async || {
        let headers = [("authorization", authorization.as_str())];
        let answer = stranger.send(Method::GET, "identity/me", &headers, None).await.unwrap();
        (answer.status == 401).then_some(())
    })
    .await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_during_an_edit_is_asked_in_place() {
    let quick = on_flowchart("quick", "Quick", line("say", "Hello"));
    let node = node_with(&[], &[quick]).await;
    let id = add_user(&node.http, "ada", "author").await;
    let studio = Studio::open(&format!("http://{}", node.address), "sign-in-in-place", "").await;
    studio.enter_password(Some("ada"), PASSWORD).await;
    studio.wait_for_row("Quick").await;
    studio.open_page("workflows/definitions/quick/edit").await;
    select(&studio, "say", "Text").await;
    let user = format!("identity/users/{id}");
    let change = json!({"password": "another horse"});
    let changed = node.http.send(Method::PUT, &user, &[], Some(&change)).await.unwrap();
    changed.expect(200);
    studio.fill("Text", "Changed").await;
    studio.page.wait(DIALOG_IS_OPEN).await;
    studio.page.wait_for_text("Your session has ended").await;
    studio.screenshot("1-asked").await;
    studio.enter_password(None, PASSWORD).await;
    studio
        .page
        .wait_for_text("The user name or the password is wrong.")
        .await;
    studio.enter_password(None, "another horse").await;
    let latest = "workflow-definitions/by-definition-id/quick?versionOptions=Latest";
    studio
        .wait_for_api(latest, "the edit", |body| {
            body["version"] == json!(2) && body.to_string().contains("Changed")
        })
        .await;
    assert_eq!(studio.page.eval(DIALOG_IS_OPEN).await, json!(false));
    studio.screenshot("2-saved").await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_no_user_signs_in_again() {
    let database = TestDatabase::create().await;
    let own = ["--api-key", KEY, "--tolerance", "1s", "--access-token-lifetime", "6s"].map(str::to_owned);
    let settings = [&own[..], &settings()].concat();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|name| Node::start_at(&database.url(), name, &settings, &[]))
        .collect();
    let http = nodes[1].http.clone().unwrap().with_key(KEY);
    http.publish(&on_flowchart("quick", "Quick", line("say", "Hello")))
        .await;
    add_user(&http, "ada", "author").await;
    let proxy = HaProxy::in_front_of(&nodes).await;
    let studio = Studio::open(&format!("http://{}", proxy.address()), "sign-in-cluster", "").await;
    studio.enter_password(Some("ada"), PASSWORD).await;
    studio.wait_for_row("Quick").await;
    nodes[0].child.kill9();
    for edition in 2..4 {
        let token = studio.page.wait(TOKEN).await;
        studio.page.wait(&format!("{TOKEN} !== {token}")).await;
        studio.follow("Instances").await;
        studio
            .page
            .wait("document.querySelector('.ms-instances tbody tr')")
            .await;
        studio.follow("Definitions").await;
        studio.wait_for_row("Quick").await;
        studio.open_page("workflows/definitions/quick/edit").await;
        select(&studio, "say", "Text").await;
        let text = format!("Edition {edition}");
        studio.fill("Text", &text).await;
        let latest = "workflow-definitions/by-definition-id/quick?versionOptions=Latest";
        studio
            .wait_for_api(latest, "the edit", |body| body.to_string().contains(&text))
            .await;
    }
    assert_eq!(studio.page.eval(DIALOG_IS_OPEN).await, json!(false));
    studio.screenshot("1-after-the-kill").await;
    drop(nodes);
    assert_invariants(&database).await;
}

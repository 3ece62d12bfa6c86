//! `credentials`: executes over HTTP with the token of a user, and with the key of an application, against the static key.

use mainspring::internals::{ANY_PORT, Failure, Node, Target, log_only, nearest_rank, node_options, print_line};
use serde_json::{Value, json};

use super::{PAIRS, client, failed, rate, to_three_digits};
use crate::rows::with_schema;
use crate::settings::Credentials;

const KEY: &str = "a-static-key-of-an-experiment";
const PASSWORD: &str = "a password of an experiment";

pub(crate) async fn run(target: &Target, settings: &Credentials) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let mut options = node_options(target, scratch, log_only());
        options.variables.push(("MAINSPRING_API_KEY", KEY.to_owned()));
        let mut node = Node::start(&options, "node-1", ANY_PORT)?;
        node.ready().await?;
        let api = format!("{}/elsa/api", node.url());
        let key = format!("ApiKey {KEY}");
        let post = async |path: &str, body: Value| post(&format!("{api}{path}"), &key, &body).await;
        let hello = json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "hello"}});
        post("/workflow-definitions", json!({"model": hello, "publish": true})).await?;
        let user = json!({"name": "user", "password": PASSWORD, "roles": ["admin"]});
        post("/identity/users", user).await?;
        let tokens = post("/identity/login", json!({"username": "user", "password": PASSWORD})).await?;
        let application = post("/identity/applications", json!({"name": "program", "roles": ["admin"]})).await?;
        let token = format!("Bearer {}", text_at(&tokens, "accessToken"));
        let application = format!("ApiKey {}", text_at(&application, "apiKey"));

        let (mut rates, mut ratios) = ([vec![], vec![], vec![]], [vec![], vec![]]);
        for round in 1..=PAIRS {
            let mut of_round = Vec::new();
            for (rates, credential) in rates.iter_mut().zip([&key, &token, &application]) {
                let rate = executes(&api, credential, settings).await?;
                rates.push(rate);
                of_round.push(rate);
            }
            eprintln!("round {round}: {of_round:.0?}/s with the static key, a token, the key of an application");
            if let [by_key, others @ ..] = of_round.as_slice() {
                for (ratios, rate) in ratios.iter_mut().zip(others) {
                    ratios.push(rate / by_key.max(1e-9));
                }
            }
        }
        node.stop().await;
        let [ratio, key_ratio] = ratios
            .each_ref()
            .map(|ratios| to_three_digits(nearest_rank(ratios, 50)));
        let [by_key, by_token, by_application] = rates.map(|rates| nearest_rank(&rates, 50).round());
        let [of_token, of_application] = &ratios;
        print_line(&format!(
            "executes: {by_key}/s with the static key, {by_token}/s with a token, {ratio} times (of {of_token:.2?}), {by_application}/s \
             with the key of an application, {key_ratio} times (of {of_application:.2?})"
        ));
        if settings.json {
            let report = json!({
                "experiment": "credentials", "clients": settings.clients, "seconds": settings.seconds,
                "static_key_per_s": by_key, "token_per_s": by_token, "application_per_s": by_application, "ratio": ratio,
                "application_ratio": key_ratio,
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

fn text_at<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

async fn post(url: &str, credential: &str, body: &Value) -> Result<Value, Failure> {
    send(&client()?, url, credential, body).await
}

async fn send(client: &reqwest::Client, url: &str, credential: &str, body: &Value) -> Result<Value, Failure> {
    let request = client.post(url).header("authorization", credential).json(body);
    let response = request.send().await.map_err(|error| failed(&error))?;
    let status = response.status();
    let value: Value = response.json().await.map_err(|error| failed(&error))?;
    match status.is_success() {
        true => Ok(value),
        false => Err(failed(&value)),
    }
}

async fn executes(api: &str, credential: &str, settings: &Credentials) -> Result<f64, Failure> {
    let (client, url) = (client()?, format!("{api}/workflow-definitions/hello/execute"));
    let credential = credential.to_owned();
    let execute = move || {
        let (client, url, credential) = (client.clone(), url.clone(), credential.clone());
        async move { send(&client, &url, &credential, &json!({})).await.map(|_| 1) }
    };
    rate(settings.clients, settings.seconds, execute).await
}

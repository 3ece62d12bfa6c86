//! Settings and secrets of the operator.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::expression::ScriptErrorKind::Thrown;
use crate::expression::script::{ScriptError, ScriptScope};
use crate::expression::script_options::ScriptOptions;
use crate::expression::{NamedValues, ScriptEngine};

async fn evaluate(named: &NamedValues, script: &str) -> Result<Value, ScriptError> {
    let engine = ScriptEngine::new(ScriptOptions {
        named: named.clone(),
        ..ScriptOptions::default()
    });
    let result = engine.session().evaluate(script, ScriptScope::default()).await;
    result.map(|result| result.value)
}

#[tokio::test]
async fn scripts_read_what_is_listed_and_nothing_else() {
    let directory = std::env::temp_dir().join(format!("mainspring-secrets-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(directory.join("folder")).expect("a folder");
    std::fs::write(directory.join("token"), "s3cret\r\n").expect("a file");
    std::fs::write(directory.join(".hidden"), "x").expect("a file");
    std::fs::write(directory.join("large"), "x".repeat((64 << 10) + 1)).expect("a file");
    std::fs::write(directory.join("bytes"), [0xff, 0xfe]).expect("a file");
    let named = NamedValues {
        config: Arc::new([("Smtp:Host".to_owned(), "mail.example".to_owned())].into()),
        secrets_dir: Some(Arc::new(directory.clone())),
    };
    for (script, expected) in [
        ("getConfig('Smtp:Host')", json!("mail.example")),
        ("getConfig('PATH') ?? 'none'", json!("none")),
        ("getSecret('token')", json!("s3cret")),
        (
            "(async () => 'Bearer ' + await getSecret('token'))()",
            json!("Bearer s3cret"),
        ),
        ("getSecret('missing').catch(e => 'refused')", json!("refused")),
    ] {
        assert_eq!(evaluate(&named, script).await.expect(script), expected, "{script}");
    }
    // Rotated: the next call reads the new one.
    std::fs::write(directory.join("token"), "new").expect("a file");
    assert_eq!(
        evaluate(&named, "getSecret('token')").await.expect("a secret"),
        json!("new")
    );
    for (name, part) in [
        ("missing", "no secret"),
        ("folder", "no secret"),
        (".hidden", "cannot name"),
        ("../token", "cannot name"),
        ("/etc/passwd", "cannot name"),
        ("", "cannot name"),
        ("a\\0b", "cannot name"),
        ("large", "64 KiB"),
        ("bytes", "as text"),
    ] {
        let error = evaluate(&named, &format!("getSecret('{name}')")).await.expect_err(name);
        assert_eq!(error.kind, Thrown, "{name}");
        assert!(error.message.contains(part), "{name}: {error}");
        assert!(
            !error.message.contains("s3cret") && !error.message.contains("new"),
            "{error}"
        );
    }
    std::fs::remove_dir_all(&directory).expect("removed");
    let error = evaluate(&NamedValues::default(), "getSecret('token')").await;
    assert!(error.expect_err("no directory").message.contains("secrets-dir"));
    assert!(!format!("{named:?}").contains("mail.example"));
}

/// What a script did decides, not its text.
#[tokio::test]
async fn a_script_that_received_a_secret_is_known() {
    let directory = std::env::temp_dir().join(format!("mainspring-secrets-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&directory).expect("a folder");
    std::fs::write(directory.join("token"), "s3cret").expect("a file");
    let named = NamedValues {
        config: Arc::default(),
        secrets_dir: Some(Arc::new(directory.clone())),
    };
    let engine = ScriptEngine::new(ScriptOptions {
        named,
        ..ScriptOptions::default()
    });
    let session = engine.session();
    for (script, reads) in [
        ("getSecret('token').then(() => 1)", true),
        ("globalThis['get' + 'Secret']('token')", true),
        ("Reflect.get(globalThis, ['get', 'Secret'].join(''))('token')", true),
        ("getSecret('token'); 1", true),
        ("'getSecret'", false),
        ("getSecret", false),
        ("getSecret('missing').catch(() => 1)", false),
        ("getConfig('token')", false),
        ("1", false),
    ] {
        let result = session.evaluate(script, ScriptScope::default()).await.expect(script);
        assert_eq!(result.may_hold_secret, reads, "{script}");
    }
    for script in [
        "(async () => { throw new Error(await getSecret('token')) })()",
        "(async () => { throw await getSecret('token') })()",
        "(async () => null[await getSecret('token')])()",
    ] {
        let error = session
            .evaluate(script, ScriptScope::default())
            .await
            .expect_err(script);
        assert!(
            !error.message.contains("s3cret") && error.message.contains("not kept"),
            "{error}"
        );
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}

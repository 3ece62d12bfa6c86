//! An engine whose program keeps all threads of its runtime: other nodes take over, the program is called, and the engine
//! comes back once the threads do.

use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::Duration;

use mainspring::{Engine, api};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::support::engine::{GateActivity, entered, gated, start_as};
use crate::support::{Http, wait_until};

async fn health_of(engine: &Engine) -> Http {
    let known = Arc::new(OnceLock::new());
    known.set(engine.clone()).ok().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(api::serve(
        listener,
        api::probe_router(known, None),
        std::future::pending(),
        Duration::ZERO,
    ));
    Http::new(&format!("http://{address}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_runtime_hangs_is_taken_over_and_comes_back() {
    let (other, count, permits) = gated().await;
    let url = other.database.url();
    let hangs = Arc::<Mutex<Vec<String>>>::default();
    let builder = Engine::builder(&url)
        .node_id("hung")
        .check_in(Duration::from_millis(200))
        .tolerance(Duration::from_secs(3))
        .activity(GateActivity {
            entered: Arc::default(),
            permits: Arc::new(Semaphore::new(0)),
        })
        .on_hang({
            let hangs = Arc::clone(&hangs);
            move |hang| hangs.lock().unwrap().push(hang.to_string())
        });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let engine = runtime.spawn(builder.start()).await.unwrap().unwrap();
    let client = other.database.connect().await;
    let registered = async || {
        client
            .count("SELECT max(incarnation) FROM mainspring.node WHERE node_id = 'hung'")
            .await
    };
    let before = registered().await;
    let dispatches = {
        let engine = engine.clone();
        async move { engine.dispatch(start_as("claimed", "gated")).await }
    };
    let started = runtime.spawn(dispatches).await.unwrap().unwrap();
    client
        .wait_for_rows(&format!("work WHERE claimed_by = {before}"), 1)
        .await;
    let health = health_of(&engine).await;
    health.get("/health/live").await.expect(200);
    health.get("/health/ready").await.expect(200);
    let release = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let release = Arc::clone(&release);
        runtime.spawn(async move {
            release.wait();
        });
    }
    health.readiness_becomes(503).await;
    let reason = "the threads of the runtime have not answered";
    wait_until("the engine to be found hung", async || engine.hang().is_some()).await;
    assert!(engine.hang().unwrap().to_string().starts_with(reason));
    let hung = health.get("/health/live").await.expect(503);
    assert!(hung["reason"].as_str().unwrap().starts_with(reason), "{hung}");
    assert_eq!(hung["status"], "hung");
    // The other node runs what it had claimed.
    entered(&count, 1).await;
    permits.add_permits(1);
    other.finishes(&started).await;
    assert!(hangs.lock().unwrap()[0].starts_with(reason), "{hangs:?}");
    assert_eq!(client.rows("crash").await, 0);
    // Its threads continue: it registers again, and works.
    tokio::task::spawn_blocking(move || release.wait()).await.unwrap();
    health.readiness_becomes(200).await;
    health.get("/health/live").await.expect(200);
    assert!(registered().await > before);
    assert_eq!(engine.hang(), None);
    engine.shutdown().await;
    runtime.shutdown_background();
    other.assert_clean_end().await;
}

//! Locks without workflows: one of two processes writes at a time, and its fencing tokens only grow.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example locks`

use std::time::Duration;

use mainspring::Result;
use mainspring::lock::{LockProvider, LockRequest, PostgresLockOptions, PostgresLocks};

/// Takes one lock by turns from two sessions; returns the fencing tokens in their order.
pub(crate) async fn run(url: &str) -> Result<Vec<u64>> {
    let first = PostgresLocks::connect(url, PostgresLockOptions::default()).await?;
    let second = PostgresLocks::connect(url, PostgresLockOptions::default()).await?;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        for (locks, other) in [(&first, &second), (&second, &first)] {
            let ledger = || LockRequest::exclusive("ledger");
            let handle = locks.acquire(ledger(), Duration::from_secs(10)).await?;
            assert!(other.try_acquire(ledger()).await?.is_none(), "one holder at a time");
            // A store that keeps the greatest token refuses the write of a holder that was paused.
            tokens.push(handle.fencing_token().await?.get());
        }
    }
    Ok(tokens)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    println!("{:?}", run(&url).await?);
    Ok(())
}

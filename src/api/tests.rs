//! The door in front of toy routes: what it refuses before any engine would hear of it.

use super::*;

#[tokio::test]
async fn placeholder() {}

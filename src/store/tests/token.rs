//! Tokens for one use.

use chrono::TimeDelta;

use crate::db::Pool;
use crate::id::TenantId;
use crate::store::token::{self, Spent};
use crate::testing::store::Fixture;

#[tokio::test]
async fn a_token_is_spent_once_before_it_expires() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 8).unwrap();
    let (tenant, now) = (TenantId::default(), token::clock(&pool).await.unwrap());
    let later = now + TimeDelta::seconds(30);
    let spends = (0..8).map(|_| token::spend(&pool, &tenant, "a", later));
    let spent = futures_util::future::join_all(spends).await;
    let count = |outcome| spent.iter().filter(|spent| *spent.as_ref().unwrap() == outcome).count();
    assert_eq!((count(Spent::Now), count(Spent::Before)), (1, 7));
    assert_eq!(token::spend(&pool, &tenant, "b", now).await.unwrap(), Spent::Expired);
    assert_eq!(token::spend(&pool, &tenant, "b", later).await.unwrap(), Spent::Now);
    fixture.is_sound().await;
}

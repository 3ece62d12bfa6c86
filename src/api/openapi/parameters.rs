//! Parameters and bodies shared by several areas, as the document shows them.
#![allow(dead_code, reason = "schemas")]

use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::id::InstanceId;

/// `page` and `pageSize`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(in crate::api) struct PageQuery {
    /// The number of the page, from 0.
    #[param(minimum = 0, maximum = 2147483647)]
    page: Option<u32>,
    /// The size of a page; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// `Idempotency-Key`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct IdempotencyKey {
    /// Makes a retry safe: the same key with the same request gets the first response again, for 24 hours.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    key: Option<String>,
}

/// A body without fields; it may be absent.
#[derive(ToSchema)]
pub(in crate::api) struct NoFields {}

/// The instance of a start that was accepted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct Started {
    /// Its id.
    pub(in crate::api) workflow_instance_id: InstanceId,
}

/// A number.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Count {
    /// How many there are.
    pub(in crate::api) count: u64,
}

/// A list that is sent whole.
#[derive(ToSchema)]
pub(in crate::api) struct Counted<T> {
    items: Vec<T>,
    /// The number of items.
    count: u64,
}

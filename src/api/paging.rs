//! PagedList: `page` (from 0) and `pageSize`, or `skip` and `take` where Elsa uses them.

use axum::Json;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::json;

use super::fields::Fields;
use crate::http::{ApiError, ApiResult};
use crate::runtime::Page;

/// The response with a page of a list.
pub(super) fn response(items: &[impl Serialize], total_count: u64) -> ApiResult {
    Ok(Json(json!({"items": items, "totalCount": total_count})).into_response())
}

/// The response of a list that no row can match.
pub(super) fn empty_response() -> ApiResult {
    response(&[(); 0], 0)
}

/// A range of rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowRange {
    pub(super) skip: u64,
    pub(super) take: u32,
}

/// `page` and `pageSize`; Elsa's default where one is absent.
pub(super) fn page(fields: &mut Fields) -> Result<Page, ApiError> {
    let page = fields.number("page", 0)?;
    let size = size(fields, "pageSize")?;
    Ok(Page {
        page: page.unwrap_or(0),
        page_size: size.unwrap_or(Page::default().page_size),
    })
}

/// `page` and `pageSize`, else `skip` and `take`, else the first 100 rows.
pub(super) fn row_range(fields: &mut Fields) -> Result<RowRange, ApiError> {
    let (page, page_size) = (fields.number("page", 0)?, size(fields, "pageSize")?);
    let (skip, take) = (fields.number("skip", 0)?, size(fields, "take")?);
    let default = Page::default().page_size;
    Ok(if page.is_some() || page_size.is_some() {
        let take = page_size.unwrap_or(default);
        RowRange {
            skip: u64::from(page.unwrap_or(0)) * u64::from(take),
            take,
        }
    } else {
        RowRange {
            skip: skip.unwrap_or(0).into(),
            take: take.unwrap_or(default),
        }
    })
}

/// The size of a page, if it is given.
pub(super) fn size(fields: &mut Fields, name: &str) -> Result<Option<u32>, ApiError> {
    match fields.number(name, 1)? {
        Some(size) if size > Page::MAX_SIZE => Err(ApiError::invalid_field(
            name,
            format!("{name} must be a whole number from 1 to {}.", Page::MAX_SIZE),
        )),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(query: &str) -> Fields {
        Fields::from_query(&format!("/x?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn pages_have_limits() {
        let page = |text| {
            page(&mut query(text))
                .map(|page| (page.page, page.page_size))
                .map_err(|error| error.status_and_code().1)
        };
        assert_eq!(page(""), Ok((0, 100)));
        assert_eq!(page("page=3&pageSize=7"), Ok((3, 7)));
        for bad in ["page=-1", "page=x", "pageSize=0", "pageSize=1001", "page=4294967296"] {
            assert_eq!(page(bad), Err("invalid-field"), "{bad}");
        }
    }

    #[test]
    fn ranges_are_given_as_pages_or_as_skip_and_take() {
        let row_range = |text| row_range(&mut query(text)).unwrap();
        assert_eq!(row_range(""), RowRange { skip: 0, take: 100 });
        assert_eq!(row_range("page=2&pageSize=10"), RowRange { skip: 20, take: 10 });
        assert_eq!(row_range("skip=5&take=3"), RowRange { skip: 5, take: 3 });
        assert_eq!(row_range("skip=5&take=3&page=1"), RowRange { skip: 100, take: 100 });
    }
}

//! The header `traceparent`: the trace of the caller.

use axum::http::HeaderMap;

use crate::runtime::TraceContext;

/// The trace that a request belongs to. What is no trace counts as none, as the standard says: it is never a reason to refuse
/// a request.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut headers = headers.get_all("traceparent").iter();
    let (Some(only), None) = (headers.next(), headers.next()) else {
        return None;
    };
    TraceContext::parse(only.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn one_header_names_the_trace_and_others_name_none() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("traceparent", value.parse().unwrap());
            }
            trace_of(&headers).map(|trace| trace.to_string())
        };
        assert_eq!(of(&[HEADER]).as_deref(), Some(HEADER));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["it is none"]), None);
        assert_eq!(of(&[HEADER, HEADER]), None);
    }
}

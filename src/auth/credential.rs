//! What a request shows of its caller, and why that is not good.

use axum::http::{HeaderMap, header};

use crate::Error;

/// What a request shows of its caller.
#[derive(Clone, Copy)]
pub(crate) enum Credential<'a> {
    /// `Authorization: ApiKey KEY`: the static key, or one of an application.
    ApiKey(&'a str),
    /// `Authorization: Bearer TOKEN`, or `access_token` in the query of the hub.
    Bearer(&'a str),
}

impl<'a> Credential<'a> {
    /// The credential of a request. `Ok(None)`: it has none.
    /// Errors: several, or one of another scheme.
    pub(crate) fn of(headers: &'a HeaderMap) -> Result<Option<Self>, Refusal> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refusal::Unknown);
        }
        let (scheme, text) = value
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .ok_or(Refusal::Unknown)?;
        let text = text.trim();
        if scheme.eq_ignore_ascii_case("ApiKey") {
            Ok(Some(Self::ApiKey(text)))
        } else if scheme.eq_ignore_ascii_case("Bearer") {
            Ok(Some(Self::Bearer(text)))
        } else {
            Err(Refusal::Unknown)
        }
    }
}

/// Why a credential is not good.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Nothing knows it: it is wrong, forged, revoked, or of another server.
    Unknown,
    /// It was good, and is no more.
    Expired,
    /// A good token in the place of another kind, such as a refresh token at a route.
    WrongUse,
    /// Whether it is good cannot be known now.
    Unavailable(Error),
}

impl Refusal {
    /// Why it cannot be known whether a credential is good.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Unavailable(error) => error,
            Self::Unknown | Self::Expired | Self::WrongUse => Error::internal("a credential was refused without one"),
        }
    }

    /// The word for it in metrics and in the audit.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "wrong",
            Self::Expired => "expired",
            Self::WrongUse => "wrong-use",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

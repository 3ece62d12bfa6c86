//! Status codes under .NET's names.

use serde_json::Value;

/// The status of a response, 200 to 599: lower ones are no response, higher ones are none of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusCode(u16);

/// The names of .NET's `HttpStatusCode`, the first of a code is the one that is offered.
const STATUS_NAMES: &[(&str, u16)] = &[
    ("OK", 200),
    ("Created", 201),
    ("Accepted", 202),
    ("NonAuthoritativeInformation", 203),
    ("NoContent", 204),
    ("ResetContent", 205),
    ("PartialContent", 206),
    ("MultiStatus", 207),
    ("AlreadyReported", 208),
    ("IMUsed", 226),
    ("MultipleChoices", 300),
    ("Ambiguous", 300),
    ("MovedPermanently", 301),
    ("Moved", 301),
    ("Found", 302),
    ("Redirect", 302),
    ("SeeOther", 303),
    ("RedirectMethod", 303),
    ("NotModified", 304),
    ("UseProxy", 305),
    ("Unused", 306),
    ("TemporaryRedirect", 307),
    ("RedirectKeepVerb", 307),
    ("PermanentRedirect", 308),
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("PaymentRequired", 402),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("NotAcceptable", 406),
    ("ProxyAuthenticationRequired", 407),
    ("RequestTimeout", 408),
    ("Conflict", 409),
    ("Gone", 410),
    ("LengthRequired", 411),
    ("PreconditionFailed", 412),
    ("RequestEntityTooLarge", 413),
    ("RequestUriTooLong", 414),
    ("UnsupportedMediaType", 415),
    ("RequestedRangeNotSatisfiable", 416),
    ("ExpectationFailed", 417),
    ("MisdirectedRequest", 421),
    ("UnprocessableEntity", 422),
    ("UnprocessableContent", 422),
    ("Locked", 423),
    ("FailedDependency", 424),
    ("UpgradeRequired", 426),
    ("PreconditionRequired", 428),
    ("TooManyRequests", 429),
    ("RequestHeaderFieldsTooLarge", 431),
    ("UnavailableForLegalReasons", 451),
    ("InternalServerError", 500),
    ("NotImplemented", 501),
    ("BadGateway", 502),
    ("ServiceUnavailable", 503),
    ("GatewayTimeout", 504),
    ("HttpVersionNotSupported", 505),
    ("VariantAlsoNegotiates", 506),
    ("InsufficientStorage", 507),
    ("LoopDetected", 508),
    ("NotExtended", 510),
    ("NetworkAuthenticationRequired", 511),
];

/// Whether a response with this status has no body.
pub(crate) fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

impl StatusCode {
    /// The status of a success.
    pub(crate) const OK: Self = Self(200);

    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The names that are offered: one for each status.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let mut before = 0;
        let names = STATUS_NAMES
            .iter()
            .filter(move |(_, code)| std::mem::replace(&mut before, *code) != *code);
        names.map(|(name, _)| *name)
    }

    /// Whether a response with it has no body.
    pub(crate) fn is_bodiless(self) -> bool {
        has_no_body(self.0)
    }

    /// Reads a name of .NET in any case, or a number; null is OK.
    /// Errors: what the value is not.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let number = match value {
            Value::Null => return Ok(Self::OK),
            Value::Number(number) => number.as_f64(),
            Value::String(text) => {
                let text = text.trim();
                let known = STATUS_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                known.map(|(_, code)| f64::from(*code)).or_else(|| text.parse().ok())
            }
            _ => None,
        };
        let whole = number.filter(|number| number.fract() == 0.0 && (200.0..=599.0).contains(number));
        let code = whole.and_then(|number| (200..=599).find(|code| f64::from(*code) == number));
        code.map(Self).ok_or_else(|| {
            format!("{value} is no status of a response; use a number from 200 to 599, or a name as OK or NotFound")
        })
    }
}

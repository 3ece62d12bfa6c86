//! Why a token is not taken.

use std::fmt;

/// Why a token of an issuer is not taken. No text quotes the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenProblem {
    /// It is no signed token, or has a header or a claim of a wrong form.
    Malformed(String),
    /// Its signature is not that of the key that it names.
    WrongSignature,
    /// The issuer has no such key.
    UnknownKey,
    /// It is for another program.
    WrongAudience,
    /// It is a token of another kind, such as an identity token in the place of an access token.
    WrongUse(String),
    /// It has expired.
    Expired,
    /// It is not valid yet, by more than the leeway.
    NotYetValid,
    /// It cannot be verified now.
    Unavailable(String),
}

impl fmt::Display for TokenProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(problem) | Self::WrongUse(problem) | Self::Unavailable(problem) => f.write_str(problem),
            Self::WrongSignature => f.write_str("its signature is wrong"),
            Self::UnknownKey => f.write_str("the issuer has no key of that name for that algorithm"),
            Self::WrongAudience => f.write_str("`aud` has none of the audiences of the settings"),
            Self::Expired => f.write_str("it has expired"),
            Self::NotYetValid => f.write_str("it is not valid yet"),
        }
    }
}

impl TokenProblem {
    pub(super) fn malformed(problem: impl Into<String>) -> Self {
        Self::Malformed(problem.into())
    }
}

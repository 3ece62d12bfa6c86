//! Where an instance stands, in Elsa's two words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Elsa's word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            /// Reads Elsa's word, in any case.
            fn from_str(text: &str) -> Result<Self, String> {
                $(if text.eq_ignore_ascii_case(stringify!($variant)) {
                    return Ok(Self::$variant);
                })*
                Err(format!("{text} is no {}", stringify!($name)))
            }
        }
    )*};
}

words! {
    /// Whether there is anything left to happen.
    Status {
        /// There is.
        Running,
        /// There is not.
        Finished,
    }

    /// More precisely.
    SubStatus {
        /// Nothing has happened yet.
        Pending,
        /// In the middle of it.
        Executing,
        /// It waits.
        Suspended,
        /// It came to its end.
        Finished,
        /// It was cancelled.
        Cancelled,
        /// An activity failed.
        Faulted,
    }
}

//! Elsa's status and sub-status of an instance.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Elsa's name.
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

            /// Reads Elsa's name, in any case.
            fn from_str(text: &str) -> Result<Self, String> {
                $(if text.eq_ignore_ascii_case(stringify!($variant)) {
                    return Ok(Self::$variant);
                })*
                Err(format!("{text} is not a {}", stringify!($name)))
            }
        }
    )*};
}

words! {
    /// Whether the instance has ended.
    Status {
        /// It has not.
        Running,
        /// It has.
        Finished,
    }

    /// The status in detail.
    SubStatus {
        /// No activity has been executed yet.
        Pending,
        /// Activities are being executed.
        Executing,
        /// It waits.
        Suspended,
        /// It has completed.
        Finished,
        /// It was cancelled.
        Cancelled,
        /// An activity has faulted.
        Faulted,
    }
}

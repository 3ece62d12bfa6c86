//! Mails: the client of a node for its SMTP server.
//!
//! Each mail goes over a connection of its own, of which a node has few at once. A mail is accepted by its server for all recipients
//! or for none. Nothing is sent again here: a server that has the whole mail, and whose answer is lost, may have accepted it.
//!
//! # Layout
//! `address`: an address, and what stands in a header · `client`: sends a mail, and knows whether the server is away · `session`:
//! one connection · `line_stream`: what comes below its encryption, within a bound · `reply_stream`: the replies as text ·
//! `server_url`: where the server is, and how it is reached · `options`: the settings · `mail_error`: why a mail is not sent.

mod address;
mod client;
mod line_stream;
mod mail_error;
mod options;
mod reply_stream;
mod server_url;
mod session;

pub(crate) use address::{address, one_line};
pub(crate) use client::MailClient;
pub(crate) use mail_error::{MailError, MailErrorKind};
pub use options::MailOptions;

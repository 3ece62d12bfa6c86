//! Settings of mails.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::secret_file::secret_file;
use crate::cli::elsa::ElsaEnvironment;
use crate::harness::secret::Secret;
use crate::harness::settings::{count, duration};
use crate::runtime::{EngineBuilder, MailOptions};

/// The SMTP server that takes the mails of workflows.
#[derive(Debug, Args)]
pub(crate) struct MailSettings {
    /// The server that takes the mails of workflows: `smtp://user:password@host:587`, which must offer STARTTLS,
    /// `smtps://user:password@host:465`, or without encryption and password `smtp://host:25?tls=none`
    #[arg(long, value_name = "URL")]
    smtp_url: Option<Secret>,
    /// A file with the smtp-url
    #[arg(long, value_name = "FILE", value_parser = secret_file, conflicts_with = "smtp_url")]
    smtp_url_file: Option<Secret>,
    /// A PEM file of authorities that are trusted besides those of the system
    #[arg(long, value_name = "FILE")]
    smtp_root_certificates: Option<PathBuf>,
    /// How long a mail may wait for one of the eight connections of this node and for memory, and then how long it may take to send it
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    smtp_timeout: Duration,
    /// The sender of mails that name none, such as `Shop <shop@example.org>`
    #[arg(long, value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// The size of all attachments of one mail, in MiB; at most 100
    #[arg(long, value_name = "MIB", default_value = "25", value_parser = count)]
    mail_attachment_mib: usize,
}

impl MailSettings {
    /// What sends mails; `None` without a server. The settings go before Elsa's environment.
    pub(crate) fn options(&self, elsa: &ElsaEnvironment) -> Option<MailOptions> {
        let given = self.smtp_url.clone().or_else(|| self.smtp_url_file.clone());
        let url = given.or_else(|| elsa.smtp_url())?;
        let mut options = MailOptions::new(url.reveal());
        let from = self.mail_from.as_deref().or_else(|| elsa.mail_from());
        options.from = from.map(str::to_owned);
        options.root_certificates.clone_from(&self.smtp_root_certificates);
        options.timeout = self.smtp_timeout;
        options.attachment_bytes = u64::try_from(self.mail_attachment_mib)
            .unwrap_or(u64::MAX)
            .saturating_mul(1 << 20);
        Some(options)
    }

    /// Has the engine send mails, if there is a server.
    pub(crate) fn apply(&self, elsa: &ElsaEnvironment, builder: EngineBuilder) -> EngineBuilder {
        match self.options(elsa) {
            Some(options) => builder.mail(options),
            None => builder,
        }
    }

    /// What the environment of a child process has, so that it sends mails as well.
    pub(crate) fn variables(&self, elsa: &ElsaEnvironment) -> Vec<(&'static str, String)> {
        let Some(options) = self.options(elsa) else {
            return Vec::new();
        };
        let roots = options.root_certificates.as_deref();
        let given = [
            ("MAINSPRING_SMTP_URL", Some(options.url)),
            (
                "MAINSPRING_SMTP_TIMEOUT",
                Some(format!("{}ms", options.timeout.as_millis())),
            ),
            (
                "MAINSPRING_SMTP_ROOT_CERTIFICATES",
                roots.map(|file| file.to_string_lossy().into_owned()),
            ),
            ("MAINSPRING_MAIL_FROM", options.from),
            (
                "MAINSPRING_MAIL_ATTACHMENT_MIB",
                Some(self.mail_attachment_mib.to_string()),
            ),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

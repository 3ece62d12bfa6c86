//! The environment of an Elsa server, as its documentation and Docker Compose files set it. A variable with an equivalent is
//! used unless a flag or `MAINSPRING_…` is given; the names of ignored variables are logged once, at startup.
//!
//! Names are case-insensitive, with `:` or `__` between their parts, as in .NET. Values are not logged, except log levels,
//! addresses and the name of a provider.

mod rabbitmq;
mod smtp;

use std::net::SocketAddr;

use clap::Command;

use super::public_url::public_url;
use crate::activity::http::base_path;
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;
use crate::harness::settings::duration;
use rabbitmq::RabbitVariables;
use smtp::SmtpVariables;

/// Names and prefixes that have no effect here, because there is nothing to choose.
const IGNORED: [&str; 9] = [
    "ASPNETCORE_ENVIRONMENT",
    "DOTNET_ENVIRONMENT",
    "ELSA__RUNTIME__TYPE",
    "CONNECTIONSTRINGS__RABBITMQ",
    "QUARTZ__",
    "REDIS__",
    "RABBITMQ__",
    "MASSTRANSIT__",
    "HANGFIRE__",
];

/// Prefixes of Elsa's settings; an unknown one causes a warning.
const ELSA_NAMES: [&str; 3] = ["ELSA__", "CONNECTIONSTRINGS__", "ASPNETCORE_HTTPS_PORTS"];

/// The modules that log locks and resumes, as Elsa's `WorkflowResumer` does.
const RUNTIME: [&str; 2] = ["mainspring::runtime", "mainspring::lock"];

/// The settings found in Elsa's variables.
#[derive(Debug, Default)]
pub(super) struct ElsaEnvironment {
    database_url: Option<Secret>,
    /// Where Redis is. It is used only if Redis is selected.
    redis_url: Option<Secret>,
    /// The variables that only matter with Redis.
    of_redis: Vec<String>,
    /// Where RabbitMQ is. Their names count as ignored unless RabbitMQ is selected, which no Elsa variable does.
    rabbitmq: RabbitVariables,
    /// Where the mail server is.
    smtp: SmtpVariables,
    /// Redis is selected for locks.
    locks_in_redis: bool,
    /// How long a lock outlives its holder, in seconds.
    lock_expiry: Option<u64>,
    /// The variable, and the address in it.
    listen: Option<(String, Result<SocketAddr, ()>)>,
    /// Where workflows are served: the variable and the path in it.
    http_base_path: Option<(String, Result<String, String>)>,
    /// Where clients reach the server.
    public_url: Option<(String, Result<String, String>)>,
    log: Option<String>,
    ignored: Vec<String>,
    warnings: Vec<String>,
}

impl ElsaEnvironment {
    /// The environment of this process, without variables that are not UTF-8.
    pub(super) fn of_process() -> Self {
        let all = std::env::vars_os();
        Self::of(all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
    }

    fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut found = Self::default();
        let mut logs = LogLevels::default();
        let mut listens = [None, None];
        let mut variables: Vec<(String, String, String)> = variables
            .into_iter()
            .map(|(name, value)| {
                (
                    name.to_ascii_uppercase().replace(':', "__"),
                    name,
                    unquoted(&value).to_owned(),
                )
            })
            .filter(|(_, _, value)| !value.is_empty())
            .collect();
        variables.sort();
        for (plain, name, value) in variables {
            found.rabbitmq.read(&plain, &name, &value);
            found.smtp.read(&plain, &value);
            match plain.as_str() {
                "CONNECTIONSTRINGS__POSTGRESQL" => found.database_url = Some(Secret::from(value)),
                "ASPNETCORE_URLS" => listens[0] = Some((name, value)),
                "ASPNETCORE_HTTP_PORTS" => listens[1] = Some((name, value)),
                "HTTP_PORTS" if listens[1].is_none() => listens[1] = Some((name, value)),
                "HTTP__BASEPATH" => found.http_base_path = Some((name, base_path(&value))),
                "HTTP__BASEURL" => found.public_url = Some((name, public_url(&value))),
                "ELSA__LOCKING__PROVIDER" => found.provider(name, &value),
                "CONNECTIONSTRINGS__REDIS" | "REDIS__CONNECTIONSTRING" => {
                    found.redis_url.get_or_insert(Secret::from(value));
                    found.of_redis.push(name);
                }
                "ELSA__LOCKING__EXPIRY_SECONDS" | "ELSA__LOCKING__EXPIRYSECONDS" => {
                    let is_sound = |seconds: &u64| duration(&format!("{seconds}s")).is_ok();
                    match value.parse().ok().filter(is_sound) {
                        Some(seconds) => found.lock_expiry = Some(seconds),
                        None => found
                            .warnings
                            .push(format!("{name} is not a number of seconds and has no effect")),
                    }
                    found.of_redis.push(name);
                }
                _ => match plain.strip_prefix("LOGGING__LOGLEVEL__") {
                    Some(category) if !logs.set(category, &value) => found.warnings.push(format!(
                        "{name} is not a known level (Trace, Debug, Information, Warning, Error, Critical, None)"
                    )),
                    Some(_) => {}
                    None if IGNORED.iter().any(|known| is_under(&plain, known)) => found.ignored.push(name),
                    None if ELSA_NAMES.iter().any(|known| is_under(&plain, known)) => {
                        found.warnings.push(format!("{name} is unknown and has no effect"));
                    }
                    None => {}
                },
            }
        }
        if !found.locks_in_redis {
            // A URL alone selects nothing.
            found.ignored.extend(found.of_redis.iter().cloned());
        }
        let [urls, ports] = listens;
        found.listen = match (urls, ports) {
            (Some((name, urls)), _) => found.first_url(name, &urls),
            (None, Some((name, ports))) => found.first_port(name, &ports),
            (None, None) => None,
        };
        found.log = logs.filter();
        found
    }

    fn provider(&mut self, name: String, value: &str) {
        if ["postgres", "postgresql", "pgsql"].contains(&value.to_ascii_lowercase().as_str()) {
            self.ignored.push(name);
        } else if cfg!(feature = "redis") && value.eq_ignore_ascii_case("redis") {
            self.locks_in_redis = true;
        } else {
            let value: String = value.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
            self.warnings.push(format!(
                "{name} asks for {value}; locks are kept in PostgreSQL, and nothing else is needed"
            ));
        }
    }

    /// The first address of `http://*:8080;https://…`. As in Kestrel, a name, `*` and `+` mean all addresses.
    fn first_url(&mut self, name: String, urls: &str) -> Option<(String, Result<SocketAddr, ()>)> {
        let mut plain = urls.split(';').map(str::trim).filter(|url| !url.is_empty());
        let first = plain
            .by_ref()
            .find(|url| url.to_ascii_lowercase().starts_with("http://"));
        if urls.to_ascii_lowercase().contains("https://") || plain.next().is_some() {
            self.warnings.push(format!(
                "{name}: only its first http address is used; terminate TLS at a proxy"
            ));
        }
        let authority = first?.get("http://".len()..)?.trim_end_matches('/');
        let address = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => port.parse().map(|port| at(host, port)).map_err(|_| ()),
            None => Ok(at(authority, 80)),
        };
        Some((name, address))
    }

    /// The first of `8080;8081`, on all addresses.
    fn first_port(&mut self, name: String, ports: &str) -> Option<(String, Result<SocketAddr, ()>)> {
        let mut each = ports.split([';', ',']).map(str::trim).filter(|port| !port.is_empty());
        let first = each.next()?;
        if each.next().is_some() {
            self.warnings.push(format!("{name}: only its first port is used"));
        }
        Some((name, first.parse().map(|port| at("*", port)).map_err(|_| ())))
    }

    /// Sets the defaults of the arguments, so that flags and `MAINSPRING_…` take precedence.
    pub(super) fn apply(&self, mut program: Command) -> Command {
        if let Some(log) = self.log.clone() {
            program = program.mut_arg("log", |argument| argument.default_value(leak(log)));
        }
        if self.locks_in_redis {
            program = program.mut_subcommand("serve", |serve| {
                serve.mut_arg("lock_provider", |argument| argument.default_value("redis"))
            });
        }
        // A flag may have selected Redis.
        if let Some(seconds) = self.lock_expiry {
            let expiry = leak(format!("{seconds}s"));
            program = program.mut_subcommand("serve", |serve| {
                serve.mut_arg("lock_expiry", |argument| argument.default_value(expiry))
            });
        }
        for (argument, value) in [
            ("http_base_path", &self.http_base_path),
            ("public_url", &self.public_url),
        ] {
            if let Some((_, Ok(value))) = value {
                let value = leak(value.clone());
                let set = |serve: Command| serve.mut_arg(argument, |argument| argument.default_value(value));
                program = program.mut_subcommand("serve", set);
            }
        }
        if let Some((_, Ok(listen))) = &self.listen {
            let listen = leak(listen.to_string());
            let set = |serve: Command| serve.mut_arg("listen", |argument| argument.default_value(listen));
            program = program.mut_subcommand("serve", set);
        }
        program
    }

    /// The database.
    pub(super) fn database_url(&self) -> Option<&Secret> {
        self.database_url.as_ref()
    }

    /// Where Redis is, if it is selected.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "nothing selects it"))]
    pub(super) fn redis_url(&self) -> Option<&Secret> {
        self.redis_url.as_ref()
    }

    /// Where RabbitMQ is, if it is selected.
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code, reason = "nothing selects it"))]
    pub(super) fn rabbitmq_url(&self) -> Option<Secret> {
        self.rabbitmq.url()
    }

    /// Where the mail server is.
    pub(super) fn smtp_url(&self) -> Option<Secret> {
        self.smtp.url()
    }

    /// The sender of mails that name none.
    pub(super) fn mail_from(&self) -> Option<&str> {
        self.smtp.from.as_deref()
    }

    /// Fails on an invalid address, and logs warnings and ignored variables. `serve` calls it once, after the log is set up.
    /// `uses_redis` and `uses_rabbitmq`: a flag may have selected them.
    pub(super) fn report(&self, uses_redis: bool, uses_rabbitmq: bool) -> Result<(), Failure> {
        if let Some((name, Err(()))) = &self.listen {
            return Err(Failure::usage(format!(
                "{name} is not valid: give http://*:8080 or a port"
            )));
        }
        for (name, value) in [&self.http_base_path, &self.public_url].into_iter().flatten() {
            if let Err(problem) = value {
                return Err(Failure::usage(format!("{name} is not valid: {problem}")));
            }
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        let is_used = |name: &String| {
            (uses_redis && self.of_redis.contains(name)) || (uses_rabbitmq && self.rabbitmq.names.contains(name))
        };
        let ignored = self.ignored.iter().filter(|name| !is_used(name));
        let ignored: Vec<&str> = ignored.map(String::as_str).collect();
        if !ignored.is_empty() {
            tracing::info!("ignored variables of Elsa: {}", ignored.join(", "));
        }
        Ok(())
    }
}

/// Escapes the characters that have a meaning in a URL, as in `%2F`.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Leaks a default value; there are few.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn is_under(name: &str, known: &str) -> bool {
    if known.ends_with("__") {
        name.starts_with(known)
    } else {
        name == known
    }
}

fn at(host: &str, port: u16) -> SocketAddr {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if host.eq_ignore_ascii_case("localhost") {
        SocketAddr::from(([127, 0, 0, 1], port))
    } else {
        let ip = bare.parse().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        SocketAddr::new(ip, port)
    }
}

/// Removes the quotes that a Compose file keeps in `- NAME="value"`.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    bare.unwrap_or(value).trim()
}

/// Levels by category, most general first.
#[derive(Default)]
struct LogLevels {
    default: Option<&'static str>,
    elsa: Option<&'static str>,
    runtime: Option<&'static str>,
}

impl LogLevels {
    /// Returns false for an unknown level. Categories of other libraries are ignored.
    fn set(&mut self, category: &str, level: &str) -> bool {
        let level = match level.to_ascii_lowercase().as_str() {
            "trace" => "trace",
            "debug" => "debug",
            "information" | "info" => "info",
            "warning" | "warn" => "warn",
            "error" | "critical" => "error",
            "none" => "off",
            _ => return false,
        };
        let category = category.replace(['.', '_'], "");
        if category == "DEFAULT" {
            self.default = Some(level);
        } else if category.starts_with("ELSAWORKFLOWSRUNTIME") {
            self.runtime = Some(level);
        } else if category.starts_with("ELSA") {
            self.elsa = Some(level);
        }
        true
    }

    fn filter(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.default.is_some() || self.elsa.is_some() || self.runtime.is_some() {
            parts.push(self.default.unwrap_or("info").to_owned());
        }
        parts.extend(self.elsa.map(|level| format!("mainspring={level}")));
        for module in RUNTIME {
            parts.extend(self.runtime.map(|level| format!("{module}={level}")));
        }
        (!parts.is_empty()).then(|| parts.join(","))
    }
}

#[cfg(test)]
mod tests;

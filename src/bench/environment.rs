//! The machine and the server of a measurement, which its result names.

use crate::Result;
use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::store::observe;

/// Describes the machine and the server, in a line each.
pub(super) async fn describe(url: &str) -> Result<[String; 2]> {
    // Any name: the schema need not exist.
    let connector = Connector::new(&DatabaseUrl::parse(url)?, &SchemaName::parse("mainspring")?)?;
    let settings = observe::server(&connector.open().await?.client).await?;
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok([
        format!("machine: {}", machine()),
        format!("server: {}", settings.join(", ")),
    ])
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let mut parts = vec![format!("{cores} cores")];
    parts.extend(field("/proc/cpuinfo", "model name"));
    parts.extend(field("/proc/meminfo", "MemTotal").map(|memory| format!("{memory} of memory")));
    parts.push(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    parts.join(", ")
}

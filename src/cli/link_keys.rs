//! `mainspring link-keys list | rotate | retire`: the keys that sign resume links, through the database alone.

use serde_json::json;

use super::settings::{Common, LinkKeysCommand};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime::{self, LinkKey};

pub(super) async fn run(common: &Common, command: &LinkKeysCommand) -> Result<(), Failure> {
    let (url, schema) = (common.database_url()?, common.schema.as_str());
    match command {
        LinkKeysCommand::List(settings) => {
            let keys = runtime::link_keys(&url, schema).await?;
            if settings.json {
                print_line(&json!({"items": keys, "count": keys.len()}).to_string());
            } else {
                keys.iter().for_each(|key| print_line(&line(key)));
            }
        }
        LinkKeysCommand::Rotate => print_line(&line(&runtime::rotate_link_key(&url, schema).await?)),
        LinkKeysCommand::Retire(settings) => {
            runtime::retire_link_key(&url, schema, settings.id, settings.force).await?;
            print_line(&format!("the key {} verifies no link any more", settings.id));
        }
    }
    Ok(())
}

fn line(key: &LinkKey) -> String {
    let made = key.created_at.format("%Y-%m-%dT%H:%M:%SZ");
    let what = match key.is_newest {
        true => "signs new links, or will within a minute",
        false => "verifies its links",
    };
    format!("{}  made {made}  {what}", key.id)
}

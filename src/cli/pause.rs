//! `mainspring pause | resume | status`: the pause of the cluster, through the database alone.

use super::settings::{ClusterStatus, Common, PauseCommand};
use crate::activity::printable;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime::{self, RuntimeStatus};

/// `mainspring pause`
pub(super) async fn pause(common: &Common, settings: &PauseCommand) -> Result<(), Failure> {
    let (url, reason) = (common.database_url()?, settings.reason.as_deref());
    let status = runtime::pause_cluster(&url, &common.schema, reason, &operator(), settings.force_drain).await?;
    print_line(&line(&status));
    Ok(())
}

/// `mainspring resume`
pub(super) async fn resume(common: &Common) -> Result<(), Failure> {
    let status = runtime::resume_cluster(&common.database_url()?, &common.schema, &operator()).await?;
    print_line(&line(&status));
    Ok(())
}

/// `mainspring status`: exit code 1 while the cluster is paused.
pub(super) async fn status(common: &Common, settings: &ClusterStatus) -> Result<(), Failure> {
    let status = runtime::cluster_status(&common.database_url()?, &common.schema).await?;
    if settings.json {
        let text = serde_json::to_string(&status);
        print_line(&text.map_err(|error| Failure::failed(format!("the status cannot be written: {error}")))?);
    } else {
        print_line(&line(&status));
    }
    if status.state.is_accepting_new_work {
        Ok(())
    } else {
        Err(Failure::reported())
    }
}

/// Who runs the program, as far as the environment says.
fn operator() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let user: String = user
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(100)
        .collect();
    if user.is_empty() {
        "command line".to_owned()
    } else {
        format!("{user} at the command line")
    }
}

fn line(status: &RuntimeStatus) -> String {
    let (state, bursts) = (&status.state, status.active_execution_cycle_count);
    if state.is_accepting_new_work {
        return format!("running; {bursts} bursts are under way");
    }
    let mut text = if state.drain_started_at.is_some() {
        "draining".to_owned()
    } else {
        "paused".to_owned()
    };
    if let Some(at) = state.paused_at {
        text.push_str(&format!(" since {}", at.format("%Y-%m-%dT%H:%M:%SZ")));
    }
    if let Some(by) = &state.pause_requested_by {
        text.push_str(&format!(" by {by}"));
    }
    if let Some(reason) = &state.pause_reason_text {
        text.push_str(&format!(": {reason}"));
    }
    text.push_str(&format!("; {bursts} bursts are under way"));
    // A client gave the reason.
    printable(&text).into_owned()
}

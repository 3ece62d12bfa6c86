//! What operators see: the metrics of a running node, and the alerts and dashboards on them.

mod alerts;
mod served;
mod table;

//! What operators see: the metrics of a running node.

mod served;
mod table;

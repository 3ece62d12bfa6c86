//! Promise 2. One instance, one writer.

mod activation;
mod cancel;
mod cancel_and_delete;
mod expired_node;
mod resumes;
mod variables;

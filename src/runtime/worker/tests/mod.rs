//! What a worker does apart from its database.

mod instructions;

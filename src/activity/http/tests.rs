//! What a request brings, what an endpoint requires of it, and how values are written.

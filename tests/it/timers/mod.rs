//! Promise 3. A delay fires once, and so does each occurrence of a schedule.

mod backlog;
mod faults;
mod kill;
mod schedules;

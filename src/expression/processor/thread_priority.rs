//! The priority of a thread, which another thread may lower.

/// A thread, as the operating system knows it. It must be running when its priority is lowered: ids are used again.
#[derive(Clone, Copy, Debug)]
pub(in crate::expression) struct ThreadPriority {
    #[cfg(target_os = "linux")]
    id: rustix::thread::Pid,
}

/// The lowest priority: the thread runs where a processor is idle, and has a seventieth of one where none is.
#[cfg(target_os = "linux")]
const LOWEST: i32 = 19;

impl ThreadPriority {
    /// Of the current thread.
    pub(in crate::expression) fn current() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: rustix::thread::gettid(),
        }
    }

    /// Lowers it for good: without privileges no thread can raise it. Has no effect on other systems than Linux, where
    /// priorities are those of processes.
    #[cfg(target_os = "linux")]
    pub(in crate::expression) fn lower(self) {
        if let Err(error) = rustix::process::setpriority_process(Some(self.id), LOWEST) {
            tracing::debug!(%error, "the priority of a thread cannot be lowered");
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(in crate::expression) fn lower(self) {
        let _ = self;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn the_priority_of_one_thread_is_lowered() {
        let (sender, receiver) = mpsc::channel();
        let (done, lowered) = mpsc::channel::<()>();
        let priority = |of: ThreadPriority| rustix::process::getpriority_process(Some(of.id)).unwrap();
        let other = thread::spawn(move || {
            sender.send(ThreadPriority::current()).unwrap();
            lowered.recv().unwrap();
        });
        let (own, other_thread) = (ThreadPriority::current(), receiver.recv().unwrap());
        let before = priority(own);
        other_thread.lower();
        assert_eq!((priority(other_thread), priority(own)), (LOWEST, before));
        done.send(()).unwrap();
        other.join().unwrap();
    }
}

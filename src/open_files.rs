//! How many files this process may have open (`ulimit -n`).

/// The soft limit; none if there is no limit, or it cannot be read. Reads a file.
pub(crate) fn limit() -> Option<usize> {
    limit_in(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default())
}

/// The limit in the text of `/proc/self/limits`.
fn limit_in(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_read() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max open files            1024                 524288               files     \n";
        assert_eq!(limit_in(table), Some(1024));
        assert_eq!(limit_in(&table.replace("1024 ", "unlimited ")), None);
        assert_eq!(limit_in(""), None);
    }
}

//! Statements with parts that are left out where there is nothing for them: what the server does to begin with a part, it
//! does also for no rows. Each part stands between a line `--[name` and a line `--]`, so that the file shows the whole statement;
//! some parts exclude each other.

/// The text without the parts that `has` says no to.
pub(crate) fn with_parts(whole: &str, has: impl Fn(&str) -> bool) -> String {
    let mut text = String::with_capacity(whole.len());
    let mut left_out = false;
    for line in whole.lines() {
        match line.trim_start().split_once("--[") {
            Some(("", part)) => left_out = !has(part),
            _ if line.trim_start() == "--]" => left_out = false,
            _ if left_out => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_parts;

    #[test]
    fn what_is_not_wanted_is_left_out() {
        let whole = "SELECT 1\n  --[one\n  , 2\n  --]\n--[two\n, 3 -- a comment --[one\n--]\nFROM t";
        assert_eq!(with_parts(whole, |part| part == "one"), "SELECT 1\n  , 2\nFROM t\n");
        assert_eq!(
            with_parts(whole, |part| part == "two"),
            "SELECT 1\n, 3 -- a comment --[one\nFROM t\n"
        );
    }
}

//! Statements with optional parts, because a part costs the server time even without rows. Each part is between a line
//! `--[name` and a line `--]`, so that the file shows the whole statement; some parts exclude each other.

/// The text with only those parts for which `has` is true.
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
    fn only_the_chosen_parts_are_kept() {
        let whole = "SELECT 1\n  --[one\n  , 2\n  --]\n--[two\n, 3 -- a comment --[one\n--]\nFROM t";
        assert_eq!(with_parts(whole, |part| part == "one"), "SELECT 1\n  , 2\nFROM t\n");
        assert_eq!(
            with_parts(whole, |part| part == "two"),
            "SELECT 1\n, 3 -- a comment --[one\nFROM t\n"
        );
    }
}

//! The texts that users, roles and applications may have.

use crate::{Error, Result};

/// The longest name, in bytes.
const LONGEST_NAME: usize = 255;
/// The longest id of a role and the longest permission, in bytes.
const LONGEST_WORD: usize = 100;
/// The most roles of one user or application.
const MOST_ROLES: usize = 50;
/// The most permissions of one role.
const MOST_PERMISSIONS: usize = 200;

/// The shortest password, in characters, and the longest one, in bytes.
const SHORTEST_PASSWORD: usize = 8;
pub(super) const LONGEST_PASSWORD: usize = 1024;

fn invalid(field: &str, wrong: &str) -> Error {
    Error::invalid("invalid-identity", format!("{field} {wrong}")).field(field, wrong)
}

/// A name, without what surrounds it.
pub(super) fn name(text: &str) -> Result<&str> {
    let name = text.trim();
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(invalid("name", "must have 1 to 255 bytes, without control characters"));
    }
    Ok(name)
}

/// A tenant; empty for the default one.
pub(super) fn check_tenant(text: &str) -> Result<()> {
    if text.len() > LONGEST_NAME || text.trim() != text || text.chars().any(char::is_control) {
        return Err(invalid(
            "tenant",
            "must have at most 255 bytes, without control characters and surrounding white space",
        ));
    }
    Ok(())
}

/// A password that a person chose.
pub(super) fn check_password(password: &str) -> Result<()> {
    if password.chars().count() < SHORTEST_PASSWORD || password.len() > LONGEST_PASSWORD {
        return Err(invalid(
            "password",
            "must have at least 8 characters and at most 1024 bytes",
        ));
    }
    // A login takes it without what surrounds it, as Elsa does.
    if password.trim() != password {
        return Err(invalid("password", "must neither begin nor end with white space"));
    }
    Ok(())
}

/// The ids of the roles of a user or application, each once.
pub(super) fn roles(given: Vec<String>) -> Result<Vec<String>> {
    let mut roles: Vec<String> = Vec::with_capacity(given.len());
    for role in given {
        if !roles.contains(&role) {
            roles.push(role);
        }
        if roles.len() > MOST_ROLES {
            return Err(invalid("roles", "must be at most 50"));
        }
    }
    Ok(roles)
}

/// The id of a role.
pub(super) fn role_id(id: &str) -> Result<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if id.is_empty() || id.len() > LONGEST_WORD || !id.chars().all(is_plain) {
        return Err(invalid("id", "must have 1 to 100 letters, digits or -._"));
    }
    Ok(id)
}

/// The id of a role that is given none: its name in kebab case, as Elsa has it.
pub(super) fn kebab(name: &str) -> String {
    let mut id = String::with_capacity(name.len());
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && was_lower {
                id.push('-');
            }
            id.push(c.to_ascii_lowercase());
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    id.trim_end_matches('-').to_owned()
}

/// The permissions of a role, sorted, each once.
pub(super) fn permissions(mut given: Vec<String>) -> Result<Vec<String>> {
    given.sort_unstable();
    given.dedup();
    let is_plain = |text: &String| {
        !text.is_empty()
            && text.len() <= LONGEST_WORD
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
    };
    if given.len() > MOST_PERMISSIONS {
        return Err(invalid("permissions", "must be at most 200"));
    }
    if !given.iter().all(is_plain) {
        return Err(invalid(
            "permissions",
            "must each have 1 to 100 visible ASCII characters without a comma, such as read:workflow-definitions",
        ));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_role_is_its_name_in_kebab_case() {
        for (name, id) in [
            ("Workflow Author", "workflow-author"),
            ("WorkflowAuthor", "workflow-author"),
            ("  Ops -- Team 2 ", "ops-team-2"),
            ("HR", "hr"),
            ("admin", "admin"),
            ("été", "t"),
            ("!!!", ""),
        ] {
            assert_eq!(kebab(name), id, "{name}");
        }
    }

    #[test]
    fn texts_are_bounded_and_plain() {
        assert_eq!(name(" Ann ").unwrap(), "Ann");
        for wrong in ["", "  ", "a\nb", &"x".repeat(256)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
        assert!(check_password("12345678").is_ok() && check_password("1234567").is_err());
        assert!(check_password(&"x".repeat(1025)).is_err() && check_password(" 12345678").is_err());
        assert!(role_id("a.b-c_1").is_ok() && role_id("").is_err() && role_id("a b").is_err() && role_id("é").is_err());
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(permissions(texts(&["b", "a", "b"])).unwrap(), ["a", "b"]);
        for wrong in ["", "a b", "a,b", "é"] {
            assert!(permissions(texts(&[wrong])).is_err(), "{wrong}");
        }
        assert_eq!(roles(texts(&["x", "y", "x"])).unwrap(), ["x", "y"]);
        assert!(roles((0..51).map(|number| number.to_string()).collect()).is_err());
    }
}

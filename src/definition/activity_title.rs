//! How a message names an activity for the author of its definition.

use std::fmt::{self, Write as _};

use super::RawActivity;

/// The most characters of each part that a message shows.
const LONGEST: usize = 80;

/// What an author sees of an activity: `"Send mail" (Elsa.WriteLine)`. The name is the one that the designer shows; an
/// activity without one is named by its id. The id of one with a name is where the error has its details: authors do not
/// see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivityTitle<'a> {
    name: Option<&'a str>,
    type_name: &'a str,
    id: &'a str,
    shows_id: bool,
}

impl<'a> ActivityTitle<'a> {
    pub(crate) fn new(name: Option<&'a str>, type_name: &'a str, id: &'a str) -> Self {
        Self {
            name: name.filter(|name| !name.trim().is_empty()),
            type_name,
            id,
            shows_id: false,
        }
    }

    /// Of an activity as JSON, by this id if it has none itself.
    pub(crate) fn of(raw: RawActivity<'a>, id: &'a str) -> Self {
        Self::new(raw.display_text().or_else(|| raw.name()), raw.type_name(), id)
    }

    /// The id by which the details of an error name the activity.
    pub(crate) fn id(&self) -> &'a str {
        self.id
    }

    /// The same without the type, for a message that states it.
    pub(crate) fn without_type(self) -> Self {
        Self { type_name: "", ..self }
    }

    /// The same with the id in any case, for an activity that the details of an error do not name.
    pub(crate) fn with_id(self) -> Self {
        Self { shows_id: true, ..self }
    }
}

impl fmt::Display for ActivityTitle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => {
                f.write_char('"')?;
                shown(f, name)?;
                f.write_char('"')?;
            }
            None => shown(f, self.id)?,
        }
        let id = (self.shows_id && self.name.is_some()).then_some(self.id);
        let behind: [&str; 2] = [self.type_name, id.unwrap_or_default()];
        let mut separator = " (";
        for part in behind.into_iter().filter(|part| !part.is_empty()) {
            f.write_str(separator)?;
            shown(f, part)?;
            separator = ", ";
        }
        f.write_str(if separator == ", " { ")" } else { "" })
    }
}

/// The beginning of a text, in one line.
fn shown(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut characters = text.chars();
    for character in characters.by_ref().take(LONGEST) {
        f.write_char(if character.is_control() { ' ' } else { character })?;
    }
    match characters.next() {
        Some(_) => f.write_char('…'),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn title(activity: &Value) -> String {
        ActivityTitle::of(RawActivity::new(activity).unwrap(), "a1").to_string()
    }

    #[test]
    fn an_activity_has_the_name_that_the_designer_shows() {
        let named = json!({"type": "Elsa.WriteLine", "name": "WriteLine1", "metadata": {"displayText": "Send mail"}});
        assert_eq!(title(&named), "\"Send mail\" (Elsa.WriteLine)");
        let named = json!({"type": "Elsa.WriteLine", "name": "WriteLine1", "metadata": {"displayText": " "}});
        assert_eq!(title(&named), "\"WriteLine1\" (Elsa.WriteLine)");
        for unnamed in [
            json!({"type": "Elsa.WriteLine"}),
            json!({"type": "Elsa.WriteLine", "name": "", "metadata": {"displayText": 5}}),
        ] {
            assert_eq!(title(&unnamed), "a1 (Elsa.WriteLine)");
        }
        assert_eq!(title(&json!({})), "a1");
    }

    #[test]
    fn the_id_of_a_named_activity_is_shown_on_request() {
        let title = |name| ActivityTitle::new(name, "Elsa.Delay", "a1");
        assert_eq!(title(Some("Wait")).with_id().to_string(), "\"Wait\" (Elsa.Delay, a1)");
        assert_eq!(title(None).with_id().to_string(), "a1 (Elsa.Delay)");
        assert_eq!(title(Some("Wait")).without_type().to_string(), "\"Wait\"");
        let bare = title(Some("Wait")).without_type().with_id();
        assert_eq!(bare.to_string(), "\"Wait\" (a1)");
    }

    #[test]
    fn only_the_beginning_of_a_name_is_shown_in_one_line() {
        let long = "é".repeat(81);
        let shown = ActivityTitle::new(Some(&long), "T", "a").to_string();
        assert_eq!(shown, format!("\"{}…\" (T)", "é".repeat(80)));
        assert_eq!(ActivityTitle::new(Some("a\nb"), "T", "a").to_string(), "\"a b\" (T)");
    }
}

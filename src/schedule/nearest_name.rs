//! The names that somebody may have meant.

/// No name of a zone is longer; what is longer is nobody's slip.
const LONGEST: usize = 64;

/// Up to three of the names, the likeliest first. Case does not matter, nor whether a space or an underscore is
/// written, and the part after the last `/` may stand for the whole.
pub(super) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let wanted = plain(wanted);
    let mut near: Vec<(usize, String)> = names
        .filter_map(|name| {
            let whole = plain(&name);
            let city = whole.rsplit('/').next().unwrap_or(&whole);
            let away = distance(&wanted, &whole).min(distance(&wanted, city));
            // A third of the letters may be wrong.
            (away * 3 <= wanted.len()).then_some((away, name))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}

/// How many letters must be put in, left out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (b, cell) in b.chars().zip(row.iter_mut().skip(1)) {
            let change = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = change.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_changes() {
        for (a, b, away) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(a, b), away, "{a} {b}");
        }
    }

    #[test]
    fn the_likeliest_comes_first() {
        let names = ["Europe/Berlin", "Europe/Bern", "Europe/Dublin", "America/New_York"];
        let near = |wanted| nearest(wanted, names.iter().map(|name| (*name).to_owned()));
        assert_eq!(near("berlin").first().unwrap(), "Europe/Berlin");
        assert_eq!(near("Europe/Berlinn").first().unwrap(), "Europe/Berlin");
        assert_eq!(near("new york"), ["America/New_York"]);
        assert!(near("Mars/Olympus").is_empty());
        assert!(near(&"x".repeat(10_000)).is_empty());
    }
}

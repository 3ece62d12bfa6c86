//! The names that a misspelt name may mean.

/// Longer than any name of a zone; a longer text is not compared.
const MAX_LENGTH: usize = 64;

/// The most names that are compared: more than there are zones.
const MOST_NAMES: usize = 1_000;

/// Up to three of the names, the most similar first. Case does not matter, nor whether a space or an underscore is
/// written, and the part after the last `/` is compared, too.
pub(crate) fn similar_names(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    if wanted.is_empty() || wanted.len() > MAX_LENGTH {
        return Vec::new();
    }
    let wanted = normalised(wanted);
    let mut near: Vec<(usize, String)> = names
        .filter(|name| name.len() <= 4 * MAX_LENGTH)
        .take(MOST_NAMES)
        .filter_map(|name| {
            let whole = normalised(&name);
            let city = whole.rsplit('/').next().unwrap_or(&whole);
            let edits = distance(&wanted, &whole).min(distance(&wanted, city));
            // A third of the letters may be wrong.
            (edits * 3 <= wanted.len()).then_some((edits, name))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

fn normalised(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}

/// The edit distance: insertions, deletions, replacements, and swaps of neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let changed = at(&last, j) + usize::from(letter != other);
            let mut least = changed.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let is_swapped = i > 0 && j > 0 && a.get(i - 1) == Some(other) && b.get(j - 1) == Some(letter);
            if is_swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
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
            ("txet", "text", 1),
            ("ab", "ba", 1),
        ] {
            assert_eq!(distance(a, b), away, "{a} {b}");
        }
    }

    #[test]
    fn the_most_similar_name_is_first() {
        let names = ["Europe/Berlin", "Europe/Bern", "Europe/Dublin", "America/New_York"];
        let near = |wanted| similar_names(wanted, names.iter().map(|name| (*name).to_owned()));
        assert_eq!(near("berlin").first().unwrap(), "Europe/Berlin");
        assert_eq!(near("Europe/Berlinn").first().unwrap(), "Europe/Berlin");
        assert_eq!(near("new york"), ["America/New_York"]);
        assert!(near("Mars/Olympus").is_empty());
        assert!(near(&"x".repeat(10_000)).is_empty());
    }
}

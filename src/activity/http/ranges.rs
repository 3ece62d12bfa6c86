//! Parts of a file: what `Range` and the conditional header fields of a request make of an answer.

/// What a client gets of an answer that may be given in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePart {
    /// The answer as it is.
    Whole,
    /// 206 with `Content-Range: bytes first-last/length`, and these bytes.
    Range { first: u64, last: u64 },
    /// 416 with `Content-Range: bytes */length`, without a body.
    NotSatisfiable,
    /// 412 without a body: the file is another one than the client has.
    Failed,
    /// 304 without a body: the client has the file.
    NotModified,
    /// 400: a field cannot be read. Names it.
    Malformed(&'static str),
}

/// The header fields of a request that decide, if it has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions<'r> {
    pub(crate) range: Option<&'r str>,
    pub(crate) if_range: Option<&'r str>,
    pub(crate) if_match: Option<&'r str>,
    pub(crate) if_none_match: Option<&'r str>,
}

/// Whether an answer may be given in parts: it says so itself, by `Accept-Ranges: bytes`, so that a kept one does, too.
pub(crate) fn is_divisible(status: u16, headers: &[(String, String)]) -> bool {
    let says_so = |(name, value): &(String, String)| name.eq_ignore_ascii_case("accept-ranges") && value == "bytes";
    status == 200 && headers.iter().any(says_so)
}

/// The part of an answer of `length` bytes with this entity tag. Several ranges are answered with the whole, as the field allows.
pub(crate) fn file_part(length: u64, e_tag: Option<&str>, conditions: &Conditions<'_>) -> FilePart {
    if let Some(wanted) = conditions.if_match {
        match matches(wanted, e_tag, false) {
            None => return FilePart::Malformed("If-Match"),
            Some(false) => return FilePart::Failed,
            Some(true) => {}
        }
    }
    if let Some(known) = conditions.if_none_match
        && matches(known, e_tag, true) == Some(true)
    {
        return FilePart::NotModified;
    }
    let Some(range) = conditions.range else {
        return FilePart::Whole;
    };
    let wanted = match read_range(range) {
        Ok(wanted) => wanted,
        Err(()) => return FilePart::Malformed("Range"),
    };
    // A date is none that an answer here has, so it is another file.
    if let Some(known) = conditions.if_range
        && (e_tag.is_none() || e_tag != Some(known.trim()) || known.trim_start().starts_with("W/"))
    {
        return FilePart::Whole;
    }
    match wanted {
        Wanted::Other => FilePart::Whole,
        Wanted::From(first, last) if first < length => FilePart::Range {
            first,
            last: last.unwrap_or(u64::MAX).min(length - 1),
        },
        Wanted::Last(count) if count > 0 && length > 0 => FilePart::Range {
            first: length.saturating_sub(count),
            last: length - 1,
        },
        Wanted::From(..) | Wanted::Last(_) => FilePart::NotSatisfiable,
    }
}

enum Wanted {
    From(u64, Option<u64>),
    /// So many bytes from the end.
    Last(u64),
    /// Several ranges, or another unit than bytes.
    Other,
}

fn read_range(text: &str) -> Result<Wanted, ()> {
    let (unit, ranges) = text.split_once('=').ok_or(())?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if unit.trim().is_empty() || !unit.trim().chars().all(is_token) {
        return Err(());
    }
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ok(Wanted::Other);
    }
    let mut read = ranges.split(',').map(|range| read_one(range.trim()));
    let first = read.next().ok_or(())??;
    let mut others = read.peekable();
    if others.peek().is_none() {
        return Ok(first);
    }
    others.try_for_each(|other| other.map(drop))?;
    Ok(Wanted::Other)
}

fn read_one(text: &str) -> Result<Wanted, ()> {
    let number = |text: &str| match text {
        text if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => Err(()),
        // A number of more digits is beyond every file.
        text => Ok(text.parse().unwrap_or(u64::MAX)),
    };
    match text.split_once('-').ok_or(())? {
        ("", last) => Ok(Wanted::Last(number(last)?)),
        (first, "") => Ok(Wanted::From(number(first)?, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                Err(())
            } else {
                Ok(Wanted::From(first, Some(last)))
            }
        }
    }
}

/// Whether one of the entity tags of a field is that of the file; `None` if the field cannot be read. `is_weak`: also a tag matches
/// that says only that a file means the same.
fn matches(field: &str, e_tag: Option<&str>, is_weak: bool) -> Option<bool> {
    if field.trim() == "*" {
        return Some(e_tag.is_some());
    }
    let own = e_tag.map(|tag| tag.strip_prefix("W/").unwrap_or(tag));
    let is_own_weak = own != e_tag;
    let mut rest = field.trim();
    let mut found = false;
    while !rest.is_empty() {
        let (weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let inner = tag.strip_prefix('"')?;
        let end = inner.find('"')?;
        let tag = tag.get(..end + 2)?;
        found |= own == Some(tag) && (is_weak || !(weak || is_own_weak));
        rest = inner.get(end + 1..)?.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(rest) => rest.trim_start(),
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_or_named() {
        let range = |first, last| FilePart::Range { first, last };
        for (field, expected) in [
            ("bytes=0-0", range(0, 0)),
            ("bytes=0-", range(0, 9)),
            ("bytes=3-5", range(3, 5)),
            ("Bytes=3-500", range(3, 9)),
            ("bytes=-4", range(6, 9)),
            ("bytes=-400", range(0, 9)),
            ("bytes=9-99999999999999999999", range(9, 9)),
            ("bytes=10-", FilePart::NotSatisfiable),
            ("bytes=-0", FilePart::NotSatisfiable),
            ("bytes=0-1,4-5", FilePart::Whole),
            ("lines=1-2", FilePart::Whole),
            ("bytes", FilePart::Malformed("Range")),
            ("bytes=", FilePart::Malformed("Range")),
            ("bytes=5-3", FilePart::Malformed("Range")),
            ("bytes=a-b", FilePart::Malformed("Range")),
            ("bytes=0-1,x", FilePart::Malformed("Range")),
            ("=0-1", FilePart::Malformed("Range")),
        ] {
            let conditions = Conditions {
                range: Some(field),
                ..Conditions::default()
            };
            assert_eq!(file_part(10, None, &conditions), expected, "{field}");
        }
        assert_eq!(
            file_part(
                0,
                None,
                &Conditions {
                    range: Some("bytes=0-"),
                    ..Conditions::default()
                }
            ),
            FilePart::NotSatisfiable
        );
    }

    #[test]
    fn an_entity_tag_decides_first() {
        let of = |if_match, if_none_match, if_range| Conditions {
            range: Some("bytes=0-1"),
            if_range,
            if_match,
            if_none_match,
        };
        let cut = FilePart::Range { first: 0, last: 1 };
        for (conditions, expected) in [
            (of(Some("\"a\""), None, None), cut),
            (of(Some("\"b\", \"a\""), None, None), cut),
            (of(Some("*"), None, None), cut),
            (of(Some("\"b\""), None, None), FilePart::Failed),
            (of(Some("W/\"a\""), None, None), FilePart::Failed),
            (of(Some("a"), None, None), FilePart::Malformed("If-Match")),
            (of(Some("\"a"), None, None), FilePart::Malformed("If-Match")),
            (of(None, Some("\"a\""), None), FilePart::NotModified),
            (of(None, Some("W/\"a\""), None), FilePart::NotModified),
            (of(None, Some("\"b\""), None), cut),
            (of(None, None, Some("\"a\"")), cut),
            (of(None, None, Some("\"b\"")), FilePart::Whole),
            (of(None, None, Some("Wed, 21 Oct 2015 07:28:00 GMT")), FilePart::Whole),
        ] {
            assert_eq!(file_part(10, Some("\"a\""), &conditions), expected, "{conditions:?}");
        }
        assert_eq!(file_part(10, None, &of(Some("\"a\""), None, None)), FilePart::Failed);
        for (conditions, expected) in [
            (of(Some("W/\"a\""), None, None), FilePart::Failed),
            (of(None, Some("\"a\""), None), FilePart::NotModified),
            (of(None, Some("W/\"a\""), None), FilePart::NotModified),
            (of(None, None, Some("W/\"a\"")), FilePart::Whole),
        ] {
            let part = file_part(10, Some("W/\"a\""), &conditions);
            assert_eq!(part, expected, "a weak tag: {conditions:?}");
        }
    }
}

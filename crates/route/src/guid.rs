//! Guids in the five forms that .NET's `Guid.TryParse` reads.

/// The digits between the dashes.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Whether a text is a Guid: digits alone, with dashes, in braces, in parentheses, or as a structure of hexadecimal numbers.
pub(crate) fn is_guid(text: &str) -> bool {
    let text = text.trim();
    let within = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(inner) = within('(', ')') {
        return is_dashed(inner);
    }
    if let Some(inner) = within('{', '}') {
        return is_dashed(inner) || is_structure(inner);
    }
    is_dashed(text) || (text.len() == 32 && is_hex(text))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_dashed(text: &str) -> bool {
    let mut groups = text.split('-');
    let fit = GROUPS.iter().all(|length| {
        groups
            .next()
            .is_some_and(|group| group.len() == *length && is_hex(group))
    });
    fit && groups.next().is_none()
}

/// `0x…,0x…,0x…,{0x…,0x…,0x…,0x…,0x…,0x…,0x…,0x…}`, with white space wherever it is.
fn is_structure(text: &str) -> bool {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((numbers, bytes)) = text.strip_suffix('}').and_then(|text| text.split_once(",{")) else {
        return false;
    };
    let is_list = |list: &str, widths: &[usize]| {
        let mut parts = list.split(',');
        let fit = widths.iter().all(|width| {
            let digits = parts
                .next()
                .and_then(|part| part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")));
            digits.is_some_and(|digits| (1..=*width).contains(&digits.len()) && is_hex(digits))
        });
        fit && parts.next().is_none()
    };
    is_list(numbers, &[8, 4, 4]) && is_list(bytes, &[2; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_have_five_forms() {
        for (text, expected) in [
            ("d2719b1e-9a1c-4d2b-8c3f-0123456789ab", true),
            ("D2719B1E9A1C4D2B8C3F0123456789AB", true),
            ("{d2719b1e-9a1c-4d2b-8c3f-0123456789ab}", true),
            ("(d2719b1e-9a1c-4d2b-8c3f-0123456789ab)", true),
            (" d2719b1e-9a1c-4d2b-8c3f-0123456789ab ", true),
            (
                "{0xd2719b1e,0x9a1c,0x4d2b,{0x8c,0x3f,0x01,0x23,0x45,0x67,0x89,0xab}}",
                true,
            ),
            (
                "{0xd2719b1e, 0x9a1c, 0x4d2b, {0x8c,0x3f,0x1,0x23,0x45,0x67,0x89,0xab}}",
                true,
            ),
            ("{0xd2719b1e,0x9a1c,0x4d2b,{0x8c,0x3f,0x01}}", false),
            ("{d2719b1e-9a1c-4d2b-8c3f-0123456789ab)", false),
            ("{D2719B1E9A1C4D2B8C3F0123456789AB}", false),
            ("d2719b1e-9a1c-4d2b-8c3f-0123456789a", false),
            ("d2719b1e-9a1c-4d2b-8c3f-0123456789ag", false),
            ("d2719b1e9a1c-4d2b-8c3f-0123456789ab-", false),
            ("", false),
        ] {
            assert_eq!(is_guid(text), expected, "{text}");
        }
    }
}

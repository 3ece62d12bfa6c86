//! A stable sort whose comparisons can fail.

use std::cmp::Ordering;

/// Sorts stably, with about `n log n` comparisons. Any order will do, also an inconsistent one, and memory for a copy of the
/// list is needed.
///
/// # Errors
/// The first error of a comparison, which ends the sort: the list is in no order then.
pub fn merge_sort<T: Clone, E>(
    list: &mut Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering, E>,
) -> Result<(), E> {
    let mut width = 1;
    while width < list.len() {
        let mut merged = Vec::with_capacity(list.len());
        for pair in list.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                let takes_right = compare(a, b)? == Ordering::Greater;
                merged.extend(if takes_right { right.next() } else { left.next() }.cloned());
            }
            merged.extend(left.cloned());
            merged.extend(right.cloned());
        }
        *list = merged;
        width *= 2;
    }
    Ok(())
}

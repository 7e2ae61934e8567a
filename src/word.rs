//! Looking at eight bytes at a time.
//!
//! A word holds eight bytes of a text, the first one lowest. What is found is marked by the high bit
//! of its byte; above the first mark, marks mean nothing.

/// The bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// The high bit of each byte.
pub(crate) const HIGH: u64 = all(0x80);

/// A word of equal bytes.
pub(crate) const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD])
}

/// Marks the bytes of `word` that are less than `limit`, which is at most 0x80.
const fn less(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(all(limit)) & !word & HIGH
}

/// Marks the bytes of `word` that are `byte`, which is ASCII.
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    less(word ^ all(byte), 1)
}

/// Where the first mark stands.
pub(crate) const fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Where the first CR or LF stands.
pub(crate) fn line_end(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*word);
        let ends = equal(word, b'\n') | equal(word, b'\r');
        if ends != 0 {
            return Some(text.len() - rest.len() + first(ends));
        }
        rest = after;
    }
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    end.map(|end| text.len() - rest.len() + end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_mark_is_right_for_every_byte_in_every_place() {
        for byte in 0..=255u8 {
            for at in 0..WORD {
                // Neighbours that a borrow could reach.
                for other in [0x20, 0x21, b'"', b'#', 0x7f, 0x80, 0xa2, 0xff] {
                    let mut text = [other; WORD];
                    text[at] = byte;
                    let word = u64::from_le_bytes(text);
                    let found = |marks| (marks != 0).then(|| first(marks));
                    let quote = text.iter().position(|&it| it == b'"');
                    let small = text.iter().position(|&it| it < 0x21);
                    assert_eq!(found(equal(word, b'"')), quote, "{text:?}");
                    assert_eq!(found(less(word, 0x21)), small, "{text:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn line_ends_are_found(text in "[a\r\né]{0,40}") {
            let naive = text.bytes().position(|it| matches!(it, b'\r' | b'\n'));
            prop_assert_eq!(line_end(text.as_bytes()), naive);
        }
    }
}

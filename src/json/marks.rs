//! Finding the bytes that end a plain run of a string, 64 bytes at a time.
//!
//! Strings of JSON are short, and to look for the end of each costs more than to read it. So a
//! whole block is looked at once, and a bit says of each byte whether it is special. Written
//! without branches on arrays of a fixed length, for the compiler to use vectors.

use crate::word::{self, WORD};

/// The bytes of a block: one for each bit of a mark.
pub(super) const BLOCK: usize = 64;

/// The block that `text` begins with. What is missing of the `last` one, which is zero before, stays
/// zero: a control byte.
pub(super) fn block<'a>(text: &'a [u8], last: &'a mut [u8; BLOCK]) -> &'a [u8; BLOCK] {
    text.first_chunk().unwrap_or_else(|| {
        last[..text.len()].copy_from_slice(text);
        last
    })
}

/// Marks quotes, backslashes and control bytes, the first byte of the block lowest.
pub(super) fn special(block: &[u8; BLOCK]) -> u64 {
    mark(block, is_special)
}

/// Marks quotes.
pub(super) fn quotes(block: &[u8; BLOCK]) -> u64 {
    mark(block, |byte| byte == b'"')
}

/// Marks backslashes.
pub(super) fn backslashes(block: &[u8; BLOCK]) -> u64 {
    let is_backslash = |byte: u8| byte == b'\\';
    // There hardly ever are any, and to know that is cheaper.
    if has(block, is_backslash) {
        mark(block, is_backslash)
    } else {
        0
    }
}

/// Marks the brackets and braces that open or close.
pub(super) fn brackets(block: &[u8; BLOCK]) -> u64 {
    mark(block, |byte| matches!(byte | 0x20, b'{' | b'}'))
}

/// Marks all bytes from an odd mark to the one before the next: what is inside of quotes.
pub(super) fn between(marks: u64) -> u64 {
    let mut inside = marks;
    for shift in [1, 2, 4, 8, 16, 32] {
        inside ^= inside << shift;
    }
    inside
}

/// Marks what stands behind a backslash that is not escaped itself.
///
/// `carry` says whether the first byte is escaped, and then whether that behind the last one is.
pub(super) fn escaped(backslashes: u64, carry: &mut bool) -> u64 {
    let mut escaped = u64::from(*carry);
    let mut left = backslashes & !escaped;
    *carry = false;
    while left != 0 {
        let at = left.trailing_zeros();
        let behind = 1_u64.checked_shl(at + 1).unwrap_or(0);
        *carry = behind == 0;
        escaped |= behind;
        left &= left - 1;
        left &= !behind;
    }
    escaped
}

#[inline]
fn has(block: &[u8; BLOCK], wanted: impl Fn(u8) -> bool) -> bool {
    let bytes = block.iter();
    bytes.fold(false, |found, &byte| found | wanted(byte))
}

#[inline]
fn mark(block: &[u8; BLOCK], wanted: impl Fn(u8) -> bool) -> u64 {
    let mut marks = [0; BLOCK];
    for ((mark, bit), &byte) in marks.iter_mut().zip(BITS).zip(block) {
        *mark = if wanted(byte) { bit } else { 0 };
    }
    // A byte of each eight bytes has a bit of its own: together they are one byte.
    let words = marks.chunks_exact(WORD).enumerate();
    words.fold(0, |all, (at, word)| {
        let gathered = as_word(word).wrapping_mul(word::all(1)) >> 56;
        all | gathered << (at * WORD)
    })
}

/// Whether one of a block's bytes is special.
pub(super) fn has_special(block: &[u8; BLOCK]) -> bool {
    has(block, is_special)
}

/// Whether one of a block's bytes is not ASCII.
pub(super) fn has_non_ascii(block: &[u8; BLOCK]) -> bool {
    let words = block.chunks_exact(WORD).map(as_word);
    words.fold(0, |all, word| all | word) & word::HIGH != 0
}

fn is_special(byte: u8) -> bool {
    // A quote changes places with a blank, and so is next to the control bytes.
    (byte ^ 0x02) < 0x21 || byte == b'\\'
}

fn as_word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

const BITS: [u8; BLOCK] = {
    let mut bits = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        bits[at] = 1 << (at % 8);
        at += 1;
    }
    bits
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_byte_is_marked_or_not_wherever_it_stands() {
        for byte in 0..=255 {
            for at in 0..BLOCK {
                // Neighbours that a carry could reach.
                for other in [b' ', b'!', b'#', b'[', b']', b'x', 0x7f, 0xff] {
                    let mut block = [other; BLOCK];
                    block[at] = byte;
                    let expected = matches!(byte, 0..0x20 | b'"' | b'\\');
                    assert_eq!(
                        special(&block),
                        u64::from(expected) << at,
                        "{byte:#x} at {at}"
                    );
                    assert_eq!(has_special(&block), expected, "{byte:#x} at {at}");
                    assert_eq!(
                        has_non_ascii(&block),
                        byte > 127 || other > 127,
                        "{byte:#x} at {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn brackets_are_marked_and_their_neighbours_are_not() {
        for byte in 0..=255 {
            let block = [byte; BLOCK];
            let all = |yes| if yes { u64::MAX } else { 0 };
            assert_eq!(brackets(&block), all(b"[]{}".contains(&byte)), "{byte:#x}");
            assert_eq!(quotes(&block), all(byte == b'"'), "{byte:#x}");
            assert_eq!(backslashes(&block), all(byte == b'\\'), "{byte:#x}");
        }
    }

    #[test]
    fn a_mark_opens_and_the_next_one_closes() {
        assert_eq!(between(0b0010_0010), 0b0001_1110);
        assert_eq!(between(1 << 63), 1 << 63);
        assert_eq!(between(1), u64::MAX);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_so_across_blocks(backslashes in any::<u64>(), more in any::<u64>(), first: bool) {
            // Many in a row are likelier than chance makes them.
            let backslashes = [backslashes | backslashes << 1 | backslashes >> 3, more | more >> 1];
            let (mut carry, mut naive) = (first, first);
            for block in backslashes {
                let found = escaped(block, &mut carry);
                for at in 0..64 {
                    prop_assert_eq!(found >> at & 1 == 1, naive);
                    naive = !naive && block >> at & 1 == 1;
                }
            }
            prop_assert_eq!(carry, naive);
        }

        #[test]
        fn marks_are_right_side_by_side(block in proptest::collection::vec(any::<u8>(), BLOCK)) {
            let block = <[u8; BLOCK]>::try_from(block).unwrap();
            let marks = special(&block);
            for (at, byte) in block.into_iter().enumerate() {
                let expected = matches!(byte, 0..0x20 | b'"' | b'\\');
                prop_assert_eq!(marks >> at & 1 == 1, expected, "{}", byte);
            }
        }
    }
}

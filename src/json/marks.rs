//! Finding the bytes that end a plain run of a string, 64 bytes at a time.
//!
//! Strings of JSON are short, and to look for the end of each costs more than to read it. So a
//! whole block is looked at once, and a bit says of each byte whether it is special. Written
//! without branches on arrays of a fixed length, for the compiler to use vectors.

use crate::word::{self, WORD};

/// The bytes of a block: one for each bit of a mark.
pub(super) const BLOCK: usize = 64;

/// Marks quotes, backslashes and control bytes, the first byte of the block lowest.
pub(super) fn special(block: &[u8; BLOCK]) -> u64 {
    let mut marks = [0; BLOCK];
    for ((mark, bit), &byte) in marks.iter_mut().zip(BITS).zip(block) {
        *mark = if is_special(byte) { bit } else { 0 };
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
    block.iter().fold(false, |found, &byte| found | is_special(byte))
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
                    assert_eq!(special(&block), u64::from(expected) << at, "{byte:#x} at {at}");
                    assert_eq!(has_special(&block), expected, "{byte:#x} at {at}");
                    assert_eq!(has_non_ascii(&block), byte > 127 || other > 127, "{byte:#x} at {at}");
                }
            }
        }
    }

    proptest! {
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

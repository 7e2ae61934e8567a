//! Whole numbers in JSON's spelling, read exactly and in linear time.
//!
//! `42`, `42.0` and `4.2e1` are one integer. None of them goes through floating point, which
//! would make neighbours of large numbers equal.

/// Whether a number that follows JSON's grammar is whole: `1`, `1.0`, `1.5e1`, not `1.5`.
pub(crate) fn is_integer(number: &[u8]) -> bool {
    let unsigned = number.strip_prefix(b"-").unwrap_or(number);
    let (mantissa, power) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&unsigned[..at], power(&unsigned[at + 1..])),
        None => (unsigned, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let digits = || whole.iter().chain(fraction).rev();
    let zeros = digits().take_while(|&&digit| digit == b'0').count();
    let length = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    zeros == digits().count() || power - length(fraction.len()) + length(zeros) >= 0
}

/// Reads the digits behind `e`; a power too large for an `i64` stays far out of reach.
fn power(text: &[u8]) -> i64 {
    // Leaves room to add and subtract the length of any text.
    const FAR: i64 = i64::MAX / 4;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    let power = digits.iter().fold(0i64, |power, digit| {
        power
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
            .min(FAR)
    });
    if negative { -power } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers_however_they_are_spelt() {
        let zeros = "0".repeat(5_000);
        for text in [
            "0", "-0", "0.0", "0e-9", "1", "-7", "1.0", "1.50e1", "1E400", "100e-2",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain([
            format!("1{zeros}e-5000"),
            format!("1.{zeros}"),
            format!("1e{zeros}1"),
        ]) {
            assert!(is_integer(text.as_bytes()), "{text:.40}");
        }
    }

    #[test]
    fn fractions_are_no_integers() {
        let nines = "9".repeat(5_000);
        for text in ["1.5", "-0.1", "1e-1", "10.01e1", "1e-9223372036854775809"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("1e-{nines}")])
        {
            assert!(!is_integer(text.as_bytes()), "{text:.40}");
        }
    }
}

//! Whole numbers in JSON's spelling, read exactly and in linear time.
//!
//! `42`, `42.0` and `4.2e1` are one integer. None of them goes through floating point, which
//! would make neighbours of large numbers equal.

use crate::json::{Cursor, Kind};

/// The largest integer that every JSON reader keeps: 2^53 - 1.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// Whether `text` follows JSON's grammar for numbers, with nothing around it.
pub(crate) fn is_number(text: &[u8]) -> bool {
    Cursor::new(text)
        .value()
        .is_ok_and(|value| value.kind == Kind::Number && value.span() == (0..text.len()))
}

/// Whether a number that follows JSON's grammar is whole: `1`, `1.0`, `1.5e1`, not `1.5`.
pub(crate) fn is_integer(number: &[u8]) -> bool {
    // Almost all are digits, and nothing else.
    number.iter().all(u8::is_ascii_digit) || Decimal::read(number).is_whole()
}

/// The value of a number that follows JSON's grammar, where it is whole and of at most 53 bits.
// rule P3
pub(crate) fn safe_integer(number: &[u8]) -> Option<i64> {
    const DIGITS: usize = 16;
    let decimal = Decimal::read(number);
    if decimal.length == 0 {
        return Some(0);
    }
    let zeros = usize::try_from(decimal.power).ok()?;
    if decimal.length.checked_add(zeros)? > DIGITS {
        return None;
    }
    let digits = decimal.digits().copied();
    let zeros = std::iter::repeat_n(b'0', zeros);
    // Sixteen digits fit.
    let size = digits
        .chain(zeros)
        .fold(0, |size, digit| size * 10 + i64::from(digit - b'0'));
    let value = if decimal.negative { -size } else { size };
    (size <= MAX_SAFE).then_some(value)
}

/// A number as a row of digits, the outer ones of which are not zero, and a power of ten.
struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// How many zeros lead the digits of `whole` and `fraction`.
    leading: usize,
    /// How many digits follow those, up to the last one that is not zero.
    length: usize,
    /// The place of the last of these digits.
    power: i64,
}

impl<'a> Decimal<'a> {
    fn read(number: &'a [u8]) -> Self {
        let (negative, unsigned) = match number {
            [b'-', unsigned @ ..] => (true, unsigned),
            _ => (false, number),
        };
        let (mantissa, power) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], power(&unsigned[at + 1..])),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let not_zero = |&digit: &u8| digit != b'0';
        let all = whole.len() + fraction.len();
        let leading = match whole.iter().position(not_zero) {
            Some(at) => at,
            None => whole.len() + fraction.iter().take_while(|it| !not_zero(it)).count(),
        };
        let trailing = match fraction.iter().rposition(not_zero) {
            Some(at) => fraction.len() - at - 1,
            None => fraction.len() + whole.iter().rev().take_while(|it| !not_zero(it)).count(),
        };
        let signed = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        Self {
            negative,
            whole,
            fraction,
            leading,
            length: all.saturating_sub(leading + trailing),
            power: power - signed(fraction.len()) + signed(trailing),
        }
    }

    /// The digits between the outer zeros.
    fn digits(&self) -> impl Iterator<Item = &'a u8> {
        let digits = self.whole.iter().chain(self.fraction);
        digits.skip(self.leading).take(self.length)
    }

    fn is_whole(&self) -> bool {
        self.length == 0 || self.power >= 0
    }
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
    use proptest::prelude::*;

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
            assert_eq!(safe_integer(text.as_bytes()), None, "{text:.40}");
        }
    }

    // rule P3
    #[test]
    fn safe_integers_are_read_however_they_are_spelt() {
        let zeros = "0".repeat(5_000);
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0e7", 0),
            ("0e99999999999999999999", 0),
            ("42", 42),
            ("42.0", 42),
            ("4.2e1", 42),
            ("4.2E+01", 42),
            ("0.0042e4", 42),
            ("-4200e-2", -42),
            ("10", 10),
            ("9007199254740991", MAX_SAFE),
            ("-9007199254740991", -MAX_SAFE),
            ("9007199254740991.00", MAX_SAFE),
            ("0.9007199254740991e16", MAX_SAFE),
            ("9e15", 9_000_000_000_000_000),
        ]
        .map(|(text, value)| (text.to_owned(), value))
        .into_iter()
        .chain([
            (format!("42{zeros}e-5000"), 42),
            (format!("42.{zeros}"), 42),
            (format!("0.{zeros}42e5002"), 42),
            (format!("42e{zeros}"), 42),
            (format!("42e-{zeros}"), 42),
            (format!("0.{zeros}"), 0),
            (format!("0e{zeros}9"), 0),
        ]) {
            assert_eq!(safe_integer(text.as_bytes()), Some(value), "{text:.40}");
        }
    }

    // rule P3
    #[test]
    fn what_53_bits_do_not_hold_is_not_safe() {
        let nines = "9".repeat(5_000);
        for text in [
            "9007199254740992",
            "-9007199254740992",
            "9007199254740993",
            "9007199254740991.5",
            "9999999999999999",
            "10000000000000000",
            "1e16",
            "1e400",
            "1E9223372036854775807",
            "18446744073709551658",
            "36893488147419103274",
            &nines,
            &format!("1e{nines}"),
        ] {
            assert_eq!(safe_integer(text.as_bytes()), None, "{text:.40}");
        }
    }

    #[test]
    fn numbers_follow_the_grammar_of_json() {
        for text in ["0", "-0", "42", "42.0", "4.2e1", "1E+05"] {
            assert!(is_number(text.as_bytes()), "{text}");
        }
        for text in [
            "", "+42", "0x2A", " 42", "42 ", "042", "42.", ".5", "1e", "4_2", "NaN", "-", "42,42",
            "\"42\"", "true", "[42]", "４２",
        ] {
            assert!(!is_number(text.as_bytes()), "{text}");
        }
    }

    /// Moves the point through the digits, one place a step, as one would on paper.
    fn on_paper(negative: bool, whole: &str, fraction: &str, power: i32) -> Option<i64> {
        let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
        for _ in 0..power {
            if fraction.is_empty() {
                fraction.push('0');
            }
            whole.push(fraction.remove(0));
        }
        for _ in power..0 {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
        if fraction.contains(|digit| digit != '0') {
            return None;
        }
        let digits = whole.trim_start_matches('0');
        let (shown, limit) = (format!("{digits:0>400}"), format!("{MAX_SAFE:0>400}"));
        if shown > limit {
            return None;
        }
        let size: i64 = digits.parse().unwrap_or(0);
        Some(if negative { -size } else { size })
    }

    proptest! {
        // rule P3
        #[test]
        fn the_oracle_reads_the_same_integers(
            negative: bool,
            whole in "0|[1-9][0-9]{0,17}|[1-9][0-9]{0,3}0{0,20}",
            fraction in "|[0-9]{1,18}|0{1,30}[1-9]?",
            power in prop_oneof![Just(None), (-40i32..40).prop_map(Some)],
        ) {
            let sign = if negative { "-" } else { "" };
            let point = if fraction.is_empty() { "" } else { "." };
            let exponent = power.map_or(String::new(), |power| format!("e{power}"));
            let text = format!("{sign}{whole}{point}{fraction}{exponent}");
            prop_assert!(is_number(text.as_bytes()));
            let expected = on_paper(negative, &whole, &fraction, power.unwrap_or(0));
            prop_assert_eq!(safe_integer(text.as_bytes()), expected, "{}", text);
        }

        // rule P3
        #[test]
        fn every_spelling_of_a_safe_integer_is_read(
            value in -MAX_SAFE..=MAX_SAFE,
            zeros in 0usize..40,
            shift in 0usize..40,
        ) {
            let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs().to_string());
            let padding = "0".repeat(zeros);
            let small = format!("{}{digits}", "0".repeat(shift));
            for text in [
                format!("{sign}{digits}.{padding}0"),
                format!("{sign}{digits}{padding}e-{zeros}"),
                format!("{sign}0.{small}{padding}E+{}", small.len()),
            ] {
                prop_assert_eq!(safe_integer(text.as_bytes()), Some(value), "{}", text);
            }
        }
    }
}

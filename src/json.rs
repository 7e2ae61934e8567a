//! Reading JSON in one pass, without building it.
//!
//! A [`Cursor`] walks a text once and tells where values stand; nothing is copied, nothing is
//! recursive, and what a caller does not ask for is only checked against the grammar, or, in answers,
//! [not even that](Cursor::unread_value). One reader serves requests and answers, so both have one
//! meaning.
//!
//! The text is bytes: whether they are UTF-8 is asked once, at the end, and only where a byte of
//! 0x80 or above was seen.
//!
//! Grammar: [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259).

mod marks;

use std::{borrow::Cow, iter, ops::Range};

use self::marks::BLOCK;

/// The text breaks the grammar of JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// The longest text that is read, in bytes; a longer one counts as malformed.
///
/// Four bytes say where a value stands in it, so that a message with all its values stays small.
const LONGEST: usize = u32::MAX as usize;

/// A value and where it stands in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    start: u32,
    end: u32,
    pub(crate) kind: Kind,
}

/// What a [`Value`] is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Array,
    False,
    Null,
    Number,
    Object,
    /// A string; `escaped` if it holds a backslash.
    String {
        escaped: bool,
    },
    True,
}

impl Value {
    #[allow(clippy::cast_possible_truncation)] // no text is longer than LONGEST
    fn new(start: usize, end: usize, kind: Kind) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
            kind,
        }
    }

    /// Where the value stands.
    pub(crate) fn span(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// What is between the quotes, brackets or braces.
    pub(crate) fn inside(self) -> Range<usize> {
        self.start as usize + 1..self.end as usize - 1
    }

    /// The string in `text`, where this is one.
    pub(crate) fn string(self, text: &[u8]) -> Option<Text<'_>> {
        match self.kind {
            Kind::String { escaped } => Some(Text {
                raw: &text[self.inside()],
                escaped,
            }),
            _ => None,
        }
    }

    /// Whether this is the string `expected`.
    pub(crate) fn is_string(self, text: &[u8], expected: impl AsRef<[u8]>) -> bool {
        self.string(text).is_some_and(|string| string.is(expected))
    }
}

/// The inside of a string, as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// The string as it was written: with a backslash in it, if it has escapes.
    pub(crate) fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Whether the string reads `expected` once its escapes are resolved.
    pub(crate) fn is(self, expected: impl AsRef<[u8]>) -> bool {
        let expected = expected.as_ref();
        if self.escaped {
            let decoded = self.decode();
            decoded.is_some_and(|decoded| decoded.as_bytes() == expected)
        } else {
            self.raw == expected
        }
    }

    /// The string as bytes, to compare with names; one with a lone surrogate equals none of them.
    pub(crate) fn name(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        match self.decode() {
            Some(Cow::Owned(decoded)) => Cow::Owned(decoded.into_bytes()),
            _ => Cow::Borrowed(self.raw),
        }
    }

    /// The string with its escapes resolved; `None` if it holds a lone surrogate or is not UTF-8.
    pub(crate) fn decode(self) -> Option<Cow<'a, str>> {
        let raw = std::str::from_utf8(self.raw).ok()?;
        if !self.escaped {
            return Some(Cow::Borrowed(raw));
        }
        let mut decoded = String::with_capacity(raw.len());
        decode_into(raw, &mut decoded)?;
        Some(Cow::Owned(decoded))
    }

    /// The string as bytes, with its escapes resolved in `scratch`; `None` if it holds a lone
    /// surrogate.
    ///
    /// For who looks at many strings: an escaped one costs no allocation.
    pub(crate) fn bytes<'b>(self, scratch: &'b mut String) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.escaped {
            return Some(self.raw);
        }
        scratch.clear();
        decode_into(std::str::from_utf8(self.raw).ok()?, scratch)?;
        Some(scratch.as_bytes())
    }
}

/// Resolves the escapes of a string; `None` for a lone surrogate.
fn decode_into(raw: &str, decoded: &mut String) -> Option<()> {
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        decoded.push_str(plain);
        let (unescaped, after) = unescape(escape)?;
        decoded.push(unescaped);
        rest = after;
    }
    decoded.push_str(rest);
    Some(())
}

/// Resolves the escape that stands behind a backslash; `None` for a lone surrogate.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let unescaped = match escape.as_bytes().first()? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = u16::from_str_radix(escape.get(1..5)?, 16).ok()?;
            if let Some(unescaped) = char::from_u32(first.into()) {
                return Some((unescaped, &escape[5..]));
            }
            let second = escape
                .get(5..)
                .and_then(|rest| rest.strip_prefix("\\u"))
                .and_then(|digits| u16::from_str_radix(digits.get(..4)?, 16).ok());
            let units = iter::once(first).chain(second);
            let unescaped = char::decode_utf16(units).next()?.ok()?;
            return Some((unescaped, &escape[11..]));
        }
        &same => char::from(same),
    };
    Some((unescaped, &escape[1..]))
}

/// A place in a JSON text, before which all that was read is well-formed.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    non_ascii: bool,
    /// Where the block ends that was looked at last.
    marked: usize,
    /// Its special bytes.
    marks: u64,
}

impl<'a> Cursor<'a> {
    /// Stands before `text`.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text: if text.len() > LONGEST { b"" } else { text },
            at: 0,
            non_ascii: false,
            marked: 0,
            marks: 0,
        }
    }

    /// Passes `length` bytes that are not JSON.
    pub(crate) fn skip(&mut self, length: usize) {
        self.at += length;
    }

    /// Whether a value that was passed is a string without lone surrogates.
    pub(crate) fn is_well_formed(&self, value: Value) -> bool {
        match value.kind {
            // That it is UTF-8 shows at the end.
            Kind::String { escaped: false } => true,
            _ => value
                .string(self.text)
                .is_some_and(|string| string.decode().is_some()),
        }
    }

    /// Whether an object or an array that was passed holds nothing.
    pub(crate) fn is_empty(&self, value: Value) -> bool {
        self.text[value.inside()].trim_ascii().is_empty()
    }

    /// Passes a value and tells where it stood.
    pub(crate) fn value(&mut self) -> Result<Value, Malformed> {
        let opening = self.peek().ok_or(Malformed)?;
        let start = self.at;
        let kind = match opening {
            b'"' => Kind::String {
                escaped: self.string()?,
            },
            b'{' => self.nested().map(|()| Kind::Object)?,
            b'[' => self.nested().map(|()| Kind::Array)?,
            _ => self.plain_scalar(opening)?,
        };
        Ok(Value::new(start, self.at, kind))
    }

    /// Passes a value, of which an object or an array is not read: only where it ends is looked for.
    ///
    /// For texts that somebody else is going to read, and that no rule depends on.
    pub(crate) fn unread_value(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            Some(b'{' | b'[') => self.skip_nested(),
            _ => self.value().map(|_| ()),
        }
    }

    /// Passes an object, handing each key to `member`, which has to pass the key's value.
    ///
    /// A value that is no object is passed like any other, without a call.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'a>) -> Result<(), Malformed>,
    ) -> Result<Value, Malformed> {
        if self.peek() != Some(b'{') {
            return self.value();
        }
        let start = self.at;
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let key = self.key()?;
                member(self, key)?;
                match self.next_byte()? {
                    b',' => {}
                    b'}' => break,
                    _ => return Err(Malformed),
                }
            }
        }
        Ok(Value::new(start, self.at, Kind::Object))
    }

    /// Passes an array, calling `element` before each element, which it has to pass.
    ///
    /// A value that is no array is passed like any other, without a call.
    pub(crate) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<Value, Malformed> {
        if self.peek() != Some(b'[') {
            return self.value();
        }
        let start = self.at;
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                element(self)?;
                match self.next_byte()? {
                    b',' => {}
                    b']' => break,
                    _ => return Err(Malformed),
                }
            }
        }
        Ok(Value::new(start, self.at, Kind::Array))
    }

    /// Whether only blanks are left, and all of the text is UTF-8.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        if self.peek().is_some() || (self.non_ascii && std::str::from_utf8(self.text).is_err()) {
            return Err(Malformed);
        }
        Ok(())
    }

    /// The byte that comes next, blanks aside.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        if byte > b' ' {
            return Some(byte);
        }
        self.skip_blanks()
    }

    #[cold]
    #[inline(never)]
    fn skip_blanks(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        let blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        self.text.get(self.at).copied()
    }

    fn next_byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.peek().ok_or(Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    /// Passes a key and the colon behind it.
    #[inline]
    fn key(&mut self) -> Result<Text<'a>, Malformed> {
        if self.peek() != Some(b'"') {
            return Err(Malformed);
        }
        let start = self.at + 1;
        let escaped = self.string()?;
        let raw = self.text.get(start..self.at - 1).ok_or(Malformed)?;
        self.colon()?;
        Ok(Text { raw, escaped })
    }

    /// Passes a key of which nobody wants to know the name.
    #[inline]
    fn any_key(&mut self) -> Result<(), Malformed> {
        if self.peek() != Some(b'"') {
            return Err(Malformed);
        }
        self.string()?;
        self.colon()
    }

    #[inline]
    fn colon(&mut self) -> Result<(), Malformed> {
        match self.next_byte()? {
            b':' => Ok(()),
            _ => Err(Malformed),
        }
    }

    /// Passes an object or an array, whatever is in it.
    fn nested(&mut self) -> Result<(), Malformed> {
        let mut open = Nesting::default();
        loop {
            // A value is due.
            match self.peek().ok_or(Malformed)? {
                b'"' => {
                    self.string()?;
                }
                b'{' => {
                    self.at += 1;
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open.push(true);
                        self.any_key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open.push(false);
                        continue;
                    }
                }
                first => {
                    self.plain_scalar(first)?;
                }
            }
            // A value was passed: so are all that end with it.
            loop {
                let Some(in_object) = open.innermost() else {
                    return Ok(());
                };
                match (self.next_byte()?, in_object) {
                    (b',', true) => {
                        self.any_key()?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => open.pop(),
                    _ => return Err(Malformed),
                }
            }
        }
    }

    /// Passes an object or an array by the brackets that stand outside of strings.
    fn skip_nested(&mut self) -> Result<(), Malformed> {
        let (mut depth, mut in_string, mut carry) = (0_usize, 0_u64, false);
        let mut rest = &self.text[self.at..];
        let mut last = [0; BLOCK];
        while !rest.is_empty() {
            let block = marks::block(rest, &mut last);
            self.non_ascii |= marks::has_non_ascii(block);
            let escaped = marks::escaped(marks::backslashes(block), &mut carry);
            let strings = marks::between(marks::quotes(block) & !escaped) ^ in_string;
            // All ones if the last byte is inside of a string.
            in_string = if strings >> (BLOCK - 1) == 1 {
                u64::MAX
            } else {
                0
            };
            let mut brackets = marks::brackets(block) & !strings;
            while brackets != 0 {
                let at = brackets.trailing_zeros() as usize;
                brackets &= brackets - 1;
                // Brackets and braces that open have this bit, those that close have not.
                if block[at] & 0x02 != 0 {
                    depth += 1;
                    continue;
                }
                depth -= 1;
                if depth == 0 {
                    self.at = self.text.len() - rest.len() + at + 1;
                    return Ok(());
                }
            }
            rest = rest.get(BLOCK..).unwrap_or_default();
        }
        Err(Malformed)
    }

    /// Passes a number or a literal.
    fn plain_scalar(&mut self, first: u8) -> Result<Kind, Malformed> {
        match first {
            b'-' | b'0'..=b'9' => self.number().map(|()| Kind::Number),
            b't' => self.literal(b"true").map(|()| Kind::True),
            b'f' => self.literal(b"false").map(|()| Kind::False),
            b'n' => self.literal(b"null").map(|()| Kind::Null),
            _ => Err(Malformed),
        }
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Malformed> {
        if !self.text[self.at..].starts_with(literal) {
            return Err(Malformed);
        }
        self.at += literal.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        let rest = &self.text[self.at..];
        let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
        let mut rest = match unsigned {
            [b'0', rest @ ..] => rest,
            _ => digits(unsigned)?,
        };
        if let [b'.', fraction @ ..] = rest {
            rest = digits(fraction)?;
        }
        if let [b'e' | b'E', exponent @ ..] = rest {
            rest = digits(match exponent {
                [b'+' | b'-', exponent @ ..] => exponent,
                _ => exponent,
            })?;
        }
        self.at = self.text.len() - rest.len();
        Ok(())
    }

    /// Passes a string and tells whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Malformed> {
        self.at += 1;
        self.seek();
        if self.text.get(self.at) == Some(&b'"') {
            self.at += 1;
            return Ok(false);
        }
        self.escaped_string()?;
        Ok(true)
    }

    /// Passes what is left of a string behind its first plain run.
    #[inline(never)]
    fn escaped_string(&mut self) -> Result<(), Malformed> {
        loop {
            match self.text.get(self.at..) {
                Some([b'"', ..]) => {
                    self.at += 1;
                    return Ok(());
                }
                Some([b'\\', escape @ ..]) => self.at += 1 + escape_length(escape)?,
                _ => return Err(Malformed),
            }
            self.seek();
        }
    }

    /// Goes to the next quote, backslash or control byte, or behind the text.
    fn seek(&mut self) {
        loop {
            if self.at < self.marked {
                let passed = BLOCK - (self.marked - self.at);
                let marks = self.marks >> passed;
                if marks != 0 {
                    self.at += marks.trailing_zeros() as usize;
                    return;
                }
                self.at = self.marked;
            }
            self.mark();
        }
    }

    /// Looks at the next block.
    #[inline(never)]
    fn mark(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut last = [0; BLOCK];
        let block = marks::block(rest, &mut last);
        // What is behind the string does no harm: it has to be in UTF-8, too.
        self.non_ascii |= marks::has_non_ascii(block);
        self.marks = marks::special(block);
        self.marked = self.at + BLOCK;
        if self.marks == 0 {
            self.skip_plain();
        }
    }

    /// Passes the plain blocks of a long string.
    fn skip_plain(&mut self) {
        let mut rest = self.text.get(self.marked..).unwrap_or_default();
        while let Some((block, after)) = rest.split_first_chunk() {
            if marks::has_special(block) {
                break;
            }
            self.non_ascii |= marks::has_non_ascii(block);
            rest = after;
        }
        self.at = self.text.len() - rest.len();
        self.marked = self.at;
    }
}

/// The bytes of an escape behind its backslash.
fn escape_length(escape: &[u8]) -> Result<usize, Malformed> {
    let class = |byte: u8| ESCAPES[usize::from(byte)];
    match *escape {
        [escape, ..] if class(escape) & SIMPLE != 0 => Ok(1),
        [b'u', a, b, c, d, ..] if class(a) & class(b) & class(c) & class(d) & HEX_DIGIT != 0 => {
            Ok(5)
        }
        _ => Err(Malformed),
    }
}

/// Behind a backslash, this byte is all of the escape.
const SIMPLE: u8 = 1;
const HEX_DIGIT: u8 = 2;

/// What a byte can be in an escape. A `match` would jump, and the jumps of dense escapes cannot be
/// foreseen.
static ESCAPES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128u8 {
        if matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
            classes[byte as usize] |= SIMPLE;
        }
        if byte.is_ascii_hexdigit() {
            classes[byte as usize] |= HEX_DIGIT;
        }
        byte += 1;
    }
    classes
};

/// Passes at least one digit.
fn digits(text: &[u8]) -> Result<&[u8], Malformed> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return Err(Malformed);
    }
    Ok(&text[length..])
}

/// The objects (`true`) and arrays (`false`) that are open, a bit each.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    /// The innermost levels, the last one in the lowest bit.
    near: u64,
    /// Full words of the outer levels.
    far: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth % 64 == 0 {
            self.far.push(self.near);
        }
        self.near = self.near << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.near >>= 1;
        if self.depth % 64 == 0 {
            self.near = self.far.pop().unwrap_or_default();
        }
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.near & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::{Cursor, Kind, Malformed};

    fn read(text: &[u8]) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(text);
        cursor.value()?;
        cursor.end()
    }

    fn decode(text: &str) -> Option<String> {
        let value = Cursor::new(text.as_bytes()).value().unwrap();
        let string = value.string(text.as_bytes()).unwrap();
        string.decode().map(Into::into)
    }

    #[test]
    fn what_is_json_passes() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(5_000), "]}".repeat(5_000));
        let lopsided = format!("{}{}", "[".repeat(100_001), "]".repeat(100_001));
        for text in [
            "0",
            "-0",
            "10.50e+07",
            "1E400",
            "true",
            " null\r\n",
            r#""""#,
            "[]",
            "{}",
            "[ ]",
            "{ }",
            r#"{"":{"a":[1,{"b":[]},"c"]},"d" : false }"#,
            r#""\u00e9\ud83d \/\"\\""#,
            "\"é\"",
            &deep,
            &lopsided,
        ] {
            assert_eq!(read(text.as_bytes()), Ok(()), "{text:.60}");
        }
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let half = "[".repeat(100);
        for text in [
            "",
            " ",
            "tru",
            "truex",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "'a'",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "[1 2]",
            "{]",
            "[}",
            "[1}",
            "{\"a\":1]",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12\"",
            "\"a\nb\"",
            "\"\t\"",
            "1 1",
            "{} {}",
            "\u{feff}{}",
            "/**/1",
            "é",
            &half,
        ] {
            assert_eq!(read(text.as_bytes()), Err(Malformed), "{text:.60}");
        }
    }

    #[test]
    fn control_bytes_quotes_and_escapes_are_seen_wherever_a_chunk_holds_them() {
        for length in 0..80 {
            for at in 0..=length {
                for (special, well) in [("\n", false), ("\\n", true), ("\\", false), ("é", true)] {
                    let (before, after) = ("x".repeat(at), "x".repeat(length - at));
                    let text = format!("\"{before}{special}{after}\"");
                    assert_eq!(read(text.as_bytes()).is_ok(), well, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn every_control_byte_in_a_string_is_malformed() {
        for byte in 0..0x20_u8 {
            for length in [0, 7, 31, 40] {
                let mut text = vec![b'x'; length];
                text.insert(0, b'"');
                text.extend([byte, b'"']);
                assert_eq!(read(&text), Err(Malformed), "{byte:#x}");
            }
        }
        assert_eq!(read(b"\"\x20\x7f\""), Ok(()));
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_malformed() {
        assert_eq!(read(b"\"A \x97 B\""), Err(Malformed));
        assert_eq!(read(b"{\"\xff\":1}"), Err(Malformed));
        assert_eq!(read(b"\"\xed\xa0\xbd\""), Err(Malformed), "a surrogate");
    }

    #[test]
    fn strings_decode() {
        assert_eq!(decode(r#""plain""#).unwrap(), "plain");
        assert_eq!(
            decode(r#""a\"\\\/\b\f\n\r\tz""#).unwrap(),
            "a\"\\/\u{8}\u{c}\n\r\tz"
        );
        assert_eq!(
            decode(r#""\u0041\u00e9\u4e16\ud83d\ude00!""#).unwrap(),
            "Aé世😀!"
        );
        for lone in [
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ud83d\u0041""#,
            r#""\ud83dx""#,
        ] {
            assert_eq!(decode(lone), None, "{lone}");
        }
    }

    #[test]
    fn spans_cut_out_exactly_the_value() {
        let text = r#" { "a" : [1, {"b":2}] , "c":"x\u0079" } "#;
        let mut found = Vec::new();
        let whole = Cursor::new(text.as_bytes())
            .object(|cursor, key| {
                let value = cursor.value()?;
                found.push((key.decode().unwrap().into_owned(), value));
                Ok(())
            })
            .unwrap();
        assert_eq!(&text[whole.span()], text.trim());
        assert_eq!(found[0].0, "a");
        assert_eq!(&text[found[0].1.span()], r#"[1, {"b":2}]"#);
        assert_eq!(found[1].1.kind, Kind::String { escaped: true });
        assert!(found[1].1.is_string(text.as_bytes(), "xy"));
    }

    proptest! {
        #[test]
        fn the_oracle_accepts_the_same_texts(text in r#"[\[\]{}:,"\\ \nua0-9.eE+\-truefalsn]{0,12}"#) {
            let oracle = serde_json::from_str::<&RawValue>(&text).is_ok();
            prop_assert_eq!(read(text.as_bytes()).is_ok(), oracle, "{}", text);
        }

        #[test]
        fn the_oracle_decodes_the_same_strings(content in any::<String>(), escape in any::<bool>()) {
            let text = if escape {
                let units = content.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
                format!("\"{}\"", units.collect::<String>())
            } else {
                serde_json::to_string(&content).unwrap()
            };
            prop_assert_eq!(read(text.as_bytes()), Ok(()));
            prop_assert_eq!(decode(&text), Some(content));
        }

        #[test]
        fn what_is_skipped_ends_where_it_ends_for_a_reader(
            texts in proptest::collection::vec(r#"[\[\]{}:,"\\ aé]{0,90}"#, 1..6),
            blanks in " {0,3}",
        ) {
            let value = serde_json::json!({ "a": texts, "b": [{}, [], [{ "c": texts.concat() }]] });
            let text = format!("{blanks}{value}{blanks}]}}");
            let (mut reader, mut skipper) = (Cursor::new(text.as_bytes()), Cursor::new(text.as_bytes()));
            reader.value().unwrap();
            skipper.unread_value().unwrap();
            prop_assert_eq!(skipper.at, reader.at);
            // What is behind the value may have been seen, too.
            prop_assert!(skipper.non_ascii || !reader.non_ascii);
        }

        #[test]
        fn any_bytes_are_skipped_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = [b"[", &bytes[..]].concat();
            let mut cursor = Cursor::new(&text);
            if cursor.unread_value().is_ok() {
                let last = text[cursor.at - 1];
                prop_assert!(matches!(last, b']' | b'}'), "{}", last);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let oracle = std::str::from_utf8(&bytes)
                .is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
            prop_assert_eq!(read(&bytes).is_ok(), oracle);
        }
    }
}

//! Notifications that a handler sends while it works.

use serde_json::{Value, json};

use crate::{
    json::{Cursor, Kind},
    number::is_integer,
    protocol::{LOG_LEVELS, method},
};

/// How far a handler is.
///
/// ```
/// use mcp_layers::reference::Progress;
///
/// let progress = Progress::new(3.0).total(10.0).message("Reading page 3");
/// ```
///
/// See [Progress] in the specification.
///
/// [Progress]: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Progress {
    value: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Progress {
    /// This far, of a total that is not known.
    pub fn new(progress: f64) -> Self {
        Self {
            value: progress,
            total: None,
            message: None,
        }
    }

    /// Sets where the end is.
    pub fn total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Tells people what is going on.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// The notification. The token stands in it as the client wrote it.
    pub(super) fn write(&self, token: &[u8]) -> Vec<u8> {
        let mut text = format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"progressToken":"#,
            method::PROGRESS
        );
        // Was a part of a message in UTF-8.
        text.push_str(&String::from_utf8_lossy(token));
        text.push_str(r#","progress":"#);
        text.push_str(&number(self.value));
        if let Some(total) = self.total.filter(|total| total.is_finite()) {
            text.push_str(r#","total":"#);
            text.push_str(&number(total));
        }
        if let Some(message) = &self.message {
            text.push_str(r#","message":"#);
            text.push_str(&Value::from(message.as_str()).to_string());
        }
        text.push_str("}}");
        text.into_bytes()
    }
}

/// A finite number in JSON, without a fraction where it has none.
fn number(number: f64) -> String {
    let text = Value::from(number).to_string();
    text.strip_suffix(".0").map(Into::into).unwrap_or(text)
}

/// How important a log message is, the least important first.
///
/// See [Log Levels] in the specification.
///
/// [Log Levels]: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum LogLevel {
    /// Details for those who look for a mistake.
    Debug,
    /// What happens anyway.
    Info,
    /// What is normal and still worth a look.
    Notice,
    /// What may become a failure.
    Warning,
    /// What failed.
    Error,
    /// A part of the system failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; LOG_LEVELS.len()] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level's name in the specification.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        LOG_LEVELS[self as usize]
    }

    /// The level that a JSON text names.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let value = Cursor::new(text).value().ok()?;
        let mut levels = Self::ALL.into_iter();
        levels.find(|level| value.is_string(text, level.as_str()))
    }
}

/// The notification of a log message.
pub(super) fn log(level: LogLevel, logger: Option<&str>, data: &Value) -> Vec<u8> {
    let mut params = json!({ "level": level.as_str(), "data": data });
    if let Some(logger) = logger {
        params["logger"] = logger.into();
    }
    let message = json!({ "jsonrpc": "2.0", "method": method::LOG, "params": params });
    message.to_string().into_bytes()
}

/// Where the progress token stands in the text of `_meta`, if that has one.
pub(super) fn progress_token(meta: &[u8]) -> Option<&[u8]> {
    let mut token = None;
    // Well-formed: it was read before.
    let _ = Cursor::new(meta).object(|cursor, key| {
        let value = cursor.value()?;
        if key.is("progressToken") {
            let text = &meta[value.span()];
            token = match value.kind {
                Kind::Number if is_integer(text) => Some(text),
                Kind::String { .. } => Some(text),
                _ => None,
            };
        }
        Ok(())
    });
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_as_their_names() {
        for (level, name) in LogLevel::ALL.into_iter().zip(LOG_LEVELS) {
            assert_eq!(level.as_str(), name);
            assert_eq!(
                LogLevel::read(format!("\"{name}\"").as_bytes()),
                Some(level)
            );
        }
        assert!(LogLevel::ALL.is_sorted());
        for unknown in [
            r#""""#,
            r#""Info""#,
            r#""trace""#,
            "1",
            "null",
            "[\"info\"]",
        ] {
            assert_eq!(LogLevel::read(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn numbers_that_json_cannot_write_are_left_out() {
        let text = Progress::new(0.5).total(f64::INFINITY).write(b"1");
        let json: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            json["params"],
            json!({ "progressToken": 1, "progress": 0.5 })
        );
        for number in [0.0, -0.0, 100.0, 1e-7, 1e21, f64::MAX, f64::MIN_POSITIVE] {
            let text = Progress::new(number).write(b"1");
            let json: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json["params"]["progress"].as_f64(), Some(number));
        }
    }

    #[test]
    fn only_strings_and_integers_are_progress_tokens() {
        let token = |meta: &'static str| progress_token(meta.as_bytes());
        assert_eq!(token("{}"), None);
        assert_eq!(token(r#"{"progressToken":null}"#), None);
        assert_eq!(token(r#"{"progressToken":1.5}"#), None);
        assert_eq!(token(r#"{"progressToken":{}}"#), None);
        assert_eq!(token(r#"{"a":{"progressToken":1}}"#), None);
        assert_eq!(token(r#"{"progressToken": 1e2 }"#), Some(&b"1e2"[..]));
        assert_eq!(
            token(r#"{"progr\u0065ssToken":"\u00e9\"","b":2}"#),
            Some(&br#""\u00e9\"""#[..])
        );
    }
}

//! The JSON-RPC message in a request's body, read once and shared by all layers.
//!
//! Two readers that understand one text differently are how a check is got around: one sees the
//! first of two equal keys, the other the last. So this crate reads a body once, hands exactly
//! those bytes on, and leaves what it read in the request's extensions as a [`Message`]. A later
//! layer trusts it only for the very buffer it was made from; where something in between replaced
//! the body, it is read again.
//!
//! A handler finds it there too:
//!
//! ```
//! use http::Request;
//! use mcp_layers::Message;
//!
//! fn tool<B>(request: &Request<B>) -> Option<&str> {
//!     let message = Message::get(request.extensions())?;
//!     (message.method() == Some("tools/call")).then(|| message.name())?
//! }
//! ```
//!
//! See [Messages] in the specification.
//!
//! [Messages]: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#messages

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use http::Extensions;

use crate::{
    body::is_same_buffer,
    era::{Era, EraRules},
    json::{Cursor, Kind, Malformed, Value},
    number,
    protocol::{self, LOG_LEVELS, meta, method},
};

/// The parts of a message that the rules look at, as slices of the body.
///
/// Only a layer of this crate makes one: a found value is proof that the message was checked.
#[derive(Clone, Debug)]
pub struct Message {
    body: Bytes,
    form: Form,
    members: Members,
    method: Option<Str>,
    name: Option<Str>,
    resolved: Option<Resolved>,
}

/// What a [`Message`] is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum MessageKind {
    /// An array of messages; only in the handshake era.
    Batch,
    /// Has a method and no id.
    Notification,
    /// None of the other kinds, JSON or not; only in the handshake era.
    Other,
    /// Has a method and an id.
    Request,
    /// Answers a request of the server; only in the handshake era.
    Response,
}

/// The form of the whole text.
#[derive(Clone, Debug)]
enum Form {
    Array,
    NotJson,
    Object,
    Scalar,
}

/// The members that the rules look at.
// rule B2
#[derive(Clone, Debug, Default)]
struct Members {
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Value>,
    answers: bool,
    meta: Option<Value>,
    name: Option<Value>,
    uri: Option<Value>,
    task_id: Option<Value>,
    arguments: Option<Value>,
    asked_version: Option<Value>,
    input_responses: Option<Value>,
    request_state: Option<Value>,
    claim: Option<Value>,
    client_info: Option<Value>,
    client_info_is_complete: bool,
    client_capabilities: Option<Value>,
    log_level: Option<Value>,
    repeated: Option<&'static str>,
    id_is_repeated: bool,
    /// The claims of the messages in an array.
    claims: Vec<Value>,
}

/// A string of the message: where it stands, or what it reads once its escapes are resolved.
#[derive(Clone, Debug)]
enum Str {
    /// A name that needs no further look at its UTF-8.
    Known(&'static str),
    Owned(Box<str>),
    Slice(Range<usize>),
}

/// What a layer has decided about the message.
#[derive(Clone, Debug)]
struct Resolved {
    era: Era,
    rules: EraRules,
}

/// The protocol version that `_meta` names.
#[derive(Debug)]
pub(crate) enum Claim<'a> {
    Absent,
    /// A string that no protocol version can be: it holds a lone surrogate.
    Malformed,
    Named(Cow<'a, str>),
    NotAString,
}

impl Message {
    /// Returns the message that a layer left in a request's extensions.
    #[must_use]
    pub fn get(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Reads a body, whatever it is.
    pub(crate) fn parse(body: Bytes) -> Self {
        let mut members = Members::default();
        let form = read(&body, &mut members).unwrap_or(Form::NotJson);
        let string =
            |value: &Option<Value>| value.as_ref().and_then(|value| Str::new(&body, value));
        let method = match form {
            Form::Object => members
                .method
                .as_ref()
                .and_then(|value| Str::of_method(&body, value)),
            _ => None,
        };
        let name = match method.as_ref().map(|method| method.get(&body)) {
            Some(method) => string(match method {
                method::RESOURCES_READ => &members.uri,
                method if method::names_task(method) => &members.task_id,
                _ => &members.name,
            }),
            None => None,
        };
        Self {
            form,
            members,
            method,
            name,
            resolved: None,
            body,
        }
    }

    /// Whether this was read from exactly this buffer.
    pub(crate) fn is_of(&self, body: &Bytes) -> bool {
        is_same_buffer(&self.body, body)
    }

    /// Keeps what was decided.
    pub(crate) fn resolve(&mut self, era: Era, rules: EraRules) {
        self.resolved = Some(Resolved { era, rules });
    }

    /// The era, if it was decided.
    pub(crate) fn resolved(&self) -> Option<(&Era, &EraRules)> {
        self.resolved.as_ref().map(|it| (&it.era, &it.rules))
    }

    /// What this is.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        match self.form {
            Form::Array => MessageKind::Batch,
            Form::NotJson | Form::Scalar => MessageKind::Other,
            Form::Object => match (&self.method, &self.members.id) {
                (Some(_), Some(_)) => MessageKind::Request,
                (Some(_), None) => MessageKind::Notification,
                (None, _) if self.members.answers => MessageKind::Response,
                (None, _) => MessageKind::Other,
            },
        }
    }

    /// The era that the message belongs to.
    #[must_use]
    pub fn era(&self) -> &Era {
        self.resolved
            .as_ref()
            .map_or(&Era::UNNAMED, |resolved| &resolved.era)
    }

    /// The whole body, as received.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The JSON text of `id`, where that is a string or an integer.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        let id = self.members.id.as_ref()?;
        self.is_valid_id(id).then(|| &self.body[id.span()])
    }

    /// The id to answer with, where there is no doubt about it.
    pub(crate) fn answerable_id(&self) -> Option<Bytes> {
        match self.form {
            Form::Object if !self.members.id_is_repeated => {
                self.id().map(|id| self.body.slice_ref(id))
            }
            _ => None,
        }
    }

    /// `method`.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        self.method.as_ref().map(|method| method.get(&self.body))
    }

    /// What the method acts on: `params.name`, `params.uri` of `resources/read`, `params.taskId`
    /// of the methods of tasks.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| name.get(&self.body))
    }

    /// The bytes of [`name`](Self::name), to compare.
    pub(crate) fn name_bytes(&self) -> Option<&[u8]> {
        self.name.as_ref().map(|name| name.bytes(&self.body))
    }

    /// The JSON text of `params`.
    #[must_use]
    pub fn params(&self) -> Option<&[u8]> {
        self.text(self.members.params.as_ref())
    }

    /// The JSON text of `params.arguments`.
    #[must_use]
    pub fn arguments(&self) -> Option<&[u8]> {
        self.text(self.members.arguments.as_ref())
    }

    /// The JSON text of `params._meta`, where that is an object.
    #[must_use]
    pub fn meta(&self) -> Option<&[u8]> {
        let meta = self.members.meta.as_ref();
        self.text(meta.filter(|meta| meta.kind == Kind::Object))
    }

    /// The JSON text of the client's name and version.
    #[must_use]
    pub fn client_info(&self) -> Option<&[u8]> {
        self.text(self.members.client_info.as_ref())
    }

    /// The JSON text of the client's capabilities.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&[u8]> {
        self.text(self.members.client_capabilities.as_ref())
    }

    /// The JSON text of the lowest level of log messages that the client asks for.
    #[must_use]
    pub fn log_level(&self) -> Option<&[u8]> {
        self.text(self.members.log_level.as_ref())
    }

    /// Whether the client asks for log messages, by a level that exists.
    pub(crate) fn wants_log(&self) -> bool {
        let level = self.members.log_level.as_ref();
        level.is_some_and(|level| {
            let mut levels = LOG_LEVELS.iter();
            levels.any(|known| level.is_string(&self.body, known))
        })
    }

    /// Whether this repeats an earlier request with what was then missing.
    ///
    /// See [Multi Round-Trip Requests][mrtr].
    ///
    /// [mrtr]: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.members.input_responses.is_some() || self.members.request_state.is_some()
    }

    fn text(&self, value: Option<&Value>) -> Option<&[u8]> {
        value.map(|value| &self.body[value.span()])
    }

    fn is_valid_id(&self, id: &Value) -> bool {
        match id.kind {
            Kind::Number => number::is_integer(&self.body[id.span()]),
            Kind::String { .. } => is_well_formed(&self.body, id),
            _ => false,
        }
    }

    /// Whether the body is JSON.
    pub(crate) fn is_json(&self) -> bool {
        !matches!(self.form, Form::NotJson)
    }

    pub(crate) fn is_request(&self) -> bool {
        self.kind() == MessageKind::Request
    }

    /// The inspected member that occurs twice.
    pub(crate) fn repeated(&self) -> Option<&'static str> {
        self.members.repeated
    }

    /// What keeps this from being one request or notification.
    // rule B4
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let members = &self.members;
        let Form::Object = self.form else {
            return Some("the body is not one JSON-RPC message");
        };
        if members.method.is_none() {
            return Some("`method` is missing");
        }
        if !members
            .jsonrpc
            .as_ref()
            .is_some_and(|jsonrpc| jsonrpc.is_string(&self.body, "2.0"))
        {
            return Some("`jsonrpc` is not \"2.0\"");
        }
        match &members.id {
            Some(id) if !self.is_valid_id(id) => {
                return Some("`id` is neither a string nor an integer");
            }
            _ => {}
        }
        let Some(method) = self.method() else {
            return Some("`method` is not a string");
        };
        if members.id.is_none() && !method::is_notification(method) {
            return Some("`id` is missing");
        }
        match &members.params {
            Some(params) if params.kind != Kind::Object => {
                return Some("`params` is not an object");
            }
            _ => {}
        }
        // rule B2: what the mirrored headers repeat is theirs to judge
        let inspected = [&members.request_state, &members.log_level];
        let broken = |value: &Value| {
            let string = value.string(&self.body);
            string.is_some_and(|string| string.decode().is_none())
        };
        let found = inspected.into_iter().flatten().any(broken);
        found.then_some("a string holds a lone surrogate")
    }

    /// Whether a text that is not JSON holds the key of a claim, for readers that take it for JSON
    /// all the same: with `NaN` in it, say, or in UTF-16.
    pub(crate) fn mentions_claim(&self) -> bool {
        const KEY: &[u8] = meta::PROTOCOL_VERSION.as_bytes();
        if self.is_json() {
            return false;
        }
        let mut text = Cow::Borrowed(&*self.body);
        if text.contains(&0) {
            text.to_mut().retain(|&byte| byte != 0);
        }
        text.windows(KEY.len()).any(|window| window == KEY)
    }

    /// The protocol version that `_meta` names.
    pub(crate) fn claim(&self) -> Claim<'_> {
        claim(&self.body, self.members.claim.as_ref())
    }

    /// The claims of the messages in an array.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        let claims = self.members.claims.iter();
        claims.map(|it| claim(&self.body, Some(it)))
    }

    /// The version that `initialize` asks for.
    pub(crate) fn asked_version(&self) -> Option<Cow<'_, str>> {
        let version = self.members.asked_version.as_ref()?;
        version.string(&self.body)?.decode()
    }

    /// Whether the envelope has all that a modern request needs.
    pub(crate) fn has_complete_envelope(&self) -> bool {
        let (missing, invalid) = self.envelope_faults();
        missing.is_empty() && invalid.is_empty()
    }

    /// The keys of a complete envelope that are missing, and those that have a wrong type.
    // rule E3
    pub(crate) fn envelope_faults(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let members = &self.members;
        let (mut missing, mut invalid) = (Vec::new(), Vec::new());
        match self.claim() {
            Claim::Absent => missing.push(meta::PROTOCOL_VERSION),
            Claim::Malformed | Claim::NotAString => invalid.push(meta::PROTOCOL_VERSION),
            Claim::Named(_) => {}
        }
        match &members.client_capabilities {
            None => missing.push(meta::CLIENT_CAPABILITIES),
            Some(it) if it.kind != Kind::Object => invalid.push(meta::CLIENT_CAPABILITIES),
            Some(_) => {}
        }
        if members.client_info.is_some() && !members.client_info_is_complete {
            invalid.push(meta::CLIENT_INFO);
        }
        (missing, invalid)
    }
}

impl Str {
    /// `None` if `value`, which stands in a text that is JSON, is no well-formed string.
    fn new(body: &Bytes, value: &Value) -> Option<Self> {
        // That it is UTF-8 was seen when the text was read to its end.
        if value.kind == (Kind::String { escaped: false }) {
            return Some(Self::Slice(value.inside()));
        }
        let decoded = value.string(body)?.decode()?;
        Some(Self::Owned(decoded.into_owned().into()))
    }

    /// As [`new`](Self::new), for a value that is read over and over, and often one of a few.
    fn of_method(body: &Bytes, value: &Value) -> Option<Self> {
        match method::frequent(value.string(body)?.raw()) {
            Some(known) => Some(Self::Known(known)),
            None => Self::new(body, value),
        }
    }

    fn get<'a>(&'a self, body: &'a Bytes) -> &'a str {
        match self {
            Self::Known(known) => known,
            Self::Owned(decoded) => decoded,
            // Was UTF-8 when the slice was made, and `body` does not change.
            Self::Slice(_) => std::str::from_utf8(self.bytes(body)).unwrap_or_default(),
        }
    }

    fn bytes<'a>(&'a self, body: &'a Bytes) -> &'a [u8] {
        match self {
            Self::Known(known) => known.as_bytes(),
            Self::Owned(decoded) => decoded.as_bytes(),
            Self::Slice(span) => &body[span.clone()],
        }
    }
}

fn claim<'a>(body: &'a Bytes, value: Option<&Value>) -> Claim<'a> {
    let Some(value) = value else {
        return Claim::Absent;
    };
    let Some(text) = value.string(body) else {
        return Claim::NotAString;
    };
    match protocol::known_version(text.raw()) {
        Some(version) => Claim::Named(Cow::Borrowed(version)),
        None => text.decode().map_or(Claim::Malformed, Claim::Named),
    }
}

/// Whether `value` is a string without lone surrogates.
fn is_well_formed(body: &Bytes, value: &Value) -> bool {
    value
        .string(body)
        .is_some_and(|string| string.decode().is_some())
}

/// Reads a whole body.
///
/// A text that breaks off keeps what was read up to there: a claim in it still counts.
fn read(body: &[u8], members: &mut Members) -> Result<Form, Malformed> {
    // Some readers skip a byte-order mark. JSON has none: what is behind it only shows the claim.
    let (marked, text) = match body {
        [0xEF, 0xBB, 0xBF, ..] => (true, body),
        _ => (false, body),
    };
    let mut cursor = Cursor::new(text);
    if marked {
        cursor.skip(3);
    }
    let form = match cursor.peek() {
        Some(b'{') => {
            members.read_message(&mut cursor)?;
            Form::Object
        }
        Some(b'[') => {
            members.read_batch(&mut cursor)?;
            Form::Array
        }
        _ => {
            cursor.value()?;
            Form::Scalar
        }
    };
    cursor.end()?;
    if marked {
        return Err(Malformed);
    }
    Ok(form)
}

impl Members {
    fn read_message(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        cursor.object(|cursor, key| {
            match &*key.name() {
                b"jsonrpc" => set(
                    &mut self.jsonrpc,
                    &mut self.repeated,
                    "jsonrpc",
                    cursor.value()?,
                ),
                b"id" => {
                    self.id_is_repeated = self.id.is_some();
                    set(&mut self.id, &mut self.repeated, "id", cursor.value()?);
                }
                b"method" => set(
                    &mut self.method,
                    &mut self.repeated,
                    "method",
                    cursor.value()?,
                ),
                b"params" => {
                    let params = if self.params.is_none() {
                        self.read_params(cursor)?
                    } else {
                        cursor.value()?
                    };
                    set(&mut self.params, &mut self.repeated, "params", params);
                }
                b"result" | b"error" => {
                    self.answers = true;
                    cursor.value()?;
                }
                _ => {
                    cursor.value()?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn read_params(&mut self, cursor: &mut Cursor<'_>) -> Result<Value, Malformed> {
        cursor.object(|cursor, key| {
            let (slot, name) = match &*key.name() {
                b"_meta" => {
                    let meta = if self.meta.is_none() {
                        self.read_meta(cursor)?
                    } else {
                        cursor.value()?
                    };
                    set(&mut self.meta, &mut self.repeated, "_meta", meta);
                    return Ok(());
                }
                b"name" => (&mut self.name, "name"),
                b"uri" => (&mut self.uri, "uri"),
                b"taskId" => (&mut self.task_id, "taskId"),
                b"arguments" => (&mut self.arguments, "arguments"),
                b"inputResponses" => (&mut self.input_responses, "inputResponses"),
                b"requestState" => (&mut self.request_state, "requestState"),
                b"protocolVersion" => {
                    // Only shown in a refusal of the handshake: no rule compares it.
                    let version = cursor.value()?;
                    self.asked_version.get_or_insert(version);
                    return Ok(());
                }
                _ => {
                    cursor.value()?;
                    return Ok(());
                }
            };
            set(slot, &mut self.repeated, name, cursor.value()?);
            Ok(())
        })
    }

    fn read_meta(&mut self, cursor: &mut Cursor<'_>) -> Result<Value, Malformed> {
        cursor.object(|cursor, key| {
            const PROTOCOL_VERSION: &[u8] = meta::PROTOCOL_VERSION.as_bytes();
            const CLIENT_INFO: &[u8] = meta::CLIENT_INFO.as_bytes();
            const CLIENT_CAPABILITIES: &[u8] = meta::CLIENT_CAPABILITIES.as_bytes();
            const LOG_LEVEL: &[u8] = meta::LOG_LEVEL.as_bytes();
            let (slot, name) = match &*key.name() {
                PROTOCOL_VERSION => (&mut self.claim, meta::PROTOCOL_VERSION),
                CLIENT_CAPABILITIES => (&mut self.client_capabilities, meta::CLIENT_CAPABILITIES),
                LOG_LEVEL => (&mut self.log_level, meta::LOG_LEVEL),
                CLIENT_INFO => {
                    let (info, complete) = read_client_info(cursor)?;
                    self.client_info_is_complete = complete;
                    set(
                        &mut self.client_info,
                        &mut self.repeated,
                        meta::CLIENT_INFO,
                        info,
                    );
                    return Ok(());
                }
                _ => {
                    cursor.value()?;
                    return Ok(());
                }
            };
            set(slot, &mut self.repeated, name, cursor.value()?);
            Ok(())
        })
    }

    fn read_batch(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        cursor.array(|cursor| {
            let mut element = Self::default();
            let read = element.read_message(cursor);
            self.claims.extend(element.claim);
            self.repeated = self.repeated.or(element.repeated);
            read
        })?;
        Ok(())
    }
}

/// Keeps the first of several equal members, and that there were several.
// rule B3
fn set(
    slot: &mut Option<Value>,
    repeated: &mut Option<&'static str>,
    name: &'static str,
    value: Value,
) {
    match slot {
        None => *slot = Some(value),
        Some(_) => *repeated = repeated.or(Some(name)),
    }
}

/// Reads the client's name and version, and whether both are there, once, as strings.
fn read_client_info(cursor: &mut Cursor<'_>) -> Result<(Value, bool), Malformed> {
    let (mut names, mut versions, mut well_formed) = (0, 0, true);
    let info = cursor.object(|cursor, key| {
        match &*key.name() {
            b"name" => names += 1,
            b"version" => versions += 1,
            _ => {
                cursor.value()?;
                return Ok(());
            }
        }
        let value = cursor.value()?;
        well_formed &= cursor.is_well_formed(value);
        Ok(())
    })?;
    let complete = names == 1 && versions == 1 && well_formed;
    Ok((info, complete))
}

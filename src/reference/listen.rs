//! `subscriptions/listen`: the stream of one subscriber.

use std::{
    collections::HashSet,
    mem,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    MethodError, Notifier, answer,
    notifier::{Change, Subscriber},
    params,
};
use crate::{
    json::{Cursor, Kind, Malformed, Text},
    message::Message,
    protocol::{meta, method},
};

/// The most resources that one stream can be about.
const MOST_RESOURCES: usize = 1_000;

/// What there is to be told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

/// What a client asks for and is promised.
#[derive(Debug, Default)]
struct Filter {
    changes: Vec<Change>,
    acknowledged: Map<String, Value>,
}

impl Filter {
    /// What the message asks for of what is offered.
    // rule R5
    fn read(message: &Message, offer: Offer) -> Result<Self, MethodError> {
        let invalid = |fault: &str| MethodError::invalid_params(format!("Invalid params: {fault}"));
        let Some(text) = params::member(message, "notifications") else {
            return Err(invalid("`notifications` is missing"));
        };
        if !text.starts_with(b"{") {
            return Err(invalid("`notifications` is not an object"));
        }
        let mut filter = Self::default();
        for (name, change, offered) in [
            ("toolsListChanged", Change::Tools, offer.tools),
            ("promptsListChanged", Change::Prompts, offer.prompts),
            ("resourcesListChanged", Change::Resources, offer.resources),
        ] {
            match params::member_of(text, name) {
                Some(b"true") if offered => {
                    filter.changes.push(change);
                    filter.acknowledged.insert(name.into(), true.into());
                }
                None | Some(b"false" | b"true") => {}
                Some(_) => return Err(invalid(&format!("`{name}` is not a boolean"))),
            }
        }
        if let Some(text) = params::member_of(text, "resourceSubscriptions") {
            let uris = strings(text).ok_or_else(|| {
                invalid("`resourceSubscriptions` is not an array of at most 1000 strings")
            })?;
            if offer.resources {
                let resources = uris.iter().map(|uri| Change::Resource(uri.as_str().into()));
                filter.changes.extend(resources);
                let name = "resourceSubscriptions".to_owned();
                filter.acknowledged.insert(name, uris.into());
            }
        }
        Ok(filter)
    }
}

/// The strings in an array, which is JSON text, each once.
fn strings(text: &[u8]) -> Option<Vec<String>> {
    let mut strings: Vec<String> = Vec::new();
    let mut count = 0;
    let read = Cursor::new(text).array(|cursor| {
        let value = cursor.value()?;
        count += 1;
        let string = value.string(text).and_then(Text::decode);
        // Anything else is as good as malformed.
        let string = string
            .filter(|_| count <= MOST_RESOURCES)
            .ok_or(Malformed)?;
        strings.push(string.into_owned());
        Ok(())
    });
    let is_array = read.is_ok_and(|value| value.kind == Kind::Array);
    let mut seen = HashSet::new();
    strings.retain(|string| seen.insert(string.clone()));
    is_array.then_some(strings)
}

/// The stream: an acknowledgement, what has changed, and a result when the notifier is closed.
///
/// Dropping it unsubscribes.
#[derive(Debug)]
pub(super) struct Subscription {
    subscriber: Subscriber,
    /// The id of the request, as JSON text, which every message repeats.
    id: Bytes,
    state: State,
}

#[derive(Debug)]
enum State {
    /// What was acknowledged.
    Begun(Map<String, Value>),
    Listening,
    Ended,
}

impl Subscription {
    pub(super) fn new(
        notifier: &Notifier,
        message: &Message,
        offer: Offer,
    ) -> Result<Self, MethodError> {
        let filter = Filter::read(message, offer)?;
        Ok(Self {
            subscriber: notifier.subscribe(filter.changes),
            id: message.answerable_id().unwrap_or_default(),
            state: State::Begun(filter.acknowledged),
        })
    }

    /// The next event, as long as there is one.
    pub(super) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let text = match &mut self.state {
            State::Begun(acknowledged) => {
                let filter = Value::Object(mem::take(acknowledged));
                self.state = State::Listening;
                self.notification(method::ACKNOWLEDGED, Some(("notifications", &filter)))
            }
            State::Listening => match ready!(self.subscriber.poll_next(cx)) {
                Some(Change::Resource(uri)) => {
                    let uri = Value::from(&*uri);
                    self.notification(method::RESOURCE_UPDATED, Some(("uri", &uri)))
                }
                Some(change) => self.notification(change.method(), None),
                None => {
                    self.state = State::Ended;
                    let result = format!(r#"{{"_meta":{}}}"#, self.meta());
                    answer::encoded(&self.id, result.as_bytes())
                }
            },
            State::Ended => return Poll::Ready(None),
        };
        Poll::Ready(Some(answer::event(&text)))
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    // rule R5: every notification is tagged
    fn notification(&self, method: &str, member: Option<(&str, &Value)>) -> Vec<u8> {
        let member = member.map(|(name, value)| format!(r#","{name}":{value}"#));
        format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{}{}}}}}"#,
            self.meta(),
            member.unwrap_or_default()
        )
        .into_bytes()
    }

    fn meta(&self) -> String {
        // Was a part of a message in UTF-8.
        let id = String::from_utf8_lossy(&self.id);
        format!(r#"{{"{}":{id}}}"#, meta::SUBSCRIPTION_ID)
    }
}

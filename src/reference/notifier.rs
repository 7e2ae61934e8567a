//! Telling subscribers what has changed.
//!
//! A change carries no content: it only says that a client should ask again. So one that a
//! subscriber has not been told of yet is not queued a second time, however slow the subscriber
//! is, and its queue is never longer than what it asked for.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::protocol::method;

/// Tells clients that lists and resources have changed.
///
/// Clients subscribe by `subscriptions/listen`, and hear of what they asked for until they close
/// the stream, or until [`close`](Self::close) ends it in good order. What happens twice before a
/// slow client has read of it is told once. Clones tell the same subscribers.
///
/// ```
/// use mcp_layers::{ServerInfo, reference::{Notifier, ReferenceService, Resource, ResourceResult}};
///
/// let notifier = Notifier::new();
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0"))
///     .resource(Resource::new("notes://today", "Today"), |_| async {
///         Ok(ResourceResult::text("Buy milk"))
///     })
///     .notifier(notifier.clone());
///
/// // Wherever the note is written:
/// notifier.resource_updated("notes://today");
/// // Before the server waits for open requests to end:
/// notifier.close();
/// ```
///
/// See [Subscriptions] in the specification.
///
/// [Subscriptions]: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
#[derive(Clone, Default)]
#[must_use]
pub struct Notifier {
    hub: Arc<Hub>,
}

impl Notifier {
    /// A notifier without subscribers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells that there are other tools than before.
    pub fn tools_list_changed(&self) {
        self.hub.tell(&Change::Tools);
    }

    /// Tells that there are other prompts than before.
    pub fn prompts_list_changed(&self) {
        self.hub.tell(&Change::Prompts);
    }

    /// Tells that there are other resources than before.
    pub fn resources_list_changed(&self) {
        self.hub.tell(&Change::Resources);
    }

    /// Tells that the resource at this URI has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.hub.tell(&Change::Resource(uri.into()));
    }

    /// Ends all streams, those included that are yet to come, once they have told what they hold.
    pub fn close(&self) {
        let mut state = self.hub.lock();
        state.closed = true;
        let subscribers = state.subscribers.values_mut();
        let wakers: Vec<_> = subscribers.filter_map(|it| it.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many streams are open.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.hub.lock().subscribers.len()
    }

    /// Begins to queue these changes.
    pub(super) fn subscribe(&self, wanted: impl IntoIterator<Item = Change>) -> Subscriber {
        let mut state = self.hub.lock();
        let number = state.next;
        state.next += 1;
        let queue = Queue {
            wanted: wanted.into_iter().map(|change| (change, false)).collect(),
            changes: VecDeque::new(),
            waker: None,
        };
        state.subscribers.insert(number, queue);
        Subscriber {
            hub: Arc::clone(&self.hub),
            number,
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("subscribers", &self.subscribers())
            .finish()
    }
}

/// What a subscriber can be told.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Change {
    Prompts,
    Resource(Arc<str>),
    Resources,
    Tools,
}

impl Change {
    /// The notification's method.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Prompts => method::PROMPTS_CHANGED,
            Self::Resource(_) => method::RESOURCE_UPDATED,
            Self::Resources => method::RESOURCES_CHANGED,
            Self::Tools => method::TOOLS_CHANGED,
        }
    }
}

#[derive(Default)]
struct Hub {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscribers: BTreeMap<u64, Queue>,
    next: u64,
    closed: bool,
}

/// What one subscriber is yet to be told.
struct Queue {
    /// What it asked for, and whether that is queued.
    wanted: HashMap<Change, bool>,
    changes: VecDeque<Change>,
    waker: Option<Waker>,
}

impl Hub {
    fn tell(&self, change: &Change) {
        let mut state = self.lock();
        let mut wakers = Vec::new();
        for queue in state.subscribers.values_mut() {
            if let Some(queued @ false) = queue.wanted.get_mut(change) {
                *queued = true;
                queue.changes.push_back(change.clone());
                wakers.extend(queue.waker.take());
            }
        }
        // Who is woken may come back here at once.
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a queue where changes come out. Dropping it unsubscribes.
pub(super) struct Subscriber {
    hub: Arc<Hub>,
    number: u64,
}

impl Subscriber {
    /// The next change, until the notifier was closed and all is told.
    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Change>> {
        let mut state = self.hub.lock();
        let closed = state.closed;
        let Some(queue) = state.subscribers.get_mut(&self.number) else {
            return Poll::Ready(None);
        };
        match queue.changes.pop_front() {
            Some(change) => {
                queue.wanted.insert(change.clone(), false);
                Poll::Ready(Some(change))
            }
            None if closed => Poll::Ready(None),
            None => {
                let former = queue.waker.replace(cx.waker().clone());
                // It may own more than it seems to: it goes when the lock is free.
                drop(state);
                drop(former);
                Poll::Pending
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let queue = self.hub.lock().subscribers.remove(&self.number);
        // As above: its waker goes when the lock is free.
        drop(queue);
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").finish_non_exhaustive()
    }
}

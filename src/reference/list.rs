//! What a server has several of, and the pages that show them.

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::MethodError;
use crate::json::Cursor;

/// Something that a server has several of.
pub(super) trait Listed {
    /// What answers for it.
    type Handler: ?Sized;

    /// The member of the result that holds the list.
    const MEMBER: &'static str;

    /// What tells it from the others.
    fn key(&self) -> &str;

    fn to_json(&self) -> Value;
}

/// All things of one kind, in the order of registration.
pub(super) struct List<T: Listed> {
    entries: Vec<Entry<T>>,
    page_size: Option<NonZeroUsize>,
    /// Written when the first client asks: registering a thousand things must not write a thousand
    /// lists.
    pages: OnceLock<Vec<Page>>,
}

pub(super) struct Entry<T: Listed> {
    pub(super) item: Arc<T>,
    pub(super) handler: Arc<T::Handler>,
}

#[derive(Clone)]
struct Page {
    /// What asks for it.
    cursor: Option<String>,
    /// The result, as JSON text.
    result: Vec<u8>,
}

impl<T: Listed> List<T> {
    /// Adds one. One with the same key is replaced, in its place.
    pub(super) fn add(&mut self, item: Arc<T>, handler: Arc<T::Handler>) {
        let mut others = self.entries.iter_mut();
        let same = others.find(|other| other.item.key() == item.key());
        let entry = Entry { item, handler };
        match same {
            Some(same) => *same = entry,
            None => self.entries.push(entry),
        }
        self.pages = OnceLock::new();
    }

    /// Shows this many on each page.
    pub(super) fn set_page_size(&mut self, size: NonZeroUsize) {
        self.page_size = Some(size);
        self.pages = OnceLock::new();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn find(&self, key: &str) -> Option<&Entry<T>> {
        self.iter().find(|entry| entry.item.key() == key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.iter()
    }

    /// The result that shows the page of a cursor, which is JSON text.
    // rules R3, R5
    pub(super) fn page(&self, cursor: Option<&[u8]>) -> Result<&[u8], MethodError> {
        let mut pages = self.pages.get_or_init(|| self.write()).iter();
        let page = match cursor {
            None => pages.next(),
            Some(text) => pages.find(|page| is_string(text, page.cursor.as_deref())),
        };
        let invalid = || MethodError::invalid_params("Invalid params: the cursor is not ours");
        page.map(|page| &*page.result).ok_or_else(invalid)
    }

    // rule R3: in insertion order, encoded once
    fn write(&self) -> Vec<Page> {
        let size = self.page_size.map_or(usize::MAX, NonZeroUsize::get);
        let mut chunks = self.entries.chunks(size.min(self.entries.len().max(1)));
        let mut chunk = chunks.next().unwrap_or_default();
        let mut cursor = None;
        let mut pages = Vec::new();
        loop {
            let items = chunk.iter().map(|entry| entry.item.to_json());
            let mut result = json!({ T::MEMBER: items.collect::<Value>() });
            // A list that was changed has other pages: then the cursor is refused, and no item is
            // missed.
            let next = chunks.next();
            let next_cursor = next.and_then(<[_]>::first).map(|first| {
                let cursor = BASE64_URL_SAFE_NO_PAD.encode(first.item.key());
                result["nextCursor"] = cursor.as_str().into();
                cursor
            });
            pages.push(Page {
                cursor,
                result: result.to_string().into_bytes(),
            });
            match next {
                Some(next) => chunk = next,
                None => return pages,
            }
            cursor = next_cursor;
        }
    }
}

/// Whether a JSON text is this string.
fn is_string(text: &[u8], expected: Option<&str>) -> bool {
    let value = Cursor::new(text).value();
    matches!((value, expected), (Ok(value), Some(expected)) if value.is_string(text, expected))
}

impl<T: Listed> Default for List<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            page_size: None,
            pages: OnceLock::new(),
        }
    }
}

impl<T: Listed> Clone for List<T> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            page_size: self.page_size,
            pages: self.pages.clone(),
        }
    }
}

impl<T: Listed> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            item: Arc::clone(&self.item),
            handler: Arc::clone(&self.handler),
        }
    }
}

impl<T: Listed> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.entries.iter().map(|entry| entry.item.key());
        f.debug_list().entries(keys).finish()
    }
}

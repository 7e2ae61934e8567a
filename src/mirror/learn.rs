//! Learning the schemas of tools from the lists that pass.

use std::{
    collections::{BTreeMap, HashMap, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use super::{
    schema::{InvalidAnnotation, ParamHeaders},
    source::{Lookup, ToolSchemas, ToolText, read_tools},
};
use crate::json::{Cursor, Malformed};

/// Learns which headers tools demand from the answers to `tools/list` that pass.
///
/// For servers behind a gateway, and for handlers that make their list by themselves:
///
/// ```
/// use mcp_layers::{LearnedTools, McpLayer, ServerInfo};
///
/// let mcp = McpLayer::new(ServerInfo::new("gateway", "1.0.0")).tool_schemas(LearnedTools::new());
/// ```
///
/// Every answer of either era adds the tools that it names: pages of a list are merged, a tool that
/// is seen again replaces what was known of it, and a list that lacks a tool forgets nothing. A
/// tool whose annotations are invalid is left unchecked, as clients leave it out; that is reported
/// once, as a warning through `tracing`. Events of a stream are read like plain answers; answers
/// with a `Content-Encoding`, those longer than 4 MiB and batches are not.
///
/// Clones share what they have learned.
///
/// # Limits
///
/// Until a list has passed, a tool is unknown and its calls pass unchecked, unless
/// [`refuse_unknown_tools`](crate::MirrorHeaderValidatorLayer::refuse_unknown_tools) is set. Only
/// the last schema of a name is kept: where users see different tools under one name, give the
/// layer a source that knows all of them.
///
/// At most 1,024 tools are kept, and of each a schema of up to 64 KiB. When there are more, those
/// that were not listed for the longest time are forgotten; a larger one is left unchecked.
#[derive(Clone)]
pub struct LearnedTools {
    max_tools: usize,
    max_bytes: usize,
    hasher: RandomState,
    table: Arc<RwLock<Table>>,
}

/// What was learned.
#[derive(Default)]
struct Table {
    tools: HashMap<Arc<str>, Learned>,
    /// The tools, those first that were not listed for the longest time.
    order: BTreeMap<u64, Arc<str>>,
    /// Counts the sightings.
    clock: u64,
}

struct Learned {
    /// `None` if the annotations are invalid.
    headers: Option<Arc<ParamHeaders>>,
    /// Tells whether a schema is the one that was read.
    fingerprint: u64,
    seen: u64,
}

impl LearnedTools {
    /// Knows no tool yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_tools: 1024,
            max_bytes: 64 * 1024,
            hasher: RandomState::new(),
            table: Arc::default(),
        }
    }

    /// Keeps up to this many tools. The default is 1,024.
    #[must_use]
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = tools;
        self
    }

    /// Reads schemas of up to this many bytes, the tool's name included. The default is 64 KiB.
    #[must_use]
    pub fn max_bytes_per_tool(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Learns from the JSON text of an answer to `tools/list`.
    ///
    /// For gateways that see lists which do not pass through the layer. A text that is no such
    /// answer teaches nothing.
    ///
    /// ```
    /// use mcp_layers::LearnedTools;
    ///
    /// let tools = LearnedTools::new();
    /// tools.learn(
    ///     br#"{ "jsonrpc": "2.0", "id": 1, "result": {
    ///         "tools": [{ "name": "get_weather", "inputSchema": { "type": "object" } }]
    ///     } }"#,
    /// );
    /// assert_eq!(format!("{tools:?}"), "LearnedTools(1 tool)");
    /// ```
    pub fn learn(&self, answer: &[u8]) {
        let Ok(tools) = read_answer(answer) else {
            return;
        };
        // A name is all that is kept of a tool that is too large.
        let named = tools.iter().filter_map(|tool| {
            let name = tool.name.as_deref()?;
            (name.len() <= self.max_bytes).then_some((name, tool))
        });
        for (name, tool) in named {
            self.learn_tool(name, tool);
        }
    }

    fn learn_tool(&self, name: &str, tool: &ToolText<'_>) {
        let fingerprint = self.hasher.hash_one(tool.schema);
        if self.write().see_again(name, fingerprint) {
            return;
        }
        let headers = if name.len() + tool.schema.len() > self.max_bytes {
            report_too_large(name, self.max_bytes);
            None
        } else {
            // The schema is read before the table is locked.
            tool.headers(name).inspect_err(report_invalid).ok()
        };
        let headers = headers.map(Arc::new);
        self.write()
            .insert(name, headers, fingerprint, self.max_tools);
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Nothing that holds the lock leaves the table half changed.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LearnedTools {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LearnedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.read().tools.len();
        let plural = if tools == 1 { "" } else { "s" };
        write!(f, "LearnedTools({tools} tool{plural})")
    }
}

// rule P5
impl ToolSchemas for LearnedTools {
    fn lookup(&self, tool: &str) -> Lookup {
        match self.read().tools.get(tool) {
            None => Lookup::Unknown,
            Some(learned) => match &learned.headers {
                None => Lookup::Unchecked,
                Some(headers) => Lookup::Known(Arc::clone(headers)),
            },
        }
    }

    fn observes(&self) -> bool {
        true
    }

    fn observe(&self, answer: &[u8]) {
        self.learn(answer);
    }
}

impl Table {
    /// Whether this very schema of the tool is known; it counts as listed then.
    fn see_again(&mut self, name: &str, fingerprint: u64) -> bool {
        let Some(known) = self.tools.get_mut(name) else {
            return false;
        };
        if known.fingerprint != fingerprint {
            return false;
        }
        self.clock += 1;
        if let Some(name) = self.order.remove(&known.seen) {
            self.order.insert(self.clock, name);
        }
        known.seen = self.clock;
        true
    }

    fn insert(
        &mut self,
        name: &str,
        headers: Option<Arc<ParamHeaders>>,
        fingerprint: u64,
        max_tools: usize,
    ) {
        self.clock += 1;
        let seen = self.clock;
        let name: Arc<str> = name.into();
        let learned = Learned {
            headers,
            fingerprint,
            seen,
        };
        if let Some(old) = self.tools.insert(Arc::clone(&name), learned) {
            self.order.remove(&old.seen);
        }
        self.order.insert(seen, name);
        while self.tools.len() > max_tools {
            let Some((_, oldest)) = self.order.pop_first() else {
                return;
            };
            self.tools.remove(&oldest);
        }
    }
}

/// Reads the tools in an answer; none if it is no answer to `tools/list`.
fn read_answer(text: &[u8]) -> Result<Vec<ToolText<'_>>, Malformed> {
    let mut tools = Vec::new();
    let mut cursor = Cursor::new(text);
    cursor.object(|cursor, key| {
        if !key.is("result") {
            cursor.value()?;
            return Ok(());
        }
        cursor.object(|cursor, key| {
            if key.is("tools") {
                read_tools(text, cursor, &mut tools)
            } else {
                cursor.value().map(drop)
            }
        })?;
        Ok(())
    })?;
    cursor.end()?;
    Ok(tools)
}

fn report_invalid(fault: &InvalidAnnotation) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        tool = fault.tool(),
        "a tool is left unchecked, and clients leave it out: {fault}"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = fault;
}

fn report_too_large(tool: &str, limit: usize) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        tool,
        limit,
        "the input schema of a tool is longer than the limit, so its calls are not checked"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (tool, limit);
}

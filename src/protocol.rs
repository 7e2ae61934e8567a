//! The names that the specification fixes, each known to the crate in this one place.

/// Names of headers, as HTTP/2 writes them.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>
pub(crate) mod header {
    use http::HeaderName;

    pub(crate) const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";
    pub(crate) const MCP_METHOD: &str = "mcp-method";
    pub(crate) const MCP_NAME: &str = "mcp-name";
    /// Followed by the name that a tool's schema gives to the parameter.
    pub(crate) const MCP_PARAM: &str = "mcp-param-";
    /// Only in the handshake era.
    pub(crate) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
    /// Only in the handshake era.
    pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
}

/// Keys of `_meta`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#meta>
pub(crate) mod meta {
    pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    #[cfg(feature = "reference")]
    pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

/// Methods that a rule or the reference service knows by name.
pub(crate) mod method {
    #[cfg(feature = "reference")]
    pub(crate) use super::service::*;

    pub(crate) const DISCOVER: &str = "server/discover";
    /// A log message of the server.
    pub(crate) const LOG: &str = "notifications/message";
    pub(crate) const INITIALIZE: &str = "initialize";
    /// Only in the handshake era.
    pub(crate) const SET_LOG_LEVEL: &str = "logging/setLevel";
    /// Only in the handshake era.
    pub(crate) const PING: &str = "ping";
    pub(crate) const TOOLS_CALL: &str = "tools/call";
    pub(crate) const TOOLS_LIST: &str = "tools/list";
    pub(crate) const PROMPTS_LIST: &str = "prompts/list";
    pub(crate) const PROMPTS_GET: &str = "prompts/get";
    pub(crate) const RESOURCES_LIST: &str = "resources/list";
    pub(crate) const TEMPLATES_LIST: &str = "resources/templates/list";
    pub(crate) const RESOURCES_READ: &str = "resources/read";

    /// The methods that most messages name, the most frequent first.
    const FREQUENT: [&str; 8] = [
        TOOLS_CALL,
        TOOLS_LIST,
        "notifications/initialized",
        INITIALIZE,
        PING,
        DISCOVER,
        RESOURCES_READ,
        PROMPTS_GET,
    ];

    /// One of the methods that most messages name, without a look at its UTF-8.
    pub(crate) fn frequent(method: &[u8]) -> Option<&'static str> {
        let mut methods = FREQUENT.into_iter();
        methods.find(|it| it.as_bytes() == method)
    }

    /// Whether `method` is one of a notification.
    pub(crate) fn is_notification(method: &str) -> bool {
        method.starts_with("notifications/")
    }

    /// Whether `method` acts on a task.
    pub(crate) fn names_task(method: &str) -> bool {
        matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
    }

    /// Methods that revision 2026-07-28 no longer has.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/changelog>
    pub(crate) const REMOVED: [&str; 5] = [
        INITIALIZE,
        PING,
        SET_LOG_LEVEL,
        "resources/subscribe",
        "resources/unsubscribe",
    ];

    /// Methods whose complete results must carry a caching hint.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cacheable-results>
    pub(crate) const CACHEABLE: [&str; 6] = [
        DISCOVER,
        TOOLS_LIST,
        PROMPTS_LIST,
        RESOURCES_LIST,
        TEMPLATES_LIST,
        RESOURCES_READ,
    ];
}

/// Methods that only the reference service knows by name.
#[cfg(feature = "reference")]
pub(crate) mod service {
    use super::method::{PROMPTS_GET, RESOURCES_READ, TOOLS_CALL};

    pub(crate) const COMPLETE: &str = "completion/complete";
    pub(crate) const LISTEN: &str = "subscriptions/listen";
    pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    pub(crate) const PROGRESS: &str = "notifications/progress";
    pub(crate) const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    pub(crate) const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    pub(crate) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

    /// Methods whose result may ask the client for more input.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#supported-requests>
    pub(crate) const ASKING: [&str; 3] = [PROMPTS_GET, RESOURCES_READ, TOOLS_CALL];
}

/// The levels of log messages, the most important last.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels>
pub(crate) const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Codes of JSON-RPC errors.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes>
pub(crate) mod code {
    pub(crate) const PARSE_ERROR: i32 = -32700;
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    pub(crate) const INTERNAL_ERROR: i32 = -32603;
    pub(crate) const HEADER_MISMATCH: i32 = -32020;
    pub(crate) const MISSING_CLIENT_CAPABILITY: i32 = -32021;
    pub(crate) const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
}

/// Revisions with per-request metadata, newest first.
pub(crate) const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];

/// Revisions with a handshake, newest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// One of the versions, without a look at its UTF-8.
pub(crate) fn known_version(version: &[u8]) -> Option<&'static str> {
    const LENGTH: usize = MODERN_VERSIONS[0].len();
    let version = <&[u8; LENGTH]>::try_from(version).ok()?;
    let versions = MODERN_VERSIONS.iter().chain(&LEGACY_VERSIONS);
    versions.copied().find(|it| it.as_bytes() == version)
}

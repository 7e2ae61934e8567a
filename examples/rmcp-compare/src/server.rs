//! The server: three tools, as the SDK's documentation writes them.

use std::sync::Arc;

use rmcp::{
    Peer, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{
        Implementation, ProgressNotificationParam, RequestMetaObject, ServerCapabilities,
        ServerConfig,
    },
    schemars, tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};

#[derive(Clone)]
pub(crate) struct Tools;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Echo {
    #[schemars(extend("x-mcp-header" = "Text"))]
    text: String,
}

#[tool_router]
impl Tools {
    #[tool(description = "Says hello")]
    async fn hello(&self) -> String {
        "hello".to_owned()
    }

    #[tool(description = "Returns the text")]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(description = "Counts aloud")]
    async fn count(&self, peer: Peer<RoleServer>, meta: RequestMetaObject) -> String {
        if let Some(token) = meta.get_progress_token() {
            for number in 1..=3 {
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(number));
                let _ = peer.notify_progress(progress).await;
            }
        }
        "counted".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp", "3"))
            .with_instructions("Three small tools.")
    }
}

/// The service of the SDK, in its default settings but for keep-alives, which no test waits for.
pub(crate) fn service() -> StreamableHttpService<Tools, LocalSessionManager> {
    let config = StreamableHttpServerConfig::default().with_sse_keep_alive(None);
    StreamableHttpService::new(|| Ok(Tools), Arc::default(), config)
}

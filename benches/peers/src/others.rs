//! The servers that the layers are compared with, as their documentation writes them.

use std::sync::Arc;

use axum::Router;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::Value;
use tower_mcp::{CallToolResult as TowerResult, HttpTransport, McpRouter, ToolBuilder};

use crate::{ANSWER, DESCRIPTION, names, schema};

#[derive(Clone)]
struct Tools(Arc<[Tool]>);

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("peers", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.to_vec()))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(ANSWER)]).into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.iter().find(|tool| tool.name == name).cloned()
    }
}

/// Without sessions and with plain JSON answers, which is the fastest that it has.
pub(crate) fn rmcp() -> Router {
    let Value::Object(schema) = schema() else {
        unreachable!("a schema is an object");
    };
    let schema = Arc::new(schema);
    let tools = names().map(|name| Tool::new(name, DESCRIPTION, Arc::clone(&schema)));
    let tools = Tools(tools.collect());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(tools.clone()),
        Arc::<LocalSessionManager>::default(),
        config,
    );
    Router::new().route_service("/mcp", service)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)] // only its shape counts
struct Weather {
    city: String,
    days: Option<u32>,
}

/// Without sessions.
pub(crate) fn tower_mcp() -> Router {
    let router = McpRouter::new().server_info("peers", "1.0.0");
    let router = names().fold(router, |router, name| {
        let tool = ToolBuilder::new(name)
            .description(DESCRIPTION)
            .handler(|_: Weather| async { Ok(TowerResult::text(ANSWER)) })
            .build();
        router.tool(tool)
    });
    HttpTransport::new(router)
        .stateless(tower_mcp::stateless::StatelessConfig::default())
        .into_router_at("/mcp")
}

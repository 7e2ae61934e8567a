//! Tools that answer by themselves: content of every kind, progress, log messages, changes.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use mcp_layers::reference::{
    LogLevel, Notifier, Progress, ReferenceService, Tool, ToolCall, ToolError, ToolResult,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::content;

const STEP: Duration = Duration::from_millis(50);

/// A tool without arguments.
pub(crate) fn plain(name: &str, description: &str) -> Tool {
    Tool::new(name, json!({ "type": "object" })).description(description)
}

pub(crate) fn add(service: ReferenceService, notifier: &Notifier) -> ReferenceService {
    let (tools, prompts) = (notifier.clone(), notifier.clone());
    service
        .tool(plain("test_simple_text", "Returns a text"), |_| {
            returns(ToolResult::text(
                "This is a simple text response for testing.",
            ))
        })
        .tool(plain("test_image_content", "Returns an image"), |_| {
            returns(ToolResult::default().content(content::image()))
        })
        .tool(plain("test_audio_content", "Returns a sound"), |_| {
            returns(ToolResult::default().content(content::audio()))
        })
        .tool(
            plain("test_embedded_resource", "Returns a resource"),
            |_| {
                let text = "This is an embedded resource content.";
                let resource = content::resource("test://embedded-resource", "text/plain", text);
                returns(ToolResult::default().content(resource))
            },
        )
        .tool(
            plain("test_multiple_content_types", "Returns a mixture"),
            |_| {
                let text = r#"{"test":"data","value":123}"#;
                let uri = "test://mixed-content-resource";
                returns(
                    ToolResult::text("Multiple content types test:")
                        .content(content::image())
                        .content(content::resource(uri, "application/json", text)),
                )
            },
        )
        .tool(plain("test_error_handling", "Fails, and says so"), |_| {
            returns(ToolResult::error(
                "This tool intentionally returns an error for testing",
            ))
        })
        .tool(
            plain("test_tool_with_progress", "Tells how far it is"),
            progress,
        )
        .tool(plain("test_tool_with_logging", "Tells what it does"), log)
        .tool(plain("test_logging_tool", "Tells what it does"), log)
        .tool(
            plain("test_trigger_tool_change", "Says that tools changed"),
            move |_| {
                tools.tools_list_changed();
                returns(ToolResult::text("Subscribers were told"))
            },
        )
        .tool(
            plain("test_trigger_prompt_change", "Says that prompts changed"),
            move |_| {
                prompts.prompts_list_changed();
                returns(ToolResult::text("Subscribers were told"))
            },
        )
        .tool(headers(), region)
        .tool(json_schema(), |_| {
            returns(ToolResult::text("All keywords stand in the list"))
        })
}

fn returns(result: ToolResult) -> Ready<Result<ToolResult, ToolError>> {
    ready(Ok(result))
}

async fn progress(call: ToolCall) -> Result<ToolResult, ToolError> {
    for (step, percent) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if step > 0 {
            sleep(STEP).await;
        }
        call.progress(Progress::new(percent).total(100.0)).await;
    }
    Ok(ToolResult::text("Done"))
}

async fn log(call: ToolCall) -> Result<ToolResult, ToolError> {
    call.log(LogLevel::Info, "Tool execution started").await;
    sleep(STEP).await;
    call.log(LogLevel::Info, "Tool processing data").await;
    sleep(STEP).await;
    call.log(LogLevel::Info, "Tool execution completed").await;
    Ok(ToolResult::text("Done"))
}

/// A tool with an argument that clients repeat in a header.
fn headers() -> Tool {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    let schema = json!({
        "type": "object",
        "properties": { "region": region },
        "required": ["region"],
    });
    Tool::new("test_x_mcp_header", schema).description("Returns what it is given")
}

#[derive(Deserialize)]
struct Region {
    region: String,
}

async fn region(call: ToolCall) -> Result<ToolResult, ToolError> {
    let Region { region } = call.arguments()?;
    Ok(ToolResult::text(region))
}

/// A tool whose schema uses what older servers strip.
fn json_schema() -> Tool {
    let address: Value = json!({
        "$anchor": "addressDef",
        "type": "object",
        "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
    });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": address },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    Tool::new("json_schema_2020_12_tool", schema)
        .description("Has a schema with keywords of JSON Schema 2020-12")
}

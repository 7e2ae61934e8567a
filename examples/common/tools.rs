//! The server that the examples put the layers around: four tools that answer real values.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_layers::{
    ServerInfo,
    reference::{ReferenceService, Tool, ToolCall, ToolError, ToolResult},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How the server introduces itself.
pub(crate) fn server_info() -> ServerInfo {
    ServerInfo::new("mcp-layers-reference", env!("CARGO_PKG_VERSION")).title("Reference server")
}

/// The server, without any layer around it.
pub(crate) fn service() -> ReferenceService {
    ReferenceService::new(server_info())
        .instructions("Four small tools to try a client with. The weather is made up.")
        .tool(
            tool("server_time", json!({}), &[])
                .title("Server time")
                .description("Tells the time of the server's clock, in UTC"),
            server_time,
        )
        .tool(
            tool("echo", json!({ "text": { "type": "string" } }), &["text"])
                .title("Echo")
                .description("Returns the text that it is given"),
            echo,
        )
        .tool(
            tool(
                "add",
                json!({ "a": { "type": "integer" }, "b": { "type": "integer" } }),
                &["a", "b"],
            )
            .title("Add")
            .description("Adds two whole numbers of up to 64 bits"),
            add,
        )
        .tool(
            tool(
                "get_weather",
                json!({
                    "region": { "type": "string", "minLength": 1, "x-mcp-header": "Region" },
                    "days": { "type": "integer", "minimum": 1, "maximum": MAX_DAYS, "default": 1 },
                }),
                &["region"],
            )
            .title("Weather")
            .description("Forecasts the weather of a region; made up from the region's letters"),
            get_weather,
        )
}

/// A tool that takes these arguments and no others.
fn tool(name: &str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = json!({ "type": "object", "additionalProperties": false });
    schema["properties"] = properties;
    schema["required"] = json!(required);
    Tool::new(name, schema)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn server_time(call: ToolCall) -> Result<ToolResult, ToolError> {
    let Nothing {} = call.arguments()?;
    // A clock before 1970 is none of the client's business.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(ToolError::internal)?;
    Ok(ToolResult::text(rfc3339(now.as_secs())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Echo {
    text: String,
}

async fn echo(call: ToolCall) -> Result<ToolResult, ToolError> {
    let Echo { text } = call.arguments()?;
    Ok(ToolResult::text(text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(call: ToolCall) -> Result<ToolResult, ToolError> {
    let Add { a, b } = call.arguments()?;
    match a.checked_add(b) {
        Some(sum) => Ok(ToolResult::text(sum.to_string())),
        None => Err(ToolError::invalid("The sum has more than 64 bits")),
    }
}

const MAX_DAYS: u32 = 14;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetWeather {
    region: String,
    days: Option<u32>,
}

async fn get_weather(call: ToolCall) -> Result<ToolResult, ToolError> {
    const SKIES: [&str; 5] = ["sunny", "cloudy", "rainy", "foggy", "stormy"];
    let GetWeather { region, days } = call.arguments()?;
    let days = days.unwrap_or(1);
    if region.is_empty() {
        return Err(ToolError::invalid("`region` is empty"));
    }
    if !(1..=MAX_DAYS).contains(&days) {
        let range = format!("`days` is not between 1 and {MAX_DAYS}");
        return Err(ToolError::invalid(range));
    }
    let letters = region.bytes().map(u32::from).sum::<u32>();
    let forecast = (1..=days).map(|day| {
        let sky = SKIES[((letters + 3 * day) % 5) as usize];
        json!({ "day": day, "sky": sky, "degrees": (letters + 7 * day) % 36 })
    });
    Ok(ToolResult::structured(json!({
        "region": region,
        "forecast": forecast.collect::<Value>(),
        "note": "Made up from the letters of the region's name",
    })))
}

/// A time in seconds since 1970, as RFC 3339 writes it.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        days + 1
    )
}

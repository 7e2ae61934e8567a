//! Resources and templates.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mcp_layers::reference::{
    InvalidTemplate, MethodCall, MethodError, ReferenceService, Resource, ResourceCall,
    ResourceResult, ResourceTemplate,
};
use serde_json::{Value, json};

use super::content::PNG;

pub(crate) fn add(service: ReferenceService) -> Result<ReferenceService, InvalidTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "Data")?
        .description("The data of an id")
        .mime_type("application/json");
    Ok(service
        .resource(
            resource("test://static-text", "Text", "text/plain"),
            |_| async {
                Ok(ResourceResult::text(
                    "This is the content of the static text resource.",
                ))
            },
        )
        .resource(
            resource("test://static-binary", "Image", "image/png"),
            |_| async {
                let png = BASE64_STANDARD.decode(PNG).map_err(MethodError::internal)?;
                Ok(ResourceResult::blob(png))
            },
        )
        .resource(
            resource("test://watched-resource", "Watched", "text/plain"),
            |_| async { Ok(ResourceResult::text("Subscribe to hear of changes.")) },
        )
        .resource_template(template, data)
        // Clients of the handshake era subscribe for a session. There is none here, so nothing is
        // advertised to them, and nothing is kept: one that asks all the same is not refused.
        .method("resources/subscribe", nothing)
        .method("resources/unsubscribe", nothing))
}

fn resource(uri: &str, name: &str, mime_type: &str) -> Resource {
    Resource::new(uri, name)
        .description("A resource for testing")
        .mime_type(mime_type)
}

async fn data(call: ResourceCall) -> Result<ResourceResult, MethodError> {
    let id = call.variable("id").unwrap_or_default();
    let data = format!("Data for ID: {id}");
    let text = json!({ "id": id, "templateTest": true, "data": data });
    Ok(ResourceResult::text(text.to_string()))
}

async fn nothing(_: MethodCall) -> Result<Value, MethodError> {
    Ok(json!({}))
}

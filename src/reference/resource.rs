//! Resources, and what comes out of reading one.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};

use super::{
    InputRequired,
    call::ResourceCall,
    handler::{Handler, Outcome},
    list::Listed,
};

/// A resource as `resources/list` shows it.
///
/// ```
/// use mcp_layers::{
///     ServerInfo,
///     reference::{ReferenceService, Resource, ResourceResult},
/// };
///
/// let resource = Resource::new("notes://today", "Today")
///     .description("What is to be done")
///     .mime_type("text/plain");
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0"))
///     .resource(resource, |_| async { Ok(ResourceResult::text("Buy milk")) });
/// ```
///
/// See [Resource] in the specification.
///
/// [Resource]: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Resource {
    uri: String,
    name: String,
    mime_type: Option<String>,
    others: Map<String, Value>,
}

impl Resource {
    /// A resource at this URI, under this name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            mime_type: None,
            others: Map::new(),
        }
    }

    /// Sets the name to show to people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into().into())
    }

    /// Sets what the resource is.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into().into())
    }

    /// Sets the type of the resource's contents, where they name none of their own.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size of the resource's contents in bytes.
    pub fn size(self, size: u64) -> Self {
        self.with("size", size.into())
    }

    /// Sets whom the resource is for, such as `{ "audience": ["user"], "priority": 0.8 }`.
    pub fn annotations(self, annotations: Value) -> Self {
        self.with("annotations", annotations)
    }

    /// The resource's URI.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        self.mime_type.as_deref()
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.others.insert(key.into(), value);
        self
    }
}

impl Listed for Resource {
    type Handler = Handler<ResourceCall>;

    const MEMBER: &'static str = "resources";

    fn key(&self) -> &str {
        &self.uri
    }

    fn to_json(&self) -> Value {
        let mut resource = self.others.clone();
        resource.insert("uri".into(), self.uri.clone().into());
        resource.insert("name".into(), self.name.clone().into());
        if let Some(mime_type) = &self.mime_type {
            resource.insert("mimeType".into(), mime_type.clone().into());
        }
        Value::Object(resource)
    }
}

/// What stands at one URI.
///
/// See [Resource Contents] in the specification.
///
/// [Resource Contents]: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-contents
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ResourceContents {
    uri: Option<String>,
    mime_type: Option<String>,
    /// The member that holds the data, and the data.
    data: (&'static str, String),
}

impl ResourceContents {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new("text", text.into())
    }

    /// Bytes of any kind.
    pub fn blob(bytes: impl AsRef<[u8]>) -> Self {
        Self::new("blob", BASE64_STANDARD.encode(bytes))
    }

    /// Sets the URI, where it is not the one that was asked for.
    pub fn uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Sets the type, where it is not the one of the resource.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    fn new(member: &'static str, data: String) -> Self {
        Self {
            uri: None,
            mime_type: None,
            data: (member, data),
        }
    }

    fn into_json(self) -> Value {
        let (member, data) = self.data;
        let mut contents = json!({ member: data });
        for (member, value) in [("uri", self.uri), ("mimeType", self.mime_type)] {
            if let Some(value) = value {
                contents[member] = value.into();
            }
        }
        contents
    }
}

/// What reading a resource gives.
///
/// ```
/// use mcp_layers::reference::{ResourceContents, ResourceResult};
///
/// let plain = ResourceResult::text("Buy milk");
/// let folder = ResourceResult::new()
///     .contents(ResourceContents::text("Buy milk").uri("notes://today/1"))
///     .contents(ResourceContents::blob([0x89, 0x50]).uri("notes://today/2").mime_type("image/png"));
/// ```
///
/// One made of an [`InputRequired`] asks the client for more.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct ResourceResult {
    contents: Vec<ResourceContents>,
    input: Option<InputRequired>,
}

impl ResourceResult {
    /// Nothing yet. A resource that does not exist is [`ResourceCall::not_found`] instead.
    pub fn new() -> Self {
        Self::default()
    }

    /// A text, at the URI that was asked for.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().contents(ResourceContents::text(text))
    }

    /// Bytes, at the URI that was asked for.
    pub fn blob(bytes: impl AsRef<[u8]>) -> Self {
        Self::new().contents(ResourceContents::blob(bytes))
    }

    /// Adds contents, behind those that are there.
    pub fn contents(mut self, contents: ResourceContents) -> Self {
        self.contents.push(contents);
        self
    }

    /// Says of all contents what they don't say themselves.
    pub(super) fn complete(mut self, uri: &str, mime_type: Option<&str>) -> Self {
        for contents in &mut self.contents {
            contents.uri.get_or_insert_with(|| uri.into());
            if contents.mime_type.is_none() {
                contents.mime_type = mime_type.map(Into::into);
            }
        }
        self
    }
}

impl From<InputRequired> for ResourceResult {
    fn from(input: InputRequired) -> Self {
        Self {
            input: Some(input),
            ..Self::default()
        }
    }
}

impl Outcome for ResourceResult {
    fn into_json(self) -> Value {
        if let Some(input) = self.input {
            return input.into_json();
        }
        let contents = self.contents.into_iter().map(ResourceContents::into_json);
        json!({ "contents": contents.collect::<Value>() })
    }
}

//! Where the schemas of tools come from.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::Value;

use super::schema::{InvalidAnnotation, InvalidAnnotationKind, ParamHeaders, may_be_annotated};
use crate::json::{Cursor, Malformed, Text};

/// Knows which headers a tool demands.
///
/// It is asked on every `tools/call` and answers from memory. Implement it where tools come and go
/// in ways that neither [`ToolHeaders`] nor [`LearnedTools`](crate::LearnedTools) covers:
///
/// ```
/// use std::sync::{Arc, RwLock};
///
/// use mcp_layers::{MirrorHeaderValidatorLayer, ToolHeaders, ToolSchemas, mirror::Lookup};
///
/// /// Tools that are replaced as a whole when a configuration is read again.
/// #[derive(Default)]
/// struct Reloaded(RwLock<ToolHeaders>);
///
/// impl ToolSchemas for Reloaded {
///     fn lookup(&self, tool: &str) -> Lookup {
///         match self.0.read() {
///             Ok(tools) => tools.lookup(tool),
///             Err(_) => Lookup::Unknown,
///         }
///     }
/// }
///
/// let tools = Arc::new(Reloaded::default());
/// let layer = MirrorHeaderValidatorLayer::new().tool_schemas(Arc::clone(&tools));
/// ```
pub trait ToolSchemas: Send + Sync {
    /// What is known about the tool of this name.
    fn lookup(&self, tool: &str) -> Lookup;

    /// Whether [`observe`](Self::observe) wants to see answers; asked once a `tools/list`.
    fn observes(&self) -> bool {
        false
    }

    /// Sees the JSON text of an answer to `tools/list`, of either era, on its way to the client.
    ///
    /// It may also see other messages that a server sends before that answer.
    fn observe(&self, answer: &[u8]) {
        let _ = answer;
    }
}

/// What a [`ToolSchemas`] knows about a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lookup {
    /// The tool demands these headers, perhaps none.
    Known(Arc<ParamHeaders>),
    /// The tool exists, but its annotations are invalid or could not be read: its calls pass.
    Unchecked,
    /// There is no such tool, as far as is known.
    Unknown,
}

impl<T: ToolSchemas + ?Sized> ToolSchemas for Arc<T> {
    fn lookup(&self, tool: &str) -> Lookup {
        (**self).lookup(tool)
    }

    fn observes(&self) -> bool {
        (**self).observes()
    }

    fn observe(&self, answer: &[u8]) {
        (**self).observe(answer);
    }
}

/// The headers that a fixed set of tools demands.
///
/// ```
/// use mcp_layers::{MirrorHeaderValidatorLayer, ToolHeaders};
/// use serde_json::json;
///
/// let tools = ToolHeaders::new().tool("execute_sql", &json!({
///     "type": "object",
///     "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
/// }))?;
/// let layer = MirrorHeaderValidatorLayer::new().tool_schemas(tools);
/// # Ok::<_, mcp_layers::mirror::InvalidAnnotation>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolHeaders(HashMap<Box<str>, Arc<ParamHeaders>>);

impl ToolHeaders {
    /// Knows no tool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool; one of the same name is replaced.
    ///
    /// # Errors
    ///
    /// Fails if an annotation is invalid, as [`ParamHeaders::of`] does.
    pub fn tool(
        mut self,
        name: impl Into<String>,
        input_schema: &Value,
    ) -> Result<Self, InvalidAnnotation> {
        let name = name.into();
        let headers = ParamHeaders::of(&name, input_schema)?;
        self.0.insert(name.into(), Arc::new(headers));
        Ok(self)
    }

    /// Reads the JSON text of an array of tools, as `tools/list` gives it.
    ///
    /// ```
    /// use mcp_layers::ToolHeaders;
    ///
    /// let tools = ToolHeaders::from_json(
    ///     r#"[{ "name": "get_weather", "inputSchema": { "type": "object" } }]"#,
    /// )?;
    /// # Ok::<_, mcp_layers::mirror::InvalidAnnotation>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`Unreadable`](InvalidAnnotationKind::Unreadable) if the text is not an array of
    /// objects that have a `name`, and if an annotation is invalid, as [`ParamHeaders::of`] does.
    pub fn from_json(tools: impl AsRef<[u8]>) -> Result<Self, InvalidAnnotation> {
        let unreadable =
            || InvalidAnnotation::new("", String::new(), InvalidAnnotationKind::Unreadable);
        let text = tools.as_ref();
        let mut read = Vec::new();
        let mut cursor = Cursor::new(text);
        if cursor.peek() != Some(b'[') {
            return Err(unreadable());
        }
        read_tools(text, &mut cursor, &mut read)
            .and_then(|()| cursor.end())
            .map_err(|Malformed| unreadable())?;
        let mut headers = Self::new();
        for tool in read {
            let name = tool.name.as_deref().ok_or_else(unreadable)?;
            let demanded = tool.headers(name)?;
            headers.0.insert(name.into(), Arc::new(demanded));
        }
        Ok(headers)
    }
}

impl ToolSchemas for ToolHeaders {
    fn lookup(&self, tool: &str) -> Lookup {
        let known = self.0.get(tool).map(Arc::clone);
        known.map_or(Lookup::Unknown, Lookup::Known)
    }
}

/// A tool as it stands in a list.
#[derive(Default)]
pub(super) struct ToolText<'a> {
    /// `None` if it is missing or no well-formed string.
    pub(super) name: Option<Cow<'a, str>>,
    /// The JSON text of the input schema; empty without one.
    pub(super) schema: &'a [u8],
}

impl ToolText<'_> {
    /// Reads the schema, if something in it can be annotated.
    pub(super) fn headers(&self, name: &str) -> Result<ParamHeaders, InvalidAnnotation> {
        if !may_be_annotated(self.schema) {
            return Ok(ParamHeaders::default());
        }
        let schema = serde_json::from_slice(self.schema).map_err(|_| {
            InvalidAnnotation::new(name, String::new(), InvalidAnnotationKind::Unreadable)
        })?;
        ParamHeaders::of(name, &schema)
    }
}

/// Passes an array of tools.
///
/// A value that is no array holds none, and so does an element that is no object.
pub(super) fn read_tools<'a>(
    text: &'a [u8],
    cursor: &mut Cursor<'a>,
    tools: &mut Vec<ToolText<'a>>,
) -> Result<(), Malformed> {
    cursor.array(|cursor| {
        let mut tool = ToolText::default();
        cursor.object(|cursor, key| {
            let (is_name, is_schema) = (key.is("name"), key.is("inputSchema"));
            let value = cursor.value()?;
            if is_name {
                tool.name = value.string(text).and_then(Text::decode);
            } else if is_schema {
                tool.schema = &text[value.span()];
            }
            Ok(())
        })?;
        tools.push(tool);
        Ok(())
    })?;
    Ok(())
}

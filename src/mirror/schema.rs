//! What one tool wants repeated in headers, as its input schema says.

use std::{
    collections::{HashSet, VecDeque},
    error::Error,
    fmt,
};

use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";

/// What stands before the annotated name in the name of the header.
const PREFIX: &str = "Mcp-Param-";

/// How many `properties` may lead to an annotated one.
///
/// The arguments of a call are read one stack frame a step, and `serde_json` reads no deeper.
const MAX_STEPS: usize = 64;

/// The headers that one tool demands, and the arguments that they repeat.
///
/// ```
/// use mcp_layers::mirror::ParamHeaders;
/// use serde_json::json;
///
/// let headers = ParamHeaders::of("execute_sql", &json!({
///     "type": "object",
///     "properties": {
///         "region": { "type": "string", "x-mcp-header": "Region" },
///         "query": { "type": "string" },
///     },
/// }))?;
/// assert_eq!(headers.names().collect::<Vec<_>>(), ["Mcp-Param-Region"]);
/// # Ok::<_, mcp_layers::mirror::InvalidAnnotation>(())
/// ```
///
/// See [Schema Extension] in the specification.
///
/// [Schema Extension]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#schema-extension
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ParamHeaders {
    /// The arguments, then the properties that lead to an annotation; empty without one.
    nodes: Vec<Node>,
}

/// An annotated property, or an object around one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Node {
    /// The whole name of the header that repeats this property.
    header: Option<Box<str>>,
    /// Names of properties with the places of their nodes, in order.
    members: Vec<(Box<str>, usize)>,
    /// A bit for each length that a member's name has.
    lengths: u64,
}

/// Lengths that do not fit share the last bit.
fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

impl ParamHeaders {
    /// Reads the input schema of `tool`.
    ///
    /// # Errors
    ///
    /// Fails if an annotation breaks a constraint of the specification:
    ///
    /// - [`Name`](InvalidAnnotationKind::Name): it is not a string that can stand in the name of a
    ///   header.
    /// - [`Repeated`](InvalidAnnotationKind::Repeated): another property has the same name, case
    ///   aside.
    /// - [`Type`](InvalidAnnotationKind::Type): the property is not declared as one of `string`,
    ///   `integer` and `boolean`.
    /// - [`Misplaced`](InvalidAnnotationKind::Misplaced): something else than `properties` leads
    ///   to it.
    /// - [`TooDeep`](InvalidAnnotationKind::TooDeep): more than 64 properties lead to it.
    // rule P1
    pub fn of(tool: &str, input_schema: &Value) -> Result<Self, InvalidAnnotation> {
        let mut headers = Self::default();
        let mut survey = Survey::new(input_schema);
        let mut names = HashSet::new();
        while let Some((place, at, value)) = survey.advance() {
            let fault = |kind| InvalidAnnotation::new(tool, survey.pointer(at), kind);
            let Value::Object(schema) = value else {
                continue;
            };
            let Some(annotation) = schema.get(ANNOTATION) else {
                continue;
            };
            if place != Place::Property {
                return Err(fault(InvalidAnnotationKind::Misplaced));
            }
            let name = match annotation.as_str() {
                Some(name) if is_token(name) => name,
                _ => return Err(fault(InvalidAnnotationKind::Name)),
            };
            if !has_plain_type(schema) {
                return Err(fault(InvalidAnnotationKind::Type));
            }
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(fault(InvalidAnnotationKind::Repeated));
            }
            let path = survey.properties(at);
            if path.len() > MAX_STEPS {
                return Err(fault(InvalidAnnotationKind::TooDeep));
            }
            headers.add(&path, name);
        }
        Ok(headers)
    }

    /// The names of the headers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| node.header.as_deref())
    }

    fn add(&mut self, path: &[&str], name: &str) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = Self::ARGUMENTS;
        for step in path {
            let next = self.nodes.len();
            self.nodes[node].lengths |= length_bit(step.len());
            let members = &mut self.nodes[node].members;
            node = match members.binary_search_by(|(known, _)| (**known).cmp(step)) {
                Ok(at) => members[at].1,
                Err(at) => {
                    members.insert(at, ((*step).into(), next));
                    self.nodes.push(Node::default());
                    next
                }
            };
        }
        self.nodes[node].header = Some(format!("{PREFIX}{name}").into());
    }

    /// The node of the arguments themselves.
    pub(super) const ARGUMENTS: usize = 0;

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether something inside of this node is annotated.
    pub(super) fn has_members(&self, node: usize) -> bool {
        !self.nodes[node].members.is_empty()
    }

    /// The node of a member that is annotated or holds something that is.
    pub(super) fn member(&self, node: usize, name: &[u8]) -> Option<usize> {
        let node = &self.nodes[node];
        // Most arguments are not annotated, and of another length than those that are.
        if node.lengths & length_bit(name.len()) == 0 {
            return None;
        }
        let members = &node.members;
        let at = members.binary_search_by(|(known, _)| known.as_bytes().cmp(name));
        at.ok().map(|at| members[at].1)
    }

    /// The property's name.
    pub(super) fn property(&self, node: usize) -> &str {
        let mut members = self.nodes.iter().flat_map(|node| &node.members);
        let found = members.find(|(_, it)| *it == node);
        found.map_or("", |(name, _)| name)
    }

    /// The nodes that a header repeats, each with the header's name and what that is without its
    /// prefix.
    pub(super) fn headers(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let headers = self.nodes.iter().enumerate();
        headers.filter_map(|(node, it)| {
            let header = it.header.as_deref()?;
            Some((node, header, &header[PREFIX.len()..]))
        })
    }
}

/// Whether the text of a schema may hold an annotation: it does, or spells ASCII with escapes.
pub(super) fn may_be_annotated(schema: &[u8]) -> bool {
    let name = ANNOTATION.as_bytes();
    let is_escape = |part: &[u8]| matches!(part, [b'\\', b'u', b'0', b'0', b'2'..=b'7']);
    schema.windows(name.len()).any(|part| part == name) || schema.windows(5).any(is_escape)
}

/// RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    const MARKS: &[u8] = b"!#$%&'*+-.^_`|~";
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || MARKS.contains(&byte);
    !name.is_empty() && name.bytes().all(is_tchar)
}

fn has_plain_type(schema: &Map<String, Value>) -> bool {
    let plain = ["string", "integer", "boolean"];
    let declared = schema.get("type").and_then(Value::as_str);
    declared.is_some_and(|declared| plain.contains(&declared))
}

/// What a value inside of a schema is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// The whole schema.
    Root,
    /// The schema of a property to which `properties` alone lead.
    Property,
    /// Anything else that may be a schema, or hold some.
    Elsewhere,
    /// Names with the schema of each.
    Schemas { of_properties: bool },
}

/// All that may be a schema inside of a schema, from the outside in.
///
/// Nothing is recursive: who writes schemas decides how deep they are.
struct Survey<'a> {
    due: VecDeque<(Place, usize, &'a Value)>,
    /// What leads to each value that was reached: the place of the step before, and the name or
    /// the index behind it.
    steps: Vec<(usize, Step<'a>)>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Survey<'a> {
    fn new(schema: &'a Value) -> Self {
        Self {
            due: VecDeque::from([(Place::Root, 0, schema)]),
            steps: vec![(0, Step::Index(0))],
        }
    }

    /// The next place, what leads there, and what is there.
    fn advance(&mut self) -> Option<(Place, usize, &'a Value)> {
        loop {
            let (place, at, value) = self.due.pop_front()?;
            match value {
                Value::Array(values) => {
                    for (index, value) in values.iter().enumerate() {
                        self.visit(Place::Elsewhere, at, Step::Index(index), value);
                    }
                }
                Value::Object(members) => {
                    for (name, value) in members {
                        if let Some(place) = place.inside(name) {
                            self.visit(place, at, Step::Name(name), value);
                        }
                    }
                }
                _ => {}
            }
            if !matches!(place, Place::Schemas { .. }) {
                return Some((place, at, value));
            }
        }
    }

    fn visit(&mut self, place: Place, before: usize, step: Step<'a>, value: &'a Value) {
        if value.is_object() || value.is_array() {
            self.due.push_back((place, self.steps.len(), value));
            self.steps.push((before, step));
        }
    }

    /// What leads to a place, from the outside in.
    fn path(&self, mut at: usize) -> Vec<Step<'a>> {
        let mut path = Vec::new();
        while at != 0 {
            let (before, step) = self.steps[at];
            path.push(step);
            at = before;
        }
        path.reverse();
        path
    }

    /// The names of the properties that lead to a place to which nothing else leads.
    fn properties(&self, at: usize) -> Vec<&'a str> {
        let path = self.path(at);
        // Every other step is `properties` itself.
        let names = path.iter().skip(1).step_by(2);
        names
            .filter_map(|step| match step {
                Step::Name(name) => Some(*name),
                Step::Index(_) => None,
            })
            .collect()
    }

    /// Where a place is, as a JSON Pointer.
    fn pointer(&self, at: usize) -> String {
        let mut pointer = String::new();
        for step in self.path(at) {
            pointer.push('/');
            match step {
                Step::Name(name) => pointer += &name.replace('~', "~0").replace('/', "~1"),
                Step::Index(index) => pointer += &index.to_string(),
            }
        }
        pointer
    }
}

impl Place {
    /// What the member `name` of an object in this place is; `None` if it is data.
    fn inside(self, name: &str) -> Option<Self> {
        if let Self::Schemas { of_properties } = self {
            return Some(if of_properties {
                Self::Property
            } else {
                Self::Elsewhere
            });
        }
        Some(match name {
            // Whatever looks like an annotation in there is none.
            "const" | "default" | "dependentRequired" | "enum" | "example" | "examples"
            | ANNOTATION => return None,
            "properties" => Self::Schemas {
                of_properties: self != Self::Elsewhere,
            },
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
                Self::Schemas {
                    of_properties: false,
                }
            }
            // Keywords that hold schemas, and unknown ones, which a `$ref` may make one.
            _ => Self::Elsewhere,
        })
    }
}

/// An `x-mcp-header` annotation breaks a constraint of the specification.
///
/// Clients leave the whole tool out of their lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidAnnotation {
    tool: String,
    pointer: String,
    kind: InvalidAnnotationKind,
}

/// What is wrong with an annotation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum InvalidAnnotationKind {
    /// Something else than `properties` leads to it: `items`, `oneOf`, `$defs` and the like.
    Misplaced,
    /// The name is not a string that can stand in the name of a header.
    Name,
    /// Another property has the same name, case aside.
    Repeated,
    /// More than 64 properties lead to it.
    TooDeep,
    /// The property is not declared as one of `string`, `integer` and `boolean`.
    Type,
    /// The text is not that of tools with names and schemas.
    Unreadable,
}

impl InvalidAnnotation {
    pub(super) fn new(tool: &str, pointer: String, kind: InvalidAnnotationKind) -> Self {
        Self {
            tool: tool.to_owned(),
            pointer,
            kind,
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> InvalidAnnotationKind {
        self.kind
    }

    /// The name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Where in the tool's input schema the annotated property is, as a JSON Pointer.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }
}

/// Writes where the annotation is, what is wrong, and what to do.
impl fmt::Display for InvalidAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.kind {
            InvalidAnnotationKind::Misplaced => {
                "is not reached through `properties` alone; move it to such a property or remove it"
            }
            InvalidAnnotationKind::Name => {
                "is not a name for a header; use letters, digits and hyphens"
            }
            InvalidAnnotationKind::Repeated => {
                "repeats the name of another one, case aside; choose another name"
            }
            InvalidAnnotationKind::TooDeep => "lies below more than 64 properties; move it up",
            InvalidAnnotationKind::Type => {
                "needs a property whose `type` is \"string\", \"integer\" or \"boolean\""
            }
            InvalidAnnotationKind::Unreadable => {
                let text = if self.tool.is_empty() {
                    "the tools".to_owned()
                } else {
                    format!("the schema of tool `{}`", self.tool)
                };
                return write!(
                    f,
                    "{text} cannot be read; give JSON: an array of `name` and `inputSchema`"
                );
            }
        };
        let (tool, pointer) = (&self.tool, &self.pointer);
        write!(f, "`{ANNOTATION}` at `{pointer}` of tool `{tool}` {fault}")
    }
}

impl Error for InvalidAnnotation {}

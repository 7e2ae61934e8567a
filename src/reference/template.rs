//! Resources whose URI has parts that the client fills in.

use std::{error::Error, fmt};

use serde_json::{Map, Value};

use super::{
    call::{ResourceCall, Variables},
    handler::Handler,
    list::Listed,
};

/// Many resources in one, as `resources/templates/list` shows it.
///
/// The template is a URI with variables in braces, as [RFC 6570] expands them on its first level:
/// a value is of letters, digits, `-`, `.`, `_`, `~` and percent-encoded bytes, and not empty.
///
/// ```
/// use mcp_layers::{
///     ServerInfo,
///     reference::{MethodError, ReferenceService, ResourceCall, ResourceResult, ResourceTemplate},
/// };
///
/// async fn note(call: ResourceCall) -> Result<ResourceResult, MethodError> {
///     match call.variable("id") {
///         Some("7") => Ok(ResourceResult::text("Buy milk")),
///         _ => Err(call.not_found()),
///     }
/// }
///
/// let template = ResourceTemplate::new("notes://{owner}/{id}", "Notes")?.mime_type("text/plain");
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0"))
///     .resource_template(template, note);
/// # Ok::<_, mcp_layers::reference::InvalidTemplate>(())
/// ```
///
/// # Warning
///
/// The handler gets values with their percent-encoding resolved: `..%2F..` is the value `../..`.
/// One that opens files has to refuse what leads out of its folder.
///
/// See [Resource Templates] in the specification.
///
/// [RFC 6570]: https://datatracker.ietf.org/doc/html/rfc6570
/// [Resource Templates]: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ResourceTemplate {
    template: String,
    parts: Vec<Part>,
    name: String,
    mime_type: Option<String>,
    others: Map<String, Value>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    Variable(String),
}

/// A text that is no template this service can match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidTemplate {
    template: String,
    fault: &'static str,
}

impl ResourceTemplate {
    /// The resources that this template stands for, under this name.
    ///
    /// # Errors
    ///
    /// [`InvalidTemplate`] for other expressions than `{variable}`, for two without anything in
    /// between, for a name that occurs twice, and for what stands in no URI.
    pub fn new(
        template: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, InvalidTemplate> {
        let template = template.into();
        match parse(&template) {
            Ok(parts) => Ok(Self {
                template,
                parts,
                name: name.into(),
                mime_type: None,
                others: Map::new(),
            }),
            Err(fault) => Err(InvalidTemplate { template, fault }),
        }
    }

    /// Sets the name to show to people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into().into())
    }

    /// Sets what the resources are.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into().into())
    }

    /// Sets the type of the resources' contents, where they name none of their own.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets whom the resources are for, such as `{ "audience": ["user"], "priority": 0.8 }`.
    pub fn annotations(self, annotations: Value) -> Self {
        self.with("annotations", annotations)
    }

    /// The template, as it was given.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        self.mime_type.as_deref()
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.others.insert(key.into(), value);
        self
    }

    /// The names and values of the variables, if the URI is one of this template.
    // rule R5
    pub(super) fn variables(&self, uri: &str) -> Option<Variables> {
        let (mut variables, mut rest) = (Vec::new(), uri.as_bytes());
        let mut parts = self.parts.iter();
        while let Some(part) = parts.next() {
            let name = match part {
                Part::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_bytes())?;
                    continue;
                }
                Part::Variable(name) => name,
            };
            let end = match parts.as_slice() {
                [Part::Literal(last)] => value(rest, |after| after == last.as_bytes()),
                [Part::Literal(next), ..] => {
                    value(rest, |after| after.starts_with(next.as_bytes()))
                }
                _ => value(rest, <[_]>::is_empty),
            };
            let (value, after) = rest.split_at(end?);
            variables.push((name.clone(), decode(value)?));
            rest = after;
        }
        rest.is_empty().then_some(variables)
    }
}

/// The length of the shortest value before a text that `ends` it.
///
/// The shortest is enough: what it leaves is taken by the next variable, and a literal that no
/// value can hold is met only once.
fn value(text: &[u8], ends: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let mut rest = text;
    loop {
        rest = match rest {
            [b'%', a, b, after @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            [byte, after @ ..] if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => after,
            _ => return None,
        };
        if ends(rest) {
            return Some(text.len() - rest.len());
        }
    }
}

/// Resolves percent-encoding; `None` if that is not UTF-8.
fn decode(value: &[u8]) -> Option<String> {
    let (mut decoded, mut rest) = (Vec::with_capacity(value.len()), value);
    while let [byte, after @ ..] = rest {
        if let ([b'%', digits @ ..], Some((_, after))) = (rest, rest.split_at_checked(3)) {
            let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    String::from_utf8(decoded).ok()
}

fn parse(template: &str) -> Result<Vec<Part>, &'static str> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (literal, after) = match rest.split_once('{') {
            Some((literal, after)) => (literal, Some(after)),
            None => (rest, None),
        };
        if literal.contains('}') {
            return Err("a brace is closed that is not open");
        }
        if !literal.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("what is not visible ASCII has to be percent-encoded");
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        let Some(after) = after else { break };
        let (name, after) = after.split_once('}').ok_or("a brace is not closed")?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err("only `{variable}` is known, of letters, digits and underscores");
        }
        if matches!(parts.last(), Some(Part::Variable(_))) {
            return Err("nothing stands between two variables");
        }
        let variable = Part::Variable(name.into());
        if parts.contains(&variable) {
            return Err("a variable occurs twice");
        }
        parts.push(variable);
        rest = after;
    }
    if matches!(parts.as_slice(), [] | [Part::Variable(_)]) {
        return Err("it would match everything or nothing");
    }
    Ok(parts)
}

impl Listed for ResourceTemplate {
    type Handler = Handler<ResourceCall>;

    const MEMBER: &'static str = "resourceTemplates";

    fn key(&self) -> &str {
        &self.template
    }

    fn to_json(&self) -> Value {
        let mut template = self.others.clone();
        template.insert("uriTemplate".into(), self.template.clone().into());
        template.insert("name".into(), self.name.clone().into());
        if let Some(mime_type) = &self.mime_type {
            template.insert("mimeType".into(), mime_type.clone().into());
        }
        Value::Object(template)
    }
}

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid template {:?}: {}", self.template, self.fault)
    }
}

impl Error for InvalidTemplate {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(template: &str, uri: &str) -> Option<String> {
        let template = ResourceTemplate::new(template, "t").unwrap();
        let variables = template.variables(uri)?;
        let pairs = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        Some(pairs.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_uri_of_the_template_gives_its_values() {
        for (template, uri, expected) in [
            ("x://{a}", "x://1", "a=1"),
            ("x://{a}/{b}", "x://1/2", "a=1,b=2"),
            ("x://{a}/data", "x://123/data", "a=123"),
            ("x://{a}data", "x://datadata", "a=data"),
            ("x://{a}-{b}.txt", "x://1-2-3.txt.txt", "a=1,b=2-3.txt"),
            ("x://{a}x{b}", "x://1x2x3", "a=1,b=2x3"),
            ("x://{a}0", "x://%200", "a= "),
            ("x://{a}0/{b}", "x://%200/1", "a= ,b=1"),
            ("{scheme}:rest", "https:rest", "scheme=https"),
            ("x://{a}", "x://%C3%A9%2F..%2f", "a=é/../"),
            ("x://{a}", "x://-._~", "a=-._~"),
            ("x://fixed", "x://fixed", ""),
            ("x://{A_1}?q={b}#f", "x://1?q=2#f", "A_1=1,b=2"),
        ] {
            assert_eq!(variables(template, uri).as_deref(), Some(expected), "{uri}");
        }
    }

    #[test]
    fn any_other_uri_is_none() {
        for (template, uri) in [
            ("x://{a}", ""),
            ("x://{a}", "x://"),
            ("x://{a}", "X://1"),
            ("x://{a}", "x://1/2"),
            ("x://{a}", "x://a b"),
            ("x://{a}", "x://é"),
            ("x://{a}", "x://%"),
            ("x://{a}", "x://%4"),
            ("x://{a}", "x://%zz"),
            ("x://{a}", "x://%+1"),
            ("x://{a}", "x://%ff"),
            ("x://{a}", "x://1?q"),
            ("x://{a}/data", "x:///data"),
            ("x://{a}/data", "x://1/data/"),
            ("x://{a}/data", "x://1/2/data"),
            ("x://{a}/{b}", "x://1"),
            ("x://fixed", "x://fixed/"),
        ] {
            assert_eq!(variables(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn what_cannot_be_matched_is_no_template() {
        for template in [
            "",
            "{a}",
            "x://{",
            "x://}",
            "x://{}",
            "x://{a",
            "x://a}",
            "x://{a}}",
            "x://{{a}}",
            "x://{+a}",
            "x://{#a}",
            "x://{/a}",
            "x://{?a,b}",
            "x://{a*}",
            "x://{a:3}",
            "x://{a b}",
            "x://{a}{b}",
            "x://{a}/{a}",
            "x://é/{a}",
            "x:// {a}",
            "x://{é}",
        ] {
            let error = ResourceTemplate::new(template, "t").unwrap_err();
            assert!(
                error.to_string().starts_with("invalid template"),
                "{template}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_was_expanded_is_found_again(a in "[^/]{1,8}", b in any::<String>()) {
            prop_assume!(!b.is_empty());
            let encode = |value: &str| {
                let bytes = value.bytes().map(|byte| format!("%{byte:02X}"));
                bytes.collect::<Vec<_>>().concat()
            };
            let uri = format!("x://{}/y/{}.z", encode(&a), encode(&b));
            let template = ResourceTemplate::new("x://{a}/y/{b}.z", "t").unwrap();
            let expected = vec![("a".to_owned(), a), ("b".to_owned(), b)];
            prop_assert_eq!(template.variables(&uri), Some(expected));
        }

        #[test]
        fn any_text_is_matched_or_not(uri in any::<String>(), tail in "[%a/.]{0,20}") {
            let template = ResourceTemplate::new("x://{a}/{b}.z", "t").unwrap();
            let _ = template.variables(&uri);
            let _ = template.variables(&format!("x://{tail}"));
        }
    }
}

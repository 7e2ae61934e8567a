//! Comparing `Mcp-Param-*` headers with the arguments of a call.

use super::{decoded, refuse, refuse_because, schema::ParamHeaders};
use crate::{
    head::{Field, Head},
    json::{Cursor, Kind, Malformed, Value},
    number,
    rejection::{Rejection, RejectionKind},
};

/// Compares the headers that the called tool demands with the JSON text of the arguments.
// rules P2, P4
pub(super) fn check(
    params: &ParamHeaders,
    arguments: Option<&[u8]>,
    head: &Head<'_>,
) -> Result<(), Box<Rejection>> {
    if params.is_empty() {
        return Ok(());
    }
    let text = arguments.unwrap_or_default();
    let mut found = Found::new(params);
    if !text.is_empty() {
        found
            .walk(&mut Cursor::new(text), ParamHeaders::ARGUMENTS)
            .map_err(|Malformed| {
                let text = "Parse error: the arguments are not JSON";
                Rejection::new(RejectionKind::ParseError, text)
            })?;
    }
    if let Some(node) = found.repeated {
        let property = params.property(node);
        let text = format!("Invalid Request: the argument `{property}` occurs twice");
        return Err(Rejection::new(RejectionKind::RepeatedMember, text));
    }
    for (node, header, name) in params.headers() {
        let value = found.values[node].as_ref();
        compare(header, head.param(name), value, text)?;
    }
    Ok(())
}

/// The arguments that are annotated, or lead to one that is.
struct Found<'a> {
    params: &'a ParamHeaders,
    /// By node.
    values: Vec<Option<Value>>,
    /// The first node that occurs twice.
    repeated: Option<usize>,
    scratch: String,
}

impl<'a> Found<'a> {
    fn new(params: &'a ParamHeaders) -> Self {
        Self {
            params,
            values: vec![None; params.len()],
            repeated: None,
            scratch: String::new(),
        }
    }

    /// Passes the value of a node; recursive no deeper than the annotations lie.
    fn walk(&mut self, cursor: &mut Cursor<'_>, node: usize) -> Result<Value, Malformed> {
        let params = self.params;
        if !params.has_members(node) {
            return cursor.value();
        }
        cursor.object(|cursor, key| {
            // A key with a lone surrogate is no name.
            let name = key.bytes(&mut self.scratch);
            let member = name.and_then(|name| params.member(node, name));
            match member {
                None => {
                    cursor.value()?;
                }
                // rule B3
                Some(member) if self.values[member].is_some() => {
                    self.repeated = self.repeated.or(Some(member));
                    cursor.value()?;
                }
                Some(member) => {
                    let value = self.walk(cursor, member)?;
                    self.values[member] = Some(value);
                }
            }
            Ok(())
        })
    }
}

/// Compares one header with the argument that it repeats.
///
/// The type that the schema declares does not matter: a value of another type than declared
/// compares as it prints, and what it is tells how that is.
// rules P2, P3
fn compare(
    header: &str,
    field: Field<'_>,
    value: Option<&Value>,
    text: &[u8],
) -> Result<(), Box<Rejection>> {
    let mismatch = || Err(refuse(RejectionKind::HeaderMismatch, header));
    let malformed = || Err(refuse(RejectionKind::MalformedHeader, header));
    let unfit = || {
        let text = "cannot repeat the value in the body";
        refuse_because(RejectionKind::HeaderMismatch, header, "mismatch", text)
    };
    let Some(value) = value.filter(|value| value.kind != Kind::Null) else {
        if field == Field::Absent {
            return Ok(());
        }
        decoded(header, field)?;
        return mismatch();
    };
    let equal = match value.kind {
        Kind::Number => {
            let number = number::safe_integer(&text[value.span()]).ok_or_else(unfit)?;
            let sent = decoded(header, field)?;
            if !number::is_number(&sent) {
                return malformed();
            }
            number::safe_integer(&sent) == Some(number)
        }
        Kind::True | Kind::False => match &*decoded(header, field)? {
            b"true" => value.kind == Kind::True,
            b"false" => value.kind == Kind::False,
            _ => return malformed(),
        },
        Kind::String { .. } => {
            let sent = decoded(header, field)?;
            value.is_string(text, &*sent)
        }
        Kind::Array | Kind::Object | Kind::Null => return Err(unfit()),
    };
    if equal { Ok(()) } else { mismatch() }
}

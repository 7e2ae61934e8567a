//! State that travels through the client.
//!
//! Between two rounds of a request the server keeps nothing: what it has to know again, the client
//! carries. The client could write or replay anything there, so this service takes back only what
//! it has sealed itself, for the same principal and the same request, and not for long.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use http::Extensions;
use serde::{Serialize, de::DeserializeOwned};
use sha2::Sha256;

use super::MethodError;
use crate::message::Message;

/// As many bytes as the hash gives: a shorter key is the easier thing to guess.
const KEY_LENGTH: usize = 32;
const TAG_LENGTH: usize = 32;
const EXPIRY_LENGTH: usize = 8;
/// Changes with what is covered: a state of another version is none.
const VERSION: u8 = 1;
const LIFETIME: Duration = Duration::from_secs(600);

/// Seals the state of requests that ask for input.
///
/// The seal is an HMAC with SHA-256 over the state, the time when it expires, the principal, the
/// method, and the name and arguments or the URI. It keeps clients from changing the state, not
/// from reading it: put no secret in. It also does not keep them from coming twice within its
/// lifetime: what may happen only once has to be remembered by the server.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layers::{
///     ServerInfo,
///     reference::{InputRequest, InputRequired, ReferenceService, StateSeal, ToolCall, ToolError, ToolResult},
/// };
///
/// /// What your authentication leaves in the request's extensions.
/// #[derive(Clone)]
/// struct Principal(String);
///
/// async fn count_roots(call: ToolCall) -> Result<ToolResult, ToolError> {
///     let round: u32 = call.unseal()?.unwrap_or(0);
///     if round == 3 {
///         return Ok(ToolResult::text("That is enough"));
///     }
///     let state = call.seal(&(round + 1))?;
///     Ok(InputRequired::new().request("roots", InputRequest::roots()).state(state).into())
/// }
///
/// # fn key_from_your_secrets() -> [u8; 32] { [7; 32] }
/// let seal = StateSeal::new(key_from_your_secrets())?
///     .lifetime(Duration::from_secs(120))
///     .principal(|extensions| extensions.get::<Principal>().map(|it| it.0.clone()));
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0")).state_seal(seal);
/// # Ok::<_, mcp_layers::reference::InvalidKey>(())
/// ```
///
/// See [Server Requirements] in the specification.
///
/// [Server Requirements]: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow
#[derive(Clone)]
#[must_use]
pub struct StateSeal {
    hmac: Hmac<Sha256>,
    lifetime: Duration,
    principal: Option<Arc<PrincipalOf>>,
}

type PrincipalOf = dyn Fn(&Extensions) -> Option<String> + Send + Sync;

impl StateSeal {
    /// Seals with this key. All servers that answer for each other need the same.
    ///
    /// There is no default: a key that is known seals nothing. Take 32 bytes of a cryptographic
    /// random source, and keep them as you keep a password.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the key has fewer than 32 bytes.
    pub fn new(key: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let key = key.as_ref();
        if key.len() < KEY_LENGTH {
            return Err(InvalidKey(()));
        }
        Ok(Self {
            hmac: Hmac::new_from_slice(key).map_err(|_| InvalidKey(()))?,
            lifetime: LIFETIME,
            principal: None,
        })
    }

    /// Sets how long a state is good for. The default is ten minutes: a user has to read a form
    /// and to fill it in, and nobody should find a use for it tomorrow.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Tells whom a request is from, by what the authentication has left in its extensions.
    ///
    /// # Warning
    ///
    /// Without it the state of one user is good for every other: set it wherever requests are
    /// authenticated.
    pub fn principal(
        mut self,
        principal: impl Fn(&Extensions) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Arc::new(principal));
        self
    }

    // rule R5
    pub(super) fn seal(
        &self,
        state: &impl Serialize,
        message: &Message,
        extensions: &Extensions,
    ) -> Result<String, MethodError> {
        let state = serde_json::to_vec(state).map_err(MethodError::internal)?;
        let expiry = now().saturating_add(millis(self.lifetime));
        let hmac = self.covering(expiry, &state, message, extensions);
        let (expiry, tag) = (expiry.to_be_bytes(), hmac.finalize().into_bytes());
        let sealed = [&[VERSION], &expiry[..], &tag, &state].concat();
        Ok(BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    // rule R5
    pub(super) fn unseal<T: DeserializeOwned>(
        &self,
        sealed: &str,
        message: &Message,
        extensions: &Extensions,
    ) -> Result<T, StateError> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed);
        let sealed = sealed.map_err(|_| StateError(StateErrorKind::Malformed))?;
        let parts = sealed.split_first().and_then(|(version, rest)| {
            let (expiry, rest) = rest.split_first_chunk::<EXPIRY_LENGTH>()?;
            let (tag, state) = rest.split_first_chunk::<TAG_LENGTH>()?;
            let expiry = u64::from_be_bytes(*expiry);
            (*version == VERSION).then_some((expiry, tag, state))
        });
        let (expiry, tag, state) = parts.ok_or(StateError(StateErrorKind::Malformed))?;
        // In constant time, and before anything else is believed.
        self.covering(expiry, state, message, extensions)
            .verify_slice(tag)
            .map_err(|_| StateError(StateErrorKind::Forged))?;
        if expiry <= now() {
            return Err(StateError(StateErrorKind::Expired));
        }
        serde_json::from_slice(state).map_err(|_| StateError(StateErrorKind::Unexpected))
    }

    /// The HMAC of everything that a state is bound to.
    fn covering(
        &self,
        expiry: u64,
        state: &[u8],
        message: &Message,
        extensions: &Extensions,
    ) -> Hmac<Sha256> {
        let principal = self.principal.as_ref().and_then(|of| of(extensions));
        // Absent arguments are no arguments.
        let arguments = message.arguments().unwrap_or(b"{}");
        let mut hmac = self.hmac.clone();
        hmac.update(&[VERSION, u8::from(principal.is_some())]);
        hmac.update(&expiry.to_be_bytes());
        // With the length before it, no part can take bytes of its neighbour.
        for part in [
            principal.as_deref().unwrap_or_default().as_bytes(),
            message.method().unwrap_or_default().as_bytes(),
            message.name().unwrap_or_default().as_bytes(),
            arguments,
            state,
        ] {
            hmac.update(&(part.len() as u64).to_be_bytes());
            hmac.update(part);
        }
        hmac
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(since.unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for StateSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSeal")
            .field("lifetime", &self.lifetime)
            .field("knows_principals", &self.principal.is_some())
            .finish_non_exhaustive()
    }
}

/// A key that is too short to seal anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidKey(());

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key has at least {KEY_LENGTH} bytes")
    }
}

impl Error for InvalidKey {}

/// A state that is not taken back.
///
/// It becomes -32602 where a handler returns it with `?`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StateError(StateErrorKind);

/// Why a state is not taken back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StateErrorKind {
    /// It was good once.
    Expired,
    /// It was changed, or belongs to another principal or another request.
    Forged,
    /// It is nothing that was ever sealed.
    Malformed,
    /// The service has no seal.
    NoSeal,
    /// It is genuine and not of the type that is asked for.
    Unexpected,
}

impl StateError {
    pub(super) const NO_SEAL: Self = Self(StateErrorKind::NoSeal);

    /// Why the state is not taken back.
    #[must_use]
    pub fn kind(&self) -> StateErrorKind {
        self.0
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            StateErrorKind::Expired => "`requestState` has expired",
            StateErrorKind::NoSeal => "the service has no seal",
            _ => "`requestState` is not one of this request",
        })
    }
}

impl Error for StateError {}

impl From<StateError> for MethodError {
    fn from(error: StateError) -> Self {
        match error.kind() {
            StateErrorKind::NoSeal => Self::internal(error),
            _ => Self::invalid_params(format!("Invalid params: {error}")),
        }
    }
}

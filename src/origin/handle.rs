//! A policy that can be replaced while services follow it.

use std::sync::{Arc, PoisonError, RwLock};

use super::{OriginGuardLayer, policy::Policy};

/// Replaces what origin guards admit while they serve.
///
/// Made by [`OriginGuardLayer::with_handle`].
///
/// ```
/// use mcp_layers::OriginGuardLayer;
///
/// # fn main() -> Result<(), mcp_layers::origin::InvalidOrigin> {
/// let (guard, handle) = OriginGuardLayer::new()
///     .allow_origin("https://app.example.com")?
///     .with_handle();
/// // … serve with `guard`, and later, as the operator admits one more:
/// handle.replace(
///     OriginGuardLayer::new()
///         .allow_origin("https://app.example.com")?
///         .allow_origin("https://new.example.com")?,
/// );
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OriginHandle {
    live: Live,
}

impl OriginHandle {
    /// Lets every guard that follows this handle do what `guard` says, from its next request on.
    ///
    /// Each request is judged and answered by one policy, the old or the new. Whether `GET` and
    /// `DELETE` are served does not change: see [`OriginGuardLayer::legacy_streams`].
    #[allow(clippy::needless_pass_by_value)] // who replaces hands over
    pub fn replace(&self, guard: OriginGuardLayer) {
        let policy = guard.source.get();
        let mut current = self.live.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, policy);
        drop(current);
        drop(old); // a predicate may take its time to drop
    }
}

/// A policy that all guards of one handle share.
#[derive(Clone, Debug)]
pub(super) struct Live(Arc<RwLock<Arc<Policy>>>);

/// Where a guard finds its policy.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Fixed(Arc<Policy>),
    Live(Live),
}

impl Default for Source {
    fn default() -> Self {
        Self::Fixed(Arc::default())
    }
}

impl Source {
    pub(super) fn with_handle(self) -> (Self, OriginHandle) {
        let live = match self {
            Self::Fixed(policy) => Live(Arc::new(RwLock::new(policy))),
            Self::Live(live) => live,
        };
        (Self::Live(live.clone()), OriginHandle { live })
    }

    fn get(&self) -> Arc<Policy> {
        match self {
            Self::Fixed(policy) => Arc::clone(policy),
            Self::Live(live) => {
                let current = live.0.read().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(&current)
            }
        }
    }

    /// Looks at the policy; without a handle, that takes no lock.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Policy) -> T) -> T {
        match self {
            Self::Fixed(policy) => look(policy),
            // The lock is not held while the operator's predicates run.
            Self::Live(_) => look(&self.get()),
        }
    }

    /// Changes the policy, for all that follow the handle if there is one.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Policy) -> T) -> T {
        match self {
            Self::Fixed(policy) => change(Arc::make_mut(policy)),
            Self::Live(live) => {
                let mut current = live.0.write().unwrap_or_else(PoisonError::into_inner);
                change(Arc::make_mut(&mut current))
            }
        }
    }
}

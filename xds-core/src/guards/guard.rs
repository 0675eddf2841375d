//! Rules for changes.

use alloc::{string::String, sync::Arc};
use core::fmt;

use super::view_change::ViewChange;
use crate::{ResourceName, TypeUrl, ViewName, references::Consistency};

/// Rule that a change must satisfy before it is served.
///
/// Its [`Display`](fmt::Display) and [`FromStr`](core::str::FromStr) forms are in the [table of
/// rules](crate::guards).
#[derive(Clone)]
pub struct Guard {
    pub(super) rule: GuardRule,
    /// View to which the rule applies; `None` for each.
    pub(super) view: Option<ViewName>,
}

/// Function of an application that judges a change.
type Hook = dyn Fn(&ViewChange<'_>) -> Result<(), String> + Send + Sync;

#[derive(Clone)]
pub(super) enum GuardRule {
    AtLeast {
        type_url: TypeUrl,
        number: usize,
    },
    /// Without a type, the resources of all types count together.
    MaxRemoval {
        type_url: Option<TypeUrl>,
        percent: u8,
    },
    Required {
        type_url: TypeUrl,
        name: ResourceName,
    },
    References(Consistency<'static>),
    Hook {
        name: Arc<str>,
        hook: Arc<Hook>,
    },
}

impl Guard {
    const fn of(rule: GuardRule) -> Self {
        Self { rule, view: None }
    }

    /// Requires a number of resources of a type.
    #[must_use]
    pub fn at_least(type_url: impl Into<TypeUrl>, number: usize) -> Self {
        Self::of(GuardRule::AtLeast { type_url: type_url.into(), number })
    }

    /// Limits the share of the resources of all types together that one change removes, in percent
    /// of those that are served. With 0 nothing may be removed, and with 100 everything.
    #[must_use]
    pub const fn max_removal(percent: u8) -> Self {
        Self::of(GuardRule::MaxRemoval { type_url: None, percent })
    }

    /// Limits the share of the resources of a type that one change removes, in percent of those that
    /// are served. With 0 nothing may be removed, and with 100 everything.
    #[must_use]
    pub fn max_removal_of(type_url: impl Into<TypeUrl>, percent: u8) -> Self {
        Self::of(GuardRule::MaxRemoval { type_url: Some(type_url.into()), percent })
    }

    /// Requires a resource.
    #[must_use]
    pub fn required(type_url: impl Into<TypeUrl>, name: impl Into<ResourceName>) -> Self {
        Self::of(GuardRule::Required { type_url: type_url.into(), name: name.into() })
    }

    /// Refuses dangling references whose [severity](crate::references::Finding::severity) is an
    /// error.
    #[must_use]
    pub const fn references(consistency: Consistency<'static>) -> Self {
        Self::of(GuardRule::References(consistency))
    }

    /// Calls a function of the application for each view that a change concerns. It returns why the
    /// change is refused. `name` is shown with that reason.
    ///
    /// ```
    /// use xds_core::guards::Guard;
    /// use xds_core::types;
    ///
    /// let freeze = Guard::hook("freeze", |change| match change.removed().next() {
    ///     None => Ok(()),
    ///     Some((_, name)) => Err(format!("nothing is removed before Monday, not even {name}")),
    /// });
    /// assert_eq!(freeze.to_string(), "freeze");
    /// ```
    #[must_use]
    pub fn hook(
        name: impl Into<Arc<str>>,
        hook: impl Fn(&ViewChange<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self::of(GuardRule::Hook { name: name.into(), hook: Arc::new(hook) })
    }

    /// Applies the rule to one view only.
    #[must_use]
    pub fn in_view(mut self, view: impl Into<ViewName>) -> Self {
        self.view = Some(view.into());
        self
    }

    /// Uses another check, such as one that knows external resources, if this is a rule about
    /// references. Has no effect on other rules.
    #[must_use]
    pub fn with_consistency(mut self, consistency: Consistency<'static>) -> Self {
        if let GuardRule::References(known) = &mut self.rule {
            *known = consistency;
        }
        self
    }

    /// Returns the view to which the rule applies; `None` if it applies to each.
    #[must_use]
    pub const fn view(&self) -> Option<&ViewName> {
        self.view.as_ref()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({self})")
    }
}

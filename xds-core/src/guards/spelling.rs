//! Text form of rules, such as `max-removal:cds=20`.

use alloc::string::{String, ToString as _};
use core::{fmt, str::FromStr};

use thiserror::Error;

use super::guard::{Guard, GuardRule};
use crate::{TypeUrl, ViewName, references::Consistency, types};

/// Reason why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidGuard {
    /// The form is none of those of the [table](crate::guards).
    #[error(
        "expected min:TYPE=NUMBER, max-removal=PERCENT, max-removal:TYPE=PERCENT, \
         require:TYPE=NAME or references, with @VIEW behind it for one view only"
    )]
    Form,
    /// The type is unknown.
    #[error(
        "unknown type `{0}`: use cds, eds, lds, rds, srds, vhds, sds, ecds, rtds or a type URL"
    )]
    Type(String),
    /// The number of resources is not a whole number of at least 1.
    #[error("the number of resources must be a whole number of at least 1, not `{0}`")]
    Number(String),
    /// The share is not a whole number from 0 to 100.
    #[error("the percentage must be a whole number from 0 to 100, not `{0}`")]
    Percent(String),
    /// The name of a required resource is empty.
    #[error("the name of the required resource is missing behind `=`")]
    NoName,
    /// The name of the view is empty.
    #[error("the name of the view is missing behind `@` (`default` is the one without a name)")]
    NoView,
}

/// Name of the view without a name in rules, as in sources.
const DEFAULT_VIEW: &str = "default";

impl FromStr for Guard {
    type Err = InvalidGuard;

    fn from_str(text: &str) -> Result<Self, InvalidGuard> {
        let (rule, view) = match text.rsplit_once('@') {
            None => (text, None),
            Some((_, "")) => return Err(InvalidGuard::NoView),
            Some((rule, DEFAULT_VIEW)) => (rule, Some(ViewName::default())),
            Some((rule, view)) => (rule, Some(ViewName::from(view))),
        };
        let (head, value) = match rule.split_once('=') {
            None => (rule, None),
            Some((head, value)) => (head, Some(value)),
        };
        let (kind, type_url) = match head.split_once(':') {
            None => (head, None),
            Some((kind, name)) => (kind, Some(type_of(name)?)),
        };
        let rule = match (kind, type_url, value) {
            ("min", Some(type_url), Some(value)) => {
                let number = value.parse().ok().filter(|number| *number > 0);
                let number = number.ok_or_else(|| InvalidGuard::Number(value.to_string()))?;
                GuardRule::AtLeast { type_url, number }
            }
            ("max-removal", type_url, Some(value)) => {
                let percent = value.parse().ok().filter(|percent| *percent <= 100);
                let percent = percent.ok_or_else(|| InvalidGuard::Percent(value.to_string()))?;
                GuardRule::MaxRemoval { type_url, percent }
            }
            ("require", Some(_), Some("")) => return Err(InvalidGuard::NoName),
            ("require", Some(type_url), Some(name)) => {
                GuardRule::Required { type_url, name: name.into() }
            }
            ("references", None, None) => GuardRule::References(Consistency::default()),
            _ => return Err(InvalidGuard::Form),
        };
        Ok(Self { rule, view })
    }
}

/// Returns the type with a short name or a type URL.
fn type_of(name: &str) -> Result<TypeUrl, InvalidGuard> {
    match types::by_short_name(name) {
        Some(type_url) => Ok(type_url.into()),
        None if name.contains('/') => Ok(name.into()),
        None => Err(InvalidGuard::Type(name.to_string())),
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            GuardRule::AtLeast { type_url, number } => {
                write!(f, "min:{}={number}", short(type_url))?;
            }
            GuardRule::MaxRemoval { type_url: None, percent } => {
                write!(f, "max-removal={percent}")?;
            }
            GuardRule::MaxRemoval { type_url: Some(type_url), percent } => {
                write!(f, "max-removal:{}={percent}", short(type_url))?;
            }
            GuardRule::Required { type_url, name } => {
                write!(f, "require:{}={name}", short(type_url))?;
            }
            GuardRule::References(_) => f.write_str("references")?,
            GuardRule::Hook { name, .. } => f.write_str(name)?,
        }
        match &self.view {
            None => Ok(()),
            Some(view) if view.is_empty() => write!(f, "@{DEFAULT_VIEW}"),
            Some(view) => write!(f, "@{view}"),
        }
    }
}

fn short(type_url: &TypeUrl) -> &str {
    types::short_name(type_url.as_str()).unwrap_or(type_url.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_printed_as_they_are_parsed() {
        for text in [
            "min:cds=10",
            "min:example.com/own.Type=1",
            "max-removal=0",
            "max-removal:eds=100",
            "require:lds=ingress",
            "require:rds=a=b",
            "references",
            "references@default",
            "require:cds=outbound|80||web.example@canary",
        ] {
            assert_eq!(text.parse::<Guard>().unwrap().to_string(), text);
        }
        let guard: Guard = "require:CDS=user@host@edge".parse().unwrap();
        assert_eq!(guard.view().map(ViewName::as_str), Some("edge"));
        assert_eq!(guard.to_string(), "require:cds=user@host@edge");
    }

    #[test]
    fn invalid_rules_state_what_is_expected() {
        let error = |text: &str| text.parse::<Guard>().unwrap_err();
        for text in ["", "max", "min=3", "min:cds", "max-removal", "require=web", "references=1"] {
            assert_eq!(error(text), InvalidGuard::Form, "{text}");
        }
        assert_eq!(error("references:cds"), InvalidGuard::Form);
        assert_eq!(error("min:clusterz=1"), InvalidGuard::Type("clusterz".into()));
        for number in ["", "0", "-1", "1.5", "many"] {
            let text = alloc::format!("min:cds={number}");
            assert_eq!(error(&text), InvalidGuard::Number(number.into()), "{text}");
        }
        for percent in ["", "101", "-1", "20%", "256"] {
            let text = alloc::format!("max-removal={percent}");
            assert_eq!(error(&text), InvalidGuard::Percent(percent.into()), "{text}");
        }
        assert_eq!(error("require:cds="), InvalidGuard::NoName);
        assert_eq!(error("references@"), InvalidGuard::NoView);
    }
}

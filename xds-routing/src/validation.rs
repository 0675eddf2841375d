//! Validation of a resource, which collects every error with the path of its field.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

use thiserror::Error;
use xds_core::client::{Rejection, ServerAddress, ServerFeature};

use crate::{
    pattern::{
        Compiled, ExpressionLimits, FullMatch, InvalidExpression, Rewrite, SMALLEST_EXPRESSION,
    },
    rules::Rules,
};

/// An error in one field of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidField {
    /// Path of the field in names of the schema, such as
    /// `virtual_hosts[0].routes[2].match.path_specifier`. Empty if the resource cannot be decoded.
    pub path: String,
    /// Description of the error.
    pub problem: String,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.problem),
            false => write!(f, "{}: {}", self.path, self.problem),
        }
    }
}

/// Rejection of a resource, with its errors up to a limit of ten.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}", Listed(&self.fields), Omitted(self.omitted))]
#[non_exhaustive]
pub struct InvalidResource {
    /// Errors in the order of the resource. Never empty.
    pub fields: Vec<InvalidField>,
    /// Number of further errors that are not listed.
    pub omitted: usize,
}

impl InvalidResource {
    /// Creates the error for a resource that cannot be decoded.
    pub(crate) fn unreadable(problem: &dyn fmt::Display) -> Self {
        let field = InvalidField { path: String::new(), problem: problem.to_string() };
        Self { fields: Vec::from([field]), omitted: 0 }
    }
}

impl From<InvalidResource> for Rejection {
    fn from(invalid: InvalidResource) -> Self {
        Self::new(invalid.to_string())
    }
}

struct Listed<'a>(&'a [InvalidField]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{field}")?;
        }
        Ok(())
    }
}

struct Omitted(usize);

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Validation of one resource.
#[derive(Debug)]
pub(crate) struct Validator<'a> {
    pub(crate) rules: &'a Rules,
    path: String,
    fields: Vec<InvalidField>,
    omitted: usize,
    /// Compiled expressions, sorted, so that equal ones are compiled once.
    expressions: Vec<FullMatch>,
    /// Number of requests for an expression or a rewrite, including repeated ones.
    requested_expressions: usize,
    /// Number of compiled expressions, including those of rewrites.
    expression_count: usize,
    /// Compiled size in bytes that is still available.
    expression_room: usize,
    /// Server that sent the resource, if it is known.
    pub(crate) server: Option<&'a ServerAddress>,
}

/// Whether the server that sent a resource is trusted with security-relevant settings (gRFC A81).
// B46
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    Trusted,
    #[default]
    Untrusted,
}

impl Trust {
    /// Returns the trust in a server. An unknown one is not trusted.
    pub(crate) fn in_server(server: Option<&ServerAddress>) -> Self {
        match server {
            Some(server) if server.features.contains(ServerFeature::TrustedXdsServer) => {
                Self::Trusted
            }
            _ => Self::Untrusted,
        }
    }
}

/// Maximum number of errors that a rejection lists.
const LISTED: usize = 10;

impl<'a> Validator<'a> {
    pub(crate) const fn new(rules: &'a Rules, server: Option<&'a ServerAddress>) -> Self {
        Self {
            rules,
            path: String::new(),
            fields: Vec::new(),
            omitted: 0,
            expressions: Vec::new(),
            requested_expressions: 0,
            expression_count: 0,
            expression_room: rules.expressions.total,
            server,
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::in_server(self.server)
    }

    /// Validates a field of the current message.
    pub(crate) fn field<T>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let done = work(self);
        self.path.truncate(length);
        done
    }

    /// Validates an element of a repeated field.
    pub(crate) fn element<T>(
        &mut self,
        name: &str,
        index: impl fmt::Display,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.field(&format!("{name}[{index}]"), work)
    }

    /// Validates an element of the current list.
    pub(crate) fn index<T>(&mut self, index: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(index);
        let done = work(self);
        self.path.truncate(length);
        done
    }

    /// Records an error at the current path.
    pub(crate) fn error(&mut self, problem: impl fmt::Display) {
        if self.fields.len() >= LISTED {
            self.omitted += 1;
            return;
        }
        self.fields.push(InvalidField { path: self.path.clone(), problem: problem.to_string() });
    }

    /// Records an error in a field of the current message.
    pub(crate) fn error_in(&mut self, name: &str, problem: impl fmt::Display) {
        self.field(name, |validator| validator.error(problem));
    }

    /// Runs a validation and discards its errors. Returns `None` if there were any.
    pub(crate) fn without_errors<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = (self.fields.len(), self.omitted);
        let done = work(self);
        let is_valid = before == (self.fields.len(), self.omitted);
        self.fields.truncate(before.0);
        self.omitted = before.1;
        is_valid.then_some(done)
    }

    /// Returns the compiled expression, or `None` after recording an error.
    pub(crate) fn expression(&mut self, pattern: &str) -> Option<FullMatch> {
        self.requested_expressions += 1;
        let place = self.expressions.binary_search_by(|known| known.pattern().cmp(pattern));
        let place = match place {
            Ok(known) => return self.expressions.get(known).cloned(),
            Err(place) => place,
        };
        let expression = self.compiled(|limits| FullMatch::new(pattern, limits))?;
        self.expressions.insert(place, expression.clone());
        Some(expression)
    }

    /// Returns the compiled rewrite, or `None` after recording an error.
    pub(crate) fn rewrite(&mut self, pattern: &str, substitution: &str) -> Option<Rewrite> {
        self.requested_expressions += 1;
        self.compiled(|limits| Rewrite::new(pattern, substitution, limits))
    }

    /// Compiles one more expression within the limits of the resource.
    fn compiled<T: Compiled>(
        &mut self,
        compile: impl FnOnce(&ExpressionLimits) -> Result<T, InvalidExpression>,
    ) -> Option<T> {
        let count = self.rules.expressions.count;
        if self.expression_count >= count {
            self.error(format_args!("more than {count} different expressions in one resource"));
            return None;
        }
        let room = self.expression_room;
        let size = self.rules.expressions.size.min(room);
        if room < SMALLEST_EXPRESSION {
            self.total_size_error();
            return None;
        }
        match compile(&ExpressionLimits { size, ..self.rules.expressions }) {
            Ok(expression) => {
                self.expression_count += 1;
                self.expression_room = room.saturating_sub(expression.size());
                Some(expression)
            }
            Err(InvalidExpression::TooLarge { .. }) if size < self.rules.expressions.size => {
                // No further expression is compiled.
                self.expression_room = 0;
                self.total_size_error();
                None
            }
            Err(problem) => {
                self.error(problem);
                None
            }
        }
    }

    /// Returns the number of requests for an expression or a rewrite.
    pub(crate) const fn requested_expressions(&self) -> usize {
        self.requested_expressions
    }

    fn total_size_error(&mut self) {
        let total = self.rules.expressions.total;
        self.error(format_args!(
            "the expressions of the resource exceed {total} bytes when compiled"
        ));
    }

    /// Returns the value, or the collected errors if there are any.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, InvalidResource> {
        match value {
            Some(value) if self.fields.is_empty() => Ok(value),
            _ => Err(InvalidResource { fields: self.fields, omitted: self.omitted }),
        }
    }
}

//! Collects what is wrong with a resource, with the path of each field that it is wrong in.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

use thiserror::Error;
use xds_core::client::Rejection;

use crate::{
    pattern::{
        Compiled, ExpressionLimits, FullMatch, InvalidExpression, Rewrite, SMALLEST_EXPRESSION,
    },
    rules::Rules,
};

/// What is wrong in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidField {
    /// Where it is, in names of the schema, as in `virtual_hosts[0].routes[2].match.path_specifier`.
    pub path: String,
    /// What is wrong.
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

/// Why a resource is rejected: all that is wrong with it, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}", Listed(&self.fields), Omitted(self.omitted))]
#[non_exhaustive]
pub struct InvalidResource {
    /// What is wrong, in the order of the resource; never empty.
    pub fields: Vec<InvalidField>,
    /// How many more there are.
    pub omitted: usize,
}

impl InvalidResource {
    /// A resource that cannot be read at all.
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

/// One validation of one resource.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    pub(crate) rules: &'a Rules,
    path: String,
    fields: Vec<InvalidField>,
    omitted: usize,
    /// Expressions that were compiled, so that equal ones are compiled once.
    expressions: Vec<FullMatch>,
    /// How often one was asked for, or a rewriting.
    asked_expressions: usize,
    /// How many expressions there are, those of rewritings too.
    expression_count: usize,
    /// How many bytes they may still have when compiled.
    expression_room: usize,
    pub(crate) trust: Trust,
}

/// Whether the server that sent a resource may say what security depends on (A81, B46).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    Trusted,
    #[default]
    Untrusted,
}

/// How many faults a rejection lists.
const LISTED: usize = 10;

impl<'a> Judge<'a> {
    pub(crate) const fn new(rules: &'a Rules, trust: Trust) -> Self {
        Self {
            rules,
            path: String::new(),
            fields: Vec::new(),
            omitted: 0,
            expressions: Vec::new(),
            asked_expressions: 0,
            expression_count: 0,
            expression_room: rules.expressions.total,
            trust,
        }
    }

    /// Works on a field of what is being worked on.
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

    /// Works on an element of a repeated field.
    pub(crate) fn element<T>(
        &mut self,
        name: &str,
        index: impl fmt::Display,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.field(&format!("{name}[{index}]"), work)
    }

    /// Works on an element of what is being worked on, which is a list.
    pub(crate) fn index<T>(&mut self, index: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(index);
        let done = work(self);
        self.path.truncate(length);
        done
    }

    /// Says that something is wrong with what is being worked on.
    pub(crate) fn fault(&mut self, problem: impl fmt::Display) {
        if self.fields.len() >= LISTED {
            self.omitted += 1;
            return;
        }
        self.fields.push(InvalidField { path: self.path.clone(), problem: problem.to_string() });
    }

    /// Says that something is wrong with a field of what is being worked on.
    pub(crate) fn fault_in(&mut self, name: &str, problem: impl fmt::Display) {
        self.field(name, |judge| judge.fault(problem));
    }

    /// Works on something that may be at fault; `None` if it is, and then nothing has been said.
    pub(crate) fn without_faults<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = (self.fields.len(), self.omitted);
        let done = work(self);
        let is_valid = before == (self.fields.len(), self.omitted);
        self.fields.truncate(before.0);
        self.omitted = before.1;
        is_valid.then_some(done)
    }

    /// An expression, compiled; `None` if it is at fault.
    pub(crate) fn expression(&mut self, pattern: &str) -> Option<FullMatch> {
        self.asked_expressions += 1;
        let place = self.expressions.binary_search_by(|known| known.pattern().cmp(pattern));
        let place = match place {
            Ok(known) => return self.expressions.get(known).cloned(),
            Err(place) => place,
        };
        let expression = self.compiled(|limits| FullMatch::new(pattern, limits))?;
        self.expressions.insert(place, expression.clone());
        Some(expression)
    }

    /// A rewriting, compiled; `None` if it is at fault.
    pub(crate) fn rewrite(&mut self, pattern: &str, substitution: &str) -> Option<Rewrite> {
        self.asked_expressions += 1;
        self.compiled(|limits| Rewrite::new(pattern, substitution, limits))
    }

    /// Compiles one more expression, if there is room for it.
    fn compiled<T: Compiled>(
        &mut self,
        compile: impl FnOnce(&ExpressionLimits) -> Result<T, InvalidExpression>,
    ) -> Option<T> {
        let count = self.rules.expressions.count;
        if self.expression_count >= count {
            self.fault(format_args!("more than {count} different expressions in one resource"));
            return None;
        }
        let room = self.expression_room;
        let size = self.rules.expressions.size.min(room);
        if room < SMALLEST_EXPRESSION {
            self.fault_of_all_expressions();
            return None;
        }
        match compile(&ExpressionLimits { size, ..self.rules.expressions }) {
            Ok(expression) => {
                self.expression_count += 1;
                self.expression_room = room.saturating_sub(expression.size());
                Some(expression)
            }
            Err(InvalidExpression::TooLarge { .. }) if size < self.rules.expressions.size => {
                // None of those that follow is even tried.
                self.expression_room = 0;
                self.fault_of_all_expressions();
                None
            }
            Err(problem) => {
                self.fault(problem);
                None
            }
        }
    }

    /// How often an expression or a rewriting was asked for so far.
    pub(crate) const fn asked_expressions(&self) -> usize {
        self.asked_expressions
    }

    fn fault_of_all_expressions(&mut self) {
        let total = self.rules.expressions.total;
        self.fault(format_args!(
            "the expressions of the resource exceed {total} bytes when compiled"
        ));
    }

    /// Whether nothing was wrong so far.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, InvalidResource> {
        match value {
            Some(value) if self.fields.is_empty() => Ok(value),
            _ => Err(InvalidResource { fields: self.fields, omitted: self.omitted }),
        }
    }
}

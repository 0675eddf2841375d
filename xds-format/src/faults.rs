//! Collection of all errors of a text, instead of only the first.

use core::cell::{Cell, RefCell};
use core::fmt;

use crate::error::{Fault, FormatError, Result};

/// Errors of one file, at least one, in the order in which they were found. Their number is
/// limited; [`more`](Self::more) counts the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatErrors {
    /// First errors.
    pub errors: Vec<FormatError>,
    /// Number of further errors.
    pub more: usize,
}

/// Writes one line for each error, and the number of further errors.
impl fmt::Display for FormatErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.errors.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl core::error::Error for FormatErrors {}

impl From<FormatError> for FormatErrors {
    fn from(error: FormatError) -> Self {
        Self { errors: vec![error], more: 0 }
    }
}

/// Errors found so far in a text.
#[derive(Debug)]
pub(crate) struct Faults {
    found: RefCell<Vec<Fault>>,
    more: Cell<usize>,
    /// Maximum number of errors that are kept.
    most: usize,
}

impl Faults {
    pub(crate) fn new(most: usize) -> Self {
        Self { found: RefCell::default(), more: Cell::new(0), most: most.max(1) }
    }

    /// Number of errors so far.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len() + self.more.get()
    }

    /// Adds an error. An error of a YAML anchor occurs again at each alias, and is added once.
    pub(crate) fn add(&self, fault: Fault) {
        let mut found = self.found.borrow_mut();
        if found.iter().any(|earlier| earlier.is_same_as(&fault)) {
            return;
        }
        match found.len() < self.most {
            true => found.push(fault),
            false => self.more.set(self.more.get() + 1),
        }
    }

    /// Adds the error of `result`, if it is one, and returns `outcome` if there was no error at
    /// all.
    pub(crate) fn finish<T>(
        self,
        result: Result<T>,
        source_name: &str,
        text: Option<&str>,
    ) -> Result<T, FormatErrors> {
        let outcome = match result {
            Ok(outcome) if self.count() == 0 => return Ok(outcome),
            Ok(_) => None,
            Err(fault) => Some(*fault),
        };
        if let Some(fault) = outcome {
            self.add(fault);
        }
        let (found, more) = (self.found.into_inner(), self.more.get());
        let mut errors: Vec<_> =
            found.into_iter().map(|fault| fault.in_source(source_name, text)).collect();
        errors.sort_by_key(FormatError::position);
        Err(FormatErrors { errors, more })
    }
}

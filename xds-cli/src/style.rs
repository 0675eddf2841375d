//! Colours of the output.

use core::fmt;
use std::io::IsTerminal;

use clap::ColorChoice;

/// Whether the output to one stream is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    is_on: bool,
}

impl Style {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { is_on: false };

    pub(crate) fn of(choice: ColorChoice, stream: &impl IsTerminal) -> Self {
        let is_on = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org
            ColorChoice::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self { is_on }
    }

    pub(crate) fn is_on(self) -> bool {
        self.is_on
    }

    pub(crate) fn good<T: fmt::Display>(self, text: T) -> Coloured<T> {
        self.colour("32", text)
    }

    pub(crate) fn bad<T: fmt::Display>(self, text: T) -> Coloured<T> {
        self.colour("31", text)
    }

    pub(crate) fn notable<T: fmt::Display>(self, text: T) -> Coloured<T> {
        self.colour("33", text)
    }

    pub(crate) fn quiet<T: fmt::Display>(self, text: T) -> Coloured<T> {
        self.colour("2", text)
    }

    pub(crate) fn strong<T: fmt::Display>(self, text: T) -> Coloured<T> {
        self.colour("1", text)
    }

    fn colour<T: fmt::Display>(self, code: &'static str, text: T) -> Coloured<T> {
        Coloured { code: self.is_on.then_some(code), text }
    }
}

/// Text with a colour. The colour does not count for padding.
#[derive(Debug)]
pub(crate) struct Coloured<T> {
    code: Option<&'static str>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Coloured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => self.text.fmt(f),
            Some(code) => {
                write!(f, "\x1b[{code}m")?;
                self.text.fmt(f)?;
                f.write_str("\x1b[0m")
            }
        }
    }
}

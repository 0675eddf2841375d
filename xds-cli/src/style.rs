//! Colours of the output.

use core::fmt;
use std::{
    env,
    ffi::{OsStr, OsString},
    io::IsTerminal,
};

use clap::{ColorChoice, ValueEnum as _};

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
            ColorChoice::Auto => {
                is_on_by_default(stream.is_terminal() && !is_dumb(), |name| env::var_os(name))
            }
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

/// Whether the terminal understands no control sequences, according to `TERM`.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|it| it.is_empty() || it == "dumb")
}

/// Whether output is coloured if no argument decides it, as of <https://no-color.org> and
/// <https://bixense.com/clicolors>. `variable` looks up an environment variable.
fn is_on_by_default(is_able: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| variable(name).is_some_and(|it| !it.is_empty());
    let is = |name, value: &str| variable(name).is_some_and(|it| it == OsStr::new(value));
    if is_set("NO_COLOR") {
        return false;
    }
    let is_forced = is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0");
    is_forced || (is_able && !is("CLICOLOR", "0"))
}

/// Returns the value of `--color` in arguments that may be wrong otherwise.
pub(crate) fn choice_in(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let arguments: Vec<_> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
    let values = arguments.iter().enumerate().filter_map(|(at, it)| match it.as_str() {
        "--color" => arguments.get(at + 1).map(String::as_str),
        other => other.strip_prefix("--color="),
    });
    let mut choices = values.filter_map(|value| ColorChoice::from_str(value, false).ok());
    choices.next_back().unwrap_or(ColorChoice::Auto)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_decides_about_colours() {
        for (is_able, variables, expected) in [
            (true, &[][..], true),
            (false, &[], false),
            (true, &[("NO_COLOR", "1")], false),
            (true, &[("NO_COLOR", "")], true),
            (true, &[("CLICOLOR", "0")], false),
            (false, &[("CLICOLOR", "1")], false),
            (false, &[("CLICOLOR_FORCE", "1")], true),
            (false, &[("CLICOLOR_FORCE", "0")], false),
            (false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).into())
            };
            assert_eq!(is_on_by_default(is_able, variable), expected, "{is_able} {variables:?}");
        }
    }

    #[test]
    fn color_is_found_in_wrong_arguments() {
        let choice = |arguments: &str| {
            choice_in(
                arguments.split_whitespace().map(OsString::from).collect::<Vec<_>>().into_iter(),
            )
        };
        assert_eq!(choice("xds serve --wrong"), ColorChoice::Auto);
        assert_eq!(choice("xds --color always serve --wrong"), ColorChoice::Always);
        assert_eq!(choice("xds serve --color=never --wrong"), ColorChoice::Never);
        assert_eq!(choice("xds --color pink --color"), ColorChoice::Auto);
    }
}

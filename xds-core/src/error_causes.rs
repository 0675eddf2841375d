//! Text of errors with their causes.

use alloc::string::{String, ToString as _};
use core::error::Error;

/// Returns an error followed by its causes, without repetitions: `tcp connect error: Connection
/// refused`.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    append_causes(&mut text, error);
    text
}

/// Appends an error and its causes to a text, without those that the text contains.
pub fn append_causes(text: &mut String, error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
        next = error.source();
    }
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<alloc::boxed::Box<Self>>);

    #[test]
    fn causes_follow_an_error_without_repetitions() {
        let error = Layer(
            "connect: refused",
            Some(Layer("refused", Some(Layer("111", None).into())).into()),
        );
        assert_eq!(with_causes(&error), "connect: refused: 111");
        let mut text = "broken".into();
        append_causes(&mut text, &Layer("broken", Some(Layer("reset", None).into())));
        assert_eq!(text, "broken: reset");
    }
}

//! Transactions in script notation.

use core::time::Duration;

use xds_core::server::{ResourceOptions, StatusCode, Transaction};

use super::{payload, received::name_of, url};

/// Parses a transaction.
pub(crate) fn transaction(changes: &str) -> Transaction {
    match changes.strip_prefix('@').and_then(|changes| changes.split_once(' ')) {
        Some((view, changes)) => transaction_in(view, changes),
        None => transaction_in("", changes),
    }
}

/// Parses a transaction on a view.
pub(crate) fn transaction_in(view: &str, changes: &str) -> Transaction {
    let mut transaction = Transaction::in_view(view);
    for part in changes.split(';') {
        let mut words = part.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        for word in words {
            if let Some(version) = word.strip_prefix("v:") {
                transaction.set_version(&*type_url, version);
                continue;
            }
            match (word.strip_prefix('-'), word.strip_prefix('!')) {
                (Some(name), _) => transaction.remove(&*type_url, name),
                (_, Some(error)) => {
                    let (name, code) = error.split_once('=').expect("!name=code");
                    let code = StatusCode::from_i32(code.parse().expect("a number"));
                    transaction.set_error(&*type_url, name, code, "no")
                }
                _ => {
                    let (head, content) = word.split_once('=').expect("name=content");
                    let mut options = ResourceOptions::default();
                    let (names, ttl) = head.split_once('~').unwrap_or((head, ""));
                    if !ttl.is_empty() {
                        options = options.with_ttl(duration(ttl));
                    }
                    let (names, version) = names.split_once('^').unwrap_or((names, ""));
                    if !version.is_empty() {
                        options = options.with_version(version);
                    }
                    for alias in names.split('+').skip(1) {
                        options = options.with_alias(alias);
                    }
                    let name = name_of(head);
                    transaction.set_with(&*type_url, name, payload(name, content), options)
                }
            };
        }
    }
    transaction
}

/// Parses a duration such as `15s` or `200ms`.
pub(super) fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
    let number = number.parse().expect("a number");
    match unit {
        "s" => Duration::from_secs(number),
        "ms" => Duration::from_millis(number),
        _ => panic!("no such unit: {unit}"),
    }
}

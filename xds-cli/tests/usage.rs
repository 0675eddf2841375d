//! Exit codes of all commands: 0 success, 1 failure, 2 wrong usage, 3 an address that cannot be used.

mod support;

use std::net::TcpListener;

use support::{TempDir, run};

#[test]
fn usage_errors_exit_with_two() {
    for (args, part) in [
        (&[][..], "Usage: xds"),
        (&["serve"], "DIR"),
        (&["serve", "."], "--listen"),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--for", "20"],
            "expected a number with a unit",
        ),
        (&["serve", ".", "--listen", "127.0.0.1:0", "-o", "xml"], "table, ndjson"),
        (&["get"], "TYPE[:NAME]"),
        (&["get", "cds", "--timeout", "20"], "expected a number with a unit"),
        (&["get", "cds", "--locality", "a//b"], "expected REGION, REGION/ZONE"),
        (&["get", "cds", "--metadata", "role"], "expected KEY=VALUE"),
        (&["watch", "--bootstrap", "b.json", "--tls", "cds"], "cannot be used with"),
        (&["watch", "--server", "127.0.0.1:1"], "TYPE[:NAME]"),
        (&["watch", "--server", "127.0.0.1:1", "zds"], "unknown type: expected lds, rds"),
        (&["watch", "--server", "127.0.0.1:1", "eds:"], "the name after the colon is missing"),
        (&["proxy"], "unrecognized subcommand"),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

/// The TLS heading of the help contains only TLS options.
#[test]
fn tls_help_heading_has_only_tls_options() {
    for (command, expected) in [
        ("serve", &["--tls-cert", "--tls-key", "--client-ca"][..]),
        ("get", &["--tls", "--ca", "--cert", "--key", "--server-name", "--token-file"]),
        ("watch", &["--tls", "--ca", "--cert", "--key", "--server-name", "--token-file"]),
    ] {
        let help = run(&[command, "-h"]).stdout;
        let (_, under) = help.split_once("\nTLS (").expect("the heading");
        let flags = under.lines().filter_map(|line| line.trim_start().split(' ').next());
        let flags: Vec<_> = flags.filter(|flag| flag.starts_with('-')).collect();
        assert_eq!(flags, expected, "{command}");
    }
}

#[test]
fn help_and_version_exit_with_zero() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Exit codes: 0 "), "{}", help.stdout);
    assert_eq!(run(&["watch", "--help"]).code, Some(0));
    assert_eq!(run(&["--version"]).stdout, format!("xds {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn invalid_or_taken_address_exits_with_three() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let directory = TempDir::new();
    let directory = directory.path().to_str().unwrap();
    for (args, part) in [
        (
            &["serve", directory, "--listen", "nonsense"][..],
            "cannot listen on nonsense: the port is missing: write HOST:PORT, as in nonsense:18000",
        ),
        (&["serve", directory, "--listen", "18000"], "the host is missing"),
        (&["serve", directory, "--listen", "/run/xds.sock"], "unix:/run/xds.sock"),
        (&["serve", directory, "--listen", "http://h:1"], "the scheme \"http:\" is not supported"),
        (
            &["serve", directory, "--listen", "127.0.0.1:0", "--rest", "::1"],
            "cannot listen on ::1: an IPv6 address needs brackets",
        ),
        (
            &["serve", directory, "--listen", "127.0.0.1:0", "--csds", "unix:"],
            "the path after \"unix:\" is missing",
        ),
        (&["serve", directory, "--listen", &taken], "cannot listen on 127.0.0.1"),
        (&["serve", directory, "--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1"),
        (&["watch", "--server", "nonsense", "cds"], "is not a server address"),
        (&["watch", "--server", "127.0.0.1:99999", "cds"], "is not a server address"),
        (
            &["watch", "--server", ":18000", "cds"],
            "the host is missing: write HOST:PORT, as in 127.0.0.1:18000",
        ),
        (&["watch", "--server", "localhost", "cds"], "as in localhost:18000"),
        (&["watch", "--server", "./xds.sock", "cds"], "unix:./xds.sock"),
        (&["watch", "--server", "grpc://h:1", "cds"], "expected http, https, dns"),
        (&["watch", "--server", "no-such-host.invalid:1", "cds"], "cannot resolve"),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(3), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn missing_directory_exits_with_one() {
    let ended = run(&["serve", "no/such/directory", "--listen", "127.0.0.1:0"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("cannot read the directory no/such/directory"),
        "{}",
        ended.stderr
    );
}

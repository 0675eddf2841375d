//! Exit codes of all commands: 0 success, 1 failure, 2 wrong usage, 3 an address that cannot be used.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    process::{Command, Stdio},
};

use crate::support::{TempDir, free_address, run, run_with};

#[test]
fn usage_errors_exit_with_two() {
    for (args, part) in [
        (&[][..], "Usage: xds"),
        (&["serve"], "<SOURCE>"),
        (&["serve", "."], "--listen"),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--for", "20"],
            "expected a number with a unit",
        ),
        (&["serve", ".", "--listen", "127.0.0.1:0", "-o", "xml"], "table, ndjson"),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--guard", "max-removal:cds=120"],
            "invalid value 'max-removal:cds=120' for '--guard <RULE>': the percentage must be a whole \
             number from 0 to 100, not `120`",
        ),
        (
            &["check", ".", "--guard", "min:clusterz=1"],
            "unknown type `clusterz`: use cds, eds, lds, rds,",
        ),
        (&["check", ".", "--guard", "keep=web"], "expected min:TYPE=NUMBER, max-removal=PERCENT,"),
        (&["load", "127.0.0.1:1", "--clients", "0"], "'--clients <N>': must be at least 1"),
        (&["load", "127.0.0.1:1", "--clients", "few"], "expected a whole number such as 7, 1_000"),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--max-request-bytes", "4MiB"],
            "expected a whole number such as 7, 1_000",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--max-names", "0"],
            "'--max-names <N>': must be at least 1",
        ),
        (&["check"], "--proxy-bootstrap <FILE>"),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--report-rejections"],
            "--report-rejections has an effect only with etcd://",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--max-staleness", "5m"],
            "--max-staleness has an effect only with etcd:// or kube://",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--socket-mode", "660"],
            "--socket-mode has an effect only with unix:PATH",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:0", "--kube-read-only"],
            "--kube-read-only has an effect only with kube://",
        ),
        (&["sim", "run", "--minutes", "inf"], "the number is too large"),
        (&["sim", "run", "--minutes=-inf"], "must be greater than zero"),
        (&["get"], "TYPE[:NAME]"),
        (&["get", "cds", "--timeout", "20"], "expected a number with a unit"),
        (&["get", "cds", "--locality", "a//b"], "expected REGION, REGION/ZONE"),
        (&["get", "cds", "--metadata", "role"], "expected KEY=VALUE"),
        (&["watch", "--bootstrap", "b.json", "--tls", "cds"], "cannot be used with"),
        (&["watch", "--server", "127.0.0.1:1"], "TYPE[:NAME]"),
        (&["watch", "--server", "127.0.0.1:1", "zds"], "unknown type: expected lds, rds"),
        (&["watch", "--server", "127.0.0.1:1", "eds:"], "the name after the colon is missing"),
        (&["route", "explain", "--host", "a"], "<DIR|--server <ADDR>|--dump <FILE>>"),
        (&["proxy"], "unrecognized subcommand"),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn one_rule_decides_about_the_colours_of_all_output() {
    let directory = TempDir::new();
    directory.save("cds.yaml", "neither a list nor an object");
    let path = directory.path().to_str().unwrap();
    let is_coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let ended = run_with(args, variables);
        (ended.stdout + &ended.stderr).contains('\x1b')
    };
    for args in [&["serve", "--wrong"][..], &["check", path], &["--help"]] {
        assert!(!is_coloured(args, &[]), "{args:?}");
        assert!(is_coloured(&[args, &["--color", "always"]].concat(), &[]), "{args:?}");
        assert!(is_coloured(args, &[("CLICOLOR_FORCE", "1")]), "{args:?}");
        let never = [args, &["--color=never"]].concat();
        assert!(!is_coloured(&never, &[("CLICOLOR_FORCE", "1")]), "{args:?}");
        let both = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
        assert!(!is_coloured(args, &both), "{args:?}");
    }
}

#[test]
fn wrong_address_of_the_environment_names_the_variable() {
    let ended = run_with(&["get", "cds"], &[("XDS_SERVER", "http://")]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("xds: XDS_SERVER: "), "{}", ended.stderr);
}

#[test]
fn manual_pages_have_a_section_with_the_exit_codes() {
    let directory = TempDir::new();
    let ended = run(&["man", directory.path().to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = fs::read_to_string(directory.join("xds-get.1")).unwrap();
    assert!(page.contains(".SH \"EXIT STATUS\"\nExit codes: 0 "), "{page}");
    assert!(!page.contains(".SH EXTRA"), "{page}");
}

#[test]
fn names_of_files_in_errors_have_no_control_characters() {
    let ended = run(&["check", "a\x1b[31mb"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("a\\u{1b}[31mb"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
}

/// A line of its own could be a command to a program that reads the log.
#[test]
fn names_of_files_in_errors_have_no_line_ends() {
    let directory = TempDir::new();
    directory.save("a\n::error::b.yaml", "{");
    let invalid = directory.join("a\n::error::b.yaml");
    let invalid = invalid.to_str().unwrap();
    for args in [
        &["check", "a\n::error::b"][..],
        &["convert", "a\n::error::b.yaml", "--to", "json"],
        &["convert", invalid, "--to", "json"],
        &["get", "cds", "--descriptors", invalid],
        &["compat", invalid, invalid],
        &["route", "explain", "--dump", invalid, "--host", "a"],
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("a\\n::error::b"), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
    }
}

/// The TLS heading of the help contains only TLS options.
#[test]
fn tls_help_heading_has_only_tls_options() {
    for (command, expected) in [
        (
            "serve",
            &["--tls-cert", "--tls-key", "--client-ca", "--crl", "--allow-san", "--node-from-san"]
                [..],
        ),
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
    for args in [
        &["serve", "no/such/directory", "--listen", "127.0.0.1:0"][..],
        &["check", "no/such/directory"],
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(1));
        let why = "xds: cannot read the directory no/such/directory: No such file or directory";
        assert!(ended.stderr.starts_with(why), "{}", ended.stderr);
    }
    // A file in place of the directory, and a missing file with any suffix.
    for (args, why) in [
        (
            &["check", "Cargo.toml"][..],
            "xds: cannot read the directory Cargo.toml: it is a file: name the directory",
        ),
        (
            &["convert", "no-such.file", "--to", "json"],
            "xds: cannot read no-such.file: No such file or directory",
        ),
        (&["convert", "src", "--to", "json"], "xds: cannot read src: Is a directory"),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(1), "{args:?}");
        assert!(ended.stderr.starts_with(why), "{args:?}: {}", ended.stderr);
    }
    let ended = run(&["rollout", "status", "no/such/directory"]);
    assert_eq!(ended.code, Some(1));
    let why = "xds: cannot read no/such/directory: No such file or directory";
    assert!(ended.stderr.starts_with(why), "{}", ended.stderr);
}

#[cfg(feature = "etcd")]
#[test]
fn rollout_command_that_cannot_reach_its_cluster_exits_with_four() {
    let address = format!("etcd://{}/xds", free_address());
    let ended = run(&["rollout", "status", &address]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let why = format!("xds: cannot reach {address}: no member of the etcd cluster can be reached");
    assert!(ended.stderr.starts_with(&why), "{}", ended.stderr);
}

/// Names of the commands in the help of `xds`.
fn commands() -> Vec<String> {
    let help = run(&["-h"]).stdout;
    let (_, commands) = help.split_once("\nCommands:\n").expect("the list of commands");
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_name_all_commands() {
    let commands = commands();
    assert!(commands.len() > 6, "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(&["completions", shell]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{shell}");
        for name in &commands {
            assert!(ended.stdout.contains(name), "{shell}: {name}");
        }
    }
    assert_eq!(run(&["completions", "ed"]).code, Some(2));
}

/// Shells that are not installed are not asked.
#[test]
fn shells_accept_the_completions() {
    let mut accepted = 0;
    for (shell, check) in
        [("bash", &["-n"][..]), ("zsh", &["-n", "/dev/stdin"]), ("fish", &["--no-execute"])]
    {
        let script = run(&["completions", shell]).stdout;
        let spawned = Command::new(shell).args(check).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else { continue };
        child.stdin.take().unwrap().write_all(format!("{script}\n").as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{shell}");
        accepted += 1;
    }
    assert!(accepted > 0, "bash is not installed");
}

/// The script works in bash: it completes commands and options.
#[test]
fn bash_completes_commands_and_options() {
    let directory = TempDir::new();
    directory.save("xds.bash", &run(&["completions", "bash"]).stdout);
    let complete = |words: &[&str]| {
        let script = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; _xds xds \"{}\" \"\"; echo \"${{COMPREPLY[@]}}\"",
            directory.join("xds.bash").display(),
            words.join(" "),
            words.len() - 1,
            words.last().unwrap()
        );
        let ended = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(ended.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete(&["xds", "conv"]), "convert");
    assert_eq!(complete(&["xds", "convert", "--desc"]), "--descriptors");
    assert_eq!(complete(&["xds", "sim", "rep"]), "replay");
}

#[test]
fn manual_pages_exist_for_all_commands() {
    let directory = TempDir::new();
    let pages = directory.join("man1");
    let ended = run(&["man", pages.to_str().unwrap()]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let written = fs::read_dir(&pages).unwrap().count();
    assert_eq!(ended.stdout, format!("written: {written} manual pages to {}", pages.display()));
    let page = |name: &str| fs::read_to_string(pages.join(name)).expect("a page");
    for name in commands() {
        let text = page(&format!("xds-{name}.1"));
        assert!(text.contains(&format!(".TH xds-{name} 1")), "{name}");
    }
    let start = page("xds.1");
    assert!(start.contains("xds\\-serve(1)") && start.contains("Exit codes: 0 "), "{start}");
    assert!(page("xds-sim-run.1").contains("Number of runs"));
    // Without a directory, the page of the command is printed.
    let printed = run(&["man"]);
    assert_eq!((printed.code, printed.stdout.trim()), (Some(0), start.trim()));

    directory.save("file", "");
    let ended = run(&["man", directory.join("file").to_str().unwrap()]);
    assert_eq!(ended.code, Some(2));
    let advice = "file is not a directory: name the directory for the pages, such as ";
    assert!(ended.stderr.contains(advice), "{}", ended.stderr);
    // The directory may contain pages of other programs.
    directory.save("man1/ls.1", ".SH EXTRA\n");
    run(&["man", pages.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(pages.join("ls.1")).unwrap(), ".SH EXTRA\n");
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_exits_with_one() {
    for argument in ["--help", "--version", "help"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_xds"));
        let ended = command.arg(argument).stdout(full).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{argument}: {stderr}");
        assert!(stderr.starts_with("xds: cannot write to standard output: "), "{stderr}");
    }
}

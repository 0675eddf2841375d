//! `xds serve` answers no request until every file has been valid once.

use std::net::TcpListener;

use crate::support::{TempDir, Xds, clusters, endpoints, eventually, run};
use bytes::Bytes;
use http::uri::PathAndQuery;
use serde_json::json;
use tokio::runtime::Builder;
use tonic::{Request, client::Grpc, transport::Endpoint};
use xds_tokio::RawCodec;

/// Health of the whole server: 1 is `SERVING`, 2 is `NOT_SERVING`.
pub(crate) fn health(address: &str) -> u8 {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let mut grpc = Grpc::new(endpoint.connect().await.unwrap());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        grpc.unary(Request::new(Bytes::new()), path, RawCodec).await.unwrap().into_inner()
    });
    let [0x08, status] = answer[..] else { panic!("a status, not {answer:?}") };
    status
}

pub(crate) const SERVING: u8 = 1;
pub(crate) const NOT_SERVING: u8 = 2;

const BROKEN: &str =
    "resources:\n- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  nme: two\n";

#[test]
fn clients_wait_until_every_file_has_been_valid_once() {
    let directory = TempDir::new();
    directory.save("bad.yaml", BROKEN);
    directory.save("good.yaml", &clusters("one"));
    directory.save("eds.yaml", &endpoints("one", &[1]));
    let (serve, address) = Xds::serve(directory.path());
    let serving = serve.wait_count("serving", 1);
    assert_eq!(
        (&serving[0]["ready"], &serving[0]["resources"]),
        (&json!(false), &json!(0)),
        "{serving:?}"
    );
    let error = serve.wait_count("file_error", 1);
    let text = error[0]["error"].as_str().unwrap();
    assert!(text.contains("bad.yaml:3:3: ") && text.contains("nme"), "{text}");
    let waits = serve.wait_count("not_ready", 1);
    let files = waits[0]["files"].as_array().unwrap();
    assert!(files.len() == 1 && files[0].as_str().unwrap().ends_with("bad.yaml"), "{waits:?}");
    assert_eq!(health(&address), NOT_SERVING);

    // Requests of no type are answered, because the broken file may define resources of any type.
    let watch = Xds::spawn(&[
        "watch", "--server", &address, "--node", "test", "-o", "ndjson", "-vv", "cds", "eds:one",
    ]);
    watch.wait_stderr("T=eds");
    // Changes are not served before the server is ready.
    directory.replace("good.yaml", &clusters("one=2s"));
    directory.save("other.yaml", "{");
    serve.wait_count("file_error", 2);
    let waits = serve.wait_count("not_ready", 2);
    assert_eq!(waits[1]["files"].as_array().unwrap().len(), 2, "{waits:?}");
    assert_eq!(health(&address), NOT_SERVING);
    assert!(watch.events_of("changed").is_empty(), "{:?}", watch.events());

    // The server does not wait for a deleted file.
    directory.remove("other.yaml");
    serve.wait_count("not_ready", 3);
    directory.replace("bad.yaml", &clusters("two"));
    let ready = serve.wait_count("ready", 1);
    assert_eq!(ready[0]["resources"], 3);
    watch.wait_count("changed", 3);
    assert!(watch.events_of("removed").is_empty(), "{:?}", watch.events());
    let row = serve.wait_row("cds", |row| row["state"] == "ACKED");
    assert_eq!(row["responses"], 1, "the first answer has all of it: {row}");
    assert_eq!(health(&address), SERVING);

    // A ready server stays ready: a broken file keeps its last valid state or is left out.
    directory.replace("bad.yaml", BROKEN);
    directory.save("late.yaml", "{");
    serve.wait_count("file_error", 4);
    directory.replace("good.yaml", &clusters("one=3s"));
    serve.wait_count("reloaded", 1);
    assert_eq!(health(&address), SERVING);
    assert!(watch.events_of("removed").is_empty());
    assert_eq!(serve.events_of("not_ready").len(), 3);
    println!("covers: M16");
}

#[test]
fn file_with_an_initial_conflict_delays_readiness() {
    let directory = TempDir::new();
    directory.save("a.yaml", &clusters("one"));
    directory.save("b.yaml", &clusters("one=2s two"));
    let path = directory.path().to_str().unwrap();
    let serve = Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0"]);
    serve.wait_stdout("serving ");
    serve.wait_stderr("b.yaml: the cds resource `one` is already defined in");
    serve.wait_stderr(
        "not ready: nothing is served until each of these files has been valid once: ",
    );
    directory.replace("b.yaml", &clusters("two"));
    serve.wait_stdout("ready: 2 resources");
}

/// "Not modified" would mean that there are no resources, and after 15 s the client would report
/// them missing.
#[test]
fn polls_fail_until_the_server_is_ready() {
    let directory = TempDir::new();
    directory.save("bad.yaml", BROKEN);
    directory.save("good.yaml", &clusters("one"));
    let flags = ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--rest-hold", "200ms"];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    let address = serve.events_of("serving")[0]["rest"].as_str().unwrap().to_owned();
    let watch = Xds::spawn(&[
        "watch", "--server", &address, "--poll", "100ms", "--node", "test", "-o", "ndjson", "-vv",
        "cds", "cds:one",
    ]);
    watch.wait_event("an error", |event| {
        event["error"].as_str().is_some_and(|it| it.contains("the server is not ready"))
    });
    watch.wait_stderr("a request failed again");
    assert!(!watch.stderr().contains("no changes"), "{}", watch.stderr());
    assert!(watch.events().iter().all(|it| !it.to_string().contains("does not exist")));
    directory.replace("bad.yaml", &clusters("two"));
    serve.wait_count("ready", 1);
    // `one` is watched twice.
    watch.wait_count("changed", 3);
    // From now on "not modified" is correct.
    watch.wait_stderr("no changes");
}

/// The address is in use, so a command that listens first fails with another exit code.
#[test]
fn strict_and_validate_check_all_files_before_listening() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let dangling = clusters("one").replace("connect_timeout: 1s", "type: EDS");
    for (flag, content, told) in [
        ("--strict", BROKEN, "bad.yaml:3:3: "),
        ("--validate", BROKEN, "bad.yaml:3:3: "),
        ("--validate", &clusters("one=0s"), "bad.yaml:4:20: cds `one`: connect_timeout: must be"),
        ("--strict", &dangling, ": cds `one` refers to eds `one`, which is missing"),
    ] {
        let directory = TempDir::new();
        directory.save("bad.yaml", content);
        directory.save("good.yaml", &clusters("two"));
        let path = directory.path().to_str().unwrap();
        let export = directory.join("out");
        let ended =
            run(&["serve", path, "--listen", &taken, "--export", export.to_str().unwrap(), flag]);
        assert_eq!(ended.code, Some(1), "{flag}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{flag}: {}", ended.stderr);
        let last = format!("{path} is not served: 1 error; with --strict or --validate");
        assert!(ended.stderr.contains(&last), "{flag}: {}", ended.stderr);
        assert!(ended.stdout.is_empty() && !export.exists(), "{flag}: {}", ended.stdout);
        // Without the fault the command tries to listen.
        directory.remove("bad.yaml");
        assert_eq!(run(&["serve", path, "--listen", &taken, flag]).code, Some(3), "{flag}");
    }
    println!("covers: M206 X39");
}

#[test]
fn export_waits_until_the_server_is_ready() {
    let (directory, to) = (TempDir::new(), TempDir::new());
    directory.save("bad.yaml", "{");
    directory.save("good.yaml", &clusters("one"));
    let out = to.join("out");
    let flags = ["--listen", "127.0.0.1:0", "--export", out.to_str().unwrap()];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    serve.wait_count("not_ready", 1);
    assert!(!out.join("cds.json").exists());
    directory.remove("bad.yaml");
    eventually("the export", || match out.join("cds.json").exists() {
        true => Ok(()),
        false => Err(serve.stdout()),
    });
}

#[test]
fn time_limit_begins_when_the_server_serves() {
    let directory = TempDir::new();
    directory.save("bad.yaml", BROKEN);
    let path = directory.path().to_str().unwrap();
    let missing = directory.join("missing");
    let serve = |args: &[&str]| {
        let listen = ["--listen", "127.0.0.1:0", "--for", "0s"];
        run(&[&["serve"], args, &listen].concat()).code
    };
    assert_eq!(serve(&[path, "--strict"]), Some(1));
    assert_eq!(serve(&[path, "--validate"]), Some(1));
    assert_eq!(serve(&[missing.to_str().unwrap()]), Some(1));
    assert_eq!(serve(&[path]), Some(0));
}

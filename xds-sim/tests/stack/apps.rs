//! Applications of users on a stage.

use core::{future::pending, time::Duration};
use tokio::time::{sleep, timeout};
use xds_core::{client::Notice, server::Transaction, types::CLUSTER};
use xds_sim::{Toy, app, server_app, sometimes};

use crate::failure;

#[test]
fn application_that_expects_a_value_first_is_found_and_shrunk() {
    let text = failure(|| {
        app(|client| async move {
            let mut watch = client.watch_untyped(CLUSTER, "web");
            let first = watch.next().await.expect("the client lives").expect("a valid watch");
            let Notice::Changed(Ok(_)) = first else { panic!("no value but {first:?}") };
        })
        .with_resource(CLUSTER, "web", Toy::bytes("web", "content"))
        .check(0..200);
    });
    assert!(text.contains("no value but Changed(Err("), "{text}");
    assert!(text.contains("tape: "), "{text}");
    // One fault is enough, and no other is left.
    assert!(text.lines().count() < 40, "{text}");
}

#[test]
fn application_that_never_ends_is_found() {
    let text = failure(|| {
        app(|client| async move {
            let mut watch = client.watch_untyped(CLUSTER, "web");
            while watch.next().await.is_some() {}
        })
        .with_resource(CLUSTER, "web", Toy::bytes("web", "content"))
        .check(0..1);
    });
    assert!(text.contains("application-ends"), "{text}");
}

#[test]
fn report_states_why_a_resource_is_rejected() {
    let text = failure(|| {
        app(|client| async move {
            let mut watch = client.watch_untyped(CLUSTER, "web");
            while watch.next().await.is_some() {}
        })
        .with_resource(CLUSTER, "web", Toy::bytes("web", "bad"))
        .with_limit(Duration::from_secs(60))
        .check(0..1);
    });
    assert!(text.contains(r#"names [web], error 3 "resource 0 (web): "#), "{text}");
}

#[test]
fn report_of_an_application_that_waits_for_a_thread_mentions_threads() {
    let text = failure(|| {
        app(|_| async { pending::<()>().await }).check(0..1);
    });
    assert!(text.contains("threads and timers of other runtimes are not part of a run"), "{text}");
}

#[test]
fn tokio_tasks_and_timers_work_in_an_application() {
    let summary = app(|client| async move {
        let waiting = tokio::spawn(async move {
            let mut watch = client.watch_untyped(CLUSTER, "web");
            loop {
                if let Some(Ok(Notice::Changed(Ok(_)))) = watch.next().await {
                    return watch;
                }
            }
        });
        let mut watch = waiting.await.expect("no panic");
        sleep(Duration::from_secs(10_000)).await;
        let silence = timeout(Duration::from_secs(1), watch.next()).await;
        assert!(!matches!(silence, Ok(None)), "the client lives");
    })
    .with_resource(CLUSTER, "web", Toy::bytes("web", "content"))
    .with_limit(Duration::from_secs(11_000))
    .check(0..20);
    assert_eq!(summary.runs, 20);
}

#[test]
fn server_application_sees_its_clients_converge() {
    server_app(|server| async move {
        for number in 0..3 {
            let mut change = Transaction::new();
            change.set(CLUSTER, "web", Toy::bytes("web", &format!("version {number}")));
            server.apply(change).await.expect("a sound change");
            sleep(Duration::from_secs(30)).await;
        }
    })
    .with_watch(CLUSTER, "web")
    .check(0..20);
}

#[test]
fn application_survives_restarts_of_its_server() {
    let summary = app(|client| async move {
        let mut watch = client.watch_untyped(CLUSTER, "web");
        loop {
            if let Some(Ok(Notice::Changed(Ok(resource)))) = watch.next().await
                && Toy::text_of(&resource.bytes) == "new"
            {
                return;
            }
        }
    })
    .with_resource(CLUSTER, "web", Toy::bytes("web", "old"))
    .with_change(Duration::from_secs(20), CLUSTER, "web", Some(Toy::bytes("web", "new")))
    .with_restarts()
    .check(0..50);
    assert_eq!(summary.runs, 50);
}

#[test]
fn server_application_is_called_again_after_a_restart() {
    let summary = server_app(|server| async move {
        sometimes("the application starts");
        let mut change = Transaction::new();
        change.set(CLUSTER, "web", Toy::bytes("web", "content"));
        server.apply(change).await.expect("a sound change");
    })
    .with_watch(CLUSTER, "web")
    .with_restarts()
    .check(0..20);
    let starts = summary.situations.get("the application starts");
    assert!(starts.is_some_and(|starts| *starts > 20), "{summary:?}");
}

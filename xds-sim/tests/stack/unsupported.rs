//! Unsupported code on a stage, where it can be detected.

use std::thread;

use tokio::sync::oneshot;
use xds_sim::stack::Stage;

/// Returns the violation of a run.
fn violation(scenario: impl AsyncFnOnce(&Stage)) -> String {
    let report = Stage::run(1, scenario);
    let violation = report.trace.violation.expect("it is detected");
    format!("{}: {}", violation.invariant, violation.what)
}

#[test]
fn spawn_blocking_of_tokio_is_named() {
    let awaited = violation(async |_| {
        tokio::task::spawn_blocking(|| ()).await.expect("it runs");
    });
    let forgotten = violation(async |_| drop(tokio::task::spawn_blocking(|| ())));
    let of_host = violation(async |stage| {
        let (sender, ended) = oneshot::channel();
        stage.host("host").start(async {
            tokio::task::spawn_blocking(|| ()).await.expect("it runs");
            sender.send(()).expect("it is awaited");
        });
        drop(ended.await);
    });
    for text in [awaited, forgotten, of_host] {
        assert!(text.starts_with("no threads: a thread was started"), "{text}");
        assert!(text.contains("`tokio::task::spawn_blocking`"), "{text}");
    }
}

#[test]
fn blocking_work_of_a_host_is_supported() {
    use xds_grpc::runtime::SharedRuntime;

    let report = Stage::run(1, async |stage| {
        let runtime = SharedRuntime::new(stage.host("host"));
        assert_eq!(runtime.unblock(|| 7).await, Some(7));
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn wake_up_by_another_thread_is_named() {
    let text = violation(async |stage| {
        let host = stage.host("host");
        let (sender, receiver) = oneshot::channel();
        let (done, ended) = oneshot::channel::<()>();
        host.start(async move {
            drop(receiver.await);
            drop(done);
        });
        stage.settle().await;
        thread::spawn(|| sender.send(())).join().expect("no panic").expect("it is awaited");
        drop(ended.await);
    });
    assert!(text.contains("woken by another thread"), "{text}");
}

#[test]
fn sockets_of_tokio_are_named() {
    for task_of_tokio in [false, true] {
        let text = violation(async |stage| {
            let connecting = async {
                let _ = tokio::net::TcpStream::connect("127.0.0.1:1").await;
            };
            match task_of_tokio {
                true => drop(tokio::spawn(connecting)),
                false => stage.host("host").start(connecting),
            }
            stage.settle().await;
        });
        assert!(text.contains("`Host::dial`"), "{text}");
    }
}

#[test]
fn panic_of_a_task_of_tokio_is_a_failure_without_being_awaited() {
    let text = violation(async |stage| {
        drop(tokio::spawn(async { panic!("a bug") }));
        stage.settle().await;
    });
    assert!(text.contains("a bug") && text.contains("unsupported.rs"), "{text}");
}

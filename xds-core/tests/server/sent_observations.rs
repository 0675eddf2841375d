//! Observations of sent responses.

use crate::support::{Rig, every_type, url};
use xds_core::server::{Observation, ObserveResponses, ResponseCause, ServerConfig};

fn observing() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.observe_responses = ObserveResponses::On;
    config
}

// IS5: a response is observed when it is rendered, with its cause, before the client's answer.
#[test]
fn sent_response_is_observed_with_cause() {
    let mut rig = Rig::new(observing());
    rig.run("set cds a=1 b=1; eds a=1\n> cds\n2d> eds +a +x");
    rig.observations();
    for (stream, short, script, counts, cause) in [
        (1, "cds", "< cds first a=1 b=1", (2, 0), ResponseCause::First),
        (2, "eds", "2d< eds first a=1 -x", (1, 1), ResponseCause::First),
        (2, "eds", "2d> eds ack\nset eds -a\n2d< eds changed -a", (0, 1), ResponseCause::Changed),
        (1, "cds", "> cds\nset cds a=2\n< cds changed a=2 b=1", (2, 0), ResponseCause::Changed),
    ] {
        rig.run(script);
        let id = rig.stream(stream);
        let nonce = rig.nonce(stream, short);
        let sent = rig.observations().into_iter().rfind(|it| it.stream() == id);
        let Some(Observation::Sent { node_id, response, .. }) = sent else {
            panic!("{script}: {sent:?}")
        };
        assert_eq!(response.type_url.as_str(), url(short));
        assert_eq!((response.nonce.as_str(), response.cause), (&*nonce, cause));
        assert_eq!(*node_id, *format!("node-{stream}"));
        assert!(!response.version.as_str().is_empty());
        assert_eq!((response.resources, response.removed), counts, "{script}");
        assert_eq!(response.errors, 0, "{script}");
    }
    println!("covers: IS5");
}

/// Responses are not observed by default.
#[test]
fn sent_response_is_not_observed_by_default() {
    let mut rig = Rig::new(every_type(|_| ()));
    rig.run("set cds a=1\n> cds\n< cds first a=1\n> cds");
    let is_sent = |it: &Observation| matches!(it, Observation::Sent { .. });
    assert!(!rig.observations().iter().any(is_sent));
}

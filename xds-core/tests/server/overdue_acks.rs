//! Overdue ACKs.

use core::time::Duration;

use crate::support::{Rig, url};
use xds_core::{
    server::{AnswerOverdue, Observation, ServerConfig, ServerOutput},
    types,
};

fn config(answer_overdue: AnswerOverdue) -> ServerConfig {
    ServerConfig::default().with_every_type(|it| it.answer_overdue = answer_overdue)
}

/// Observed overdue answers as type and nonce.
fn overdue(rig: &mut Rig) -> Vec<(String, String)> {
    rig.observations()
        .into_iter()
        .filter_map(|observation| match observation {
            Observation::AnswerOverdue { type_url, nonce, .. } => {
                Some((type_url.to_string(), nonce.to_string()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn overdue_ack_is_observed_once() {
    let mut rig = Rig::new(config(AnswerOverdue::Observe(Duration::from_secs(30))));
    rig.run(
        "
        set cds a=1; eds x=1
        > cds
        < cds first a=1
        2> eds x
        2< eds first x=1
        wait 29s
        2> eds x                 # answered in time
        ",
    );
    assert_eq!(overdue(&mut rig), []);
    let nonce = rig.nonce(1, "cds");
    rig.run("wait 2s");
    assert_eq!(overdue(&mut rig), [(types::CLUSTER.to_owned(), nonce)]);
    rig.run(
        "
        > cds nonce:             # no answer either
        set cds a=2; eds x=2
        <
        2< eds changed x=2
        wait 20s
        ",
    );
    assert_eq!(overdue(&mut rig), []);
    rig.run(
        "
        > cds                    # after almost a minute
        < cds changed a=2
        wait 10s
        ",
    );
    assert_eq!(overdue(&mut rig), [(url("eds"), rig.nonce(2, "eds"))]);
    rig.run("2close\nclose\nwait 60s");
    assert_eq!(overdue(&mut rig), []);
    assert_eq!(rig.server.poll_timeout(), None, "nothing is waited for");
    println!("covers: M65 IS25");
}

#[test]
fn overdue_ack_closes_stream_by_policy() {
    let mut rig = Rig::new(config(AnswerOverdue::Close(Duration::from_secs(5))));
    rig.run("set cds a=1\n> cds\n< cds first a=1\n2> cds\n2< cds first a=1\n2> cds\nwait 5s");
    let stream = rig.stream(1);
    let closed: Vec<_> = rig
        .effects()
        .into_iter()
        .filter_map(|effect| match effect {
            ServerOutput::Close(stream, reason) => Some((stream, reason)),
            _ => None,
        })
        .collect();
    let [(closed, reason)] = &closed[..] else { panic!("one stream: {closed:?}") };
    assert_eq!((*closed, reason.code().as_i32()), (stream, 4));
    let text = format!("response 1 of {} was not answered within 5s", types::CLUSTER);
    assert_eq!(reason.to_string(), text);
    rig.run("set cds a=2\n2< cds changed a=2");
    println!("covers: M65");
}

#[test]
fn overdue_ack_is_awaited_indefinitely_by_policy() {
    let mut rig = Rig::new(config(AnswerOverdue::Wait));
    rig.run("set cds a=1\n> cds\n< cds first a=1");
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M65");
}

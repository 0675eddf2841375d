//! Views without clients are dropped after a configured time.

use core::time::Duration;

use crate::support::{Rig, every_type};
use xds_core::{
    Timer,
    server::{Admission, ServerConfig, ServerEvent, ServerOutput, VersionMode},
};

fn rig() -> Rig {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config.idle_view_timeout = Some(Duration::from_secs(60));
    Rig::new(config)
}

fn dropped(rig: &mut Rig) -> Vec<String> {
    let outputs = rig.effects().into_iter();
    let dropped = outputs.filter_map(|output| match output {
        ServerOutput::Event(ServerEvent::ViewDropped(view)) => Some(view.to_string()),
        _ => None,
    });
    dropped.collect()
}

// M221: the time starts when the last client leaves, or when the view is created.
#[test]
fn view_is_dropped_after_idle_time() {
    let mut rig = rig();
    rig.run("set cds a=1\nset @seen cds a=1\nset @unseen cds a=2\n> cds\n2> cds");
    rig.run("assign 1 seen\nassign 2 seen\nwait 59s");
    assert_eq!(dropped(&mut rig), Vec::<String>::new());
    let deadline = rig.server.poll_timeout().expect("a deadline");
    assert_eq!(deadline.why, Timer::ViewIdle);
    rig.run("set @unseen cds a=3\nwait 1s");
    assert_eq!(dropped(&mut rig), ["unseen"], "setting it is not seeing it");
    rig.run("1close\nwait 100s");
    assert_eq!(dropped(&mut rig), Vec::<String>::new(), "somebody is left");
    rig.run("2close\nwait 30s\n3> cds\nassign 3 seen\nwait 300s\n3close\nwait 59s");
    assert_eq!(dropped(&mut rig), Vec::<String>::new(), "it starts anew");
    rig.run("wait 1s");
    assert_eq!(dropped(&mut rig), ["seen"]);
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources), (1, 1), "the default view stays");
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M221");
}

// M221: streams that end before their assignment, view changes, and removed views leave no timer.
#[test]
fn removed_view_leaves_no_idle_timer() {
    let mut rig = rig();
    rig.run("> cds\n1close\nset @v cds a=1\nset @v cds -a");
    assert_eq!(rig.server.poll_timeout(), None);
    rig.run("set @v cds a=1\n2> cds\nassign 2 v");
    rig.effects();
    rig.run("wait 5s\nassign 2 w\nwait 59s");
    assert_eq!(dropped(&mut rig), Vec::<String>::new());
    rig.run("wait 1s");
    assert_eq!(dropped(&mut rig), ["v"]);
    rig.run("2close");
    assert_eq!(rig.server.stats().views, 1, "one without resources goes at once");
    println!("covers: M221");
}

// M221, M224: clients of a layered view count for its layers.
#[test]
fn layer_is_dropped_after_its_layered_views() {
    let mut rig = rig();
    rig.run("set @base cds a=1\nset @own cds b=1\nlayers v own base\n> cds\nassign 1 v\nwait 500s");
    assert_eq!(dropped(&mut rig), Vec::<String>::new());
    rig.run("layers v base\nwait 60s");
    assert_eq!(dropped(&mut rig), ["own"]);
    rig.run("1close\nwait 60s");
    assert_eq!(dropped(&mut rig), ["v"]);
    rig.run("wait 60s");
    assert_eq!(dropped(&mut rig), ["base"]);
    assert_eq!(rig.server.stats().views, 1);
    println!("covers: M221 M224");
}

/// Views are kept by default.
#[test]
fn views_are_kept_by_default() {
    let mut rig = Rig::default();
    rig.run("set @v cds a=1\nwait 100000s");
    assert_eq!(rig.server.stats().views, 2);
    assert_eq!(rig.server.poll_timeout(), None);
}

// M221: dropped views leave nothing in any version mode.
#[test]
fn idle_view_is_dropped_in_every_version_mode() {
    for versions in [VersionMode::Caller, VersionMode::Label, VersionMode::Counter] {
        let mut config = every_type(|it| it.versions = versions);
        config.idle_view_timeout = Some(Duration::from_secs(60));
        let mut rig = Rig::new(config);
        let stated = if versions == VersionMode::Counter { "" } else { "v:1" };
        rig.run(&format!("set @v cds {stated} a=1\nwait 60s"));
        assert_eq!(dropped(&mut rig), ["v"]);
        let stats = rig.server.stats();
        assert_eq!((stats.views, stats.resources, stats.payloads), (1, 0, 0));
        assert_eq!(rig.server.poll_timeout(), None);
    }
    println!("covers: M221 M243");
}

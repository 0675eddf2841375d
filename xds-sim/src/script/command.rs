//! Commands of a script.
//!
//! | command | effect |
//! |---|---|
//! | `client [profile=grpc\|envoy] [node=ID] [types=lds,cds,..] [wildcard=explicit] [gate=off] [idle=SECONDS\|never] [jitter=PERCENT] [data-errors=keep\|drop-deleted\|drop] [rate=BURST/PER_SECOND] [nack-interval=SECONDS] [features=a,b] [features@SERVER=a,b ..] [variant@SERVER=delta ..] [streams@SERVER=per-type ..] [servers=A,B] [authority=NAME[~SECONDS]:A,B ..] [authority=*:A,B] [source=TYPE:A,B ..] [streams=per-type] [variant=delta] [fallback=off\|failover] [federation=off] [reported-errors=off] [node-in=every] [nack-version=newest] [duplicates=last-wins] [waits=TYPE:SECONDS,TYPE:never,..] [polls=SECONDS[:envoy]] [exchange=files] [external=cds,..]`, limits `[tombstones=N] [resources=N] [bytes=N] [name-bytes=N] [response-bytes=N] [nack-bytes=N] [error-bytes=N] [token-bytes=N]` | starts a new client at time zero |
//! | `server [ordering=off\|order\|make-before-break] [on-stuck=hold\|continue]` | starts this project's management server instead of a scripted one |
//! | `watch LABEL TYPE NAME` | watches a resource; `*` is the wildcard, and a glob watches its members |
//! | `watch LABEL TYPE NAME×COUNT` | begins COUNT watches, LABEL0 and so on, of NAME0 and so on |
//! | `unwatch LABEL` | ends the watch |
//! | `upon LABEL COMMAND` | executes a `watch` or `unwatch` while the watcher handles its next notice |
//! | `busy LABEL`, `done LABEL` | the watcher keeps its notices unfinished, or finishes them |
//! | `reset-backoff` | the application resets the backoff, as after a network change |
//! | `node ID` | changes the client's node |
//! | `shut-down` | shuts the client down |
//! | `respond TYPE v=VERSION n=NONCE [cp=ID] ITEM..` | the scripted server responds; [`response`] lists the items |
//! | `update TYPE n=NONCE ITEM..` | the scripted server responds in the incremental variant; an item is `NAME@VERSION[+ALIAS..][~TTL][=TEXT]` (without `=TEXT` a wrapper without a resource), `-NAME` for a removal, or `!NAME=CODE[:TEXT]` for an error |
//! | `respond-bytes HEX` | the scripted server sends these bytes |
//! | `force TYPE v=VERSION n=NONCE ITEM..` | the transport delivers a response although the client does not want to read |
//! | `force-update TYPE n=NONCE ITEM..` | like `force`, in the incremental variant |
//! | `settle [NAME=REASON..]` | returns the verdict on the last update that awaits one, with `@` the last of that stream; the named resources are rejected, all others accepted |
//! | `end [CODE [MESSAGE]]` | the server ends the stream |
//! | `unchanged` | the server answers a poll without a response: nothing has changed |
//! | `undeliverable TEXT` | the transport cannot deliver a response, or a file cannot be read |
//! | `stale TYPE v=VERSION n=NONCE ITEM..` | a response arrives on the channel before the current one |
//! | `stale-end CODE MESSAGE` | the channel before the current one ends a second time |
//! | `link up\|down\|silent`, `latency 10ms` | sets the state of the network |
//! | `block`, `unblock` | the client's transport stops or resumes accepting requests |
//! | `set TYPE RESOURCE..`, `remove TYPE NAME..` | changes the store of this project's server, in one transaction per line; `{ttl=10s}NAME=TEXT` has a TTL |
//! | `connect LABEL` | a scripted client opens a stream to this project's server |
//! | `request LABEL TYPE [v=..] [n=..] [node=ID] [names=a,b] [error=TEXT]` | the scripted client sends a request; without `v=` and `error=` it states the version that came with the nonce |
//! | `hang-up LABEL` | the scripted client ends its stream |
//! | `advance 15s` | advances virtual time |
//! | `status`, `stats`, `wants-read`, `deadline` | prints internal state |
//! | `csds [all\|none]` | prints the client status (CSDS), with the wall clock at 1970; the argument selects the resource contents to include |
//! | `metrics`, `type-stats` | prints the exported metrics, or the counters by type |
//!
//! `@SERVER` or `@TYPE` after the verb, as in `end@backup` or `respond@eds`, selects the stream to
//! that server or for that type for a command of the server, `settle`, `wants-read` or `link`. The
//! default is the newest stream. `block` and `unblock` apply to all streams.
//!
//! NACKs of a script's client are not paced unless `nack-interval=` is given, so that several
//! responses can be rejected without a pause.
//!
//! A resource is `NAME=TEXT`; [`response`] lists the other forms.

use std::time::Duration;

use xds_core::client::Contents;

use super::{
    response::{self, Resource, ScriptedResponse},
    update::{self, Update},
};

/// One parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes each")]
#[non_exhaustive]
pub enum Command {
    Client(Vec<(String, String)>),
    At { place: String, command: Box<Self> },
    Server(Vec<(String, String)>),
    Watch { label: String, type_name: String, names: Vec<String> },
    Unwatch(String),
    Upon { label: String, command: Box<Self> },
    Busy(String),
    Done(String),
    ResetBackoff,
    SetNode(String),
    ShutDown,
    Respond(ScriptedResponse),
    Update(Update),
    RespondBytes(Vec<u8>),
    Stale(ScriptedResponse),
    StaleEnd { code: i32, message: String },
    End { code: i32, message: String },
    Unchanged,
    Undeliverable(String),
    Settle(Vec<(String, String)>),
    Force(ScriptedResponse),
    ForceUpdate(Update),
    Link(String),
    Block,
    Unblock,
    Latency(Duration),
    Set { type_name: String, resources: Vec<Resource> },
    Remove { type_name: String, names: Vec<String> },
    Connect(String),
    Request { label: String, type_name: String, fields: Vec<(String, String)> },
    HangUp(String),
    Advance(Duration),
    Print(Printout),
}

/// State that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the commands")]
pub enum Printout {
    Status,
    Stats,
    WantsRead,
    Deadline,
    Csds(Contents),
    Metrics,
    TypeStats,
}

/// Parses a line.
///
/// # Errors
///
/// Returns an error if the line is not a valid command. The text describes the fault.
pub fn parse(line: &str) -> Result<Command, String> {
    let mut words = line.split_whitespace();
    let verb = words.next().unwrap_or_default();
    if let Some((verb, place)) = verb.split_once('@') {
        let rest = words.collect::<Vec<_>>().join(" ");
        let command = Box::new(parse(&format!("{verb} {rest}"))?);
        return Ok(Command::At { place: place.into(), command });
    }
    let words: Vec<&str> = words.collect();
    let one = || match words[..] {
        [word] => Ok(word.to_owned()),
        _ => Err(format!("`{verb}` takes one argument")),
    };
    let rest = || words.join(" ");
    Ok(match (verb, &words[..]) {
        ("client", pairs) => Command::Client(fields(pairs)?),
        ("server", pairs) => Command::Server(fields(pairs)?),
        ("watch", [label, type_name, name]) => Command::Watch {
            label: (*label).into(),
            type_name: (*type_name).into(),
            names: expand_names(name)?,
        },
        ("unwatch", _) => Command::Unwatch(one()?),
        ("upon", [label, command @ ..]) => {
            Command::Upon { label: (*label).into(), command: Box::new(parse(&command.join(" "))?) }
        }
        ("busy", _) => Command::Busy(one()?),
        ("done", _) => Command::Done(one()?),
        ("node", [id]) => Command::SetNode((*id).into()),
        ("reset-backoff", []) => Command::ResetBackoff,
        ("shut-down", []) => Command::ShutDown,
        ("respond", [type_name, words @ ..]) => {
            Command::Respond(response::parse(type_name, words)?)
        }
        ("stale", [type_name, words @ ..]) => Command::Stale(response::parse(type_name, words)?),
        ("update", [type_name, words @ ..]) => Command::Update(update::parse(type_name, words)?),
        ("respond-bytes", words) => Command::RespondBytes(hex(&words.concat())?),
        ("stale-end", [code, message @ ..]) => {
            Command::StaleEnd { code: status_code(code)?, message: message.join(" ") }
        }
        ("end", []) => Command::End { code: 0, message: String::new() },
        ("end", [code, message @ ..]) => {
            Command::End { code: status_code(code)?, message: message.join(" ") }
        }
        ("unchanged", []) => Command::Unchanged,
        ("settle", words) => Command::Settle(rejections(words)?),
        ("force-update", [type_name, words @ ..]) => {
            Command::ForceUpdate(update::parse(type_name, words)?)
        }
        ("force", [type_name, words @ ..]) => Command::Force(response::parse(type_name, words)?),
        ("undeliverable", _) => Command::Undeliverable(rest()),
        ("link", _) => Command::Link(one()?),
        ("block", []) => Command::Block,
        ("unblock", []) => Command::Unblock,
        ("latency", _) => Command::Latency(duration(&one()?)?),
        ("set", [type_name, resources @ ..]) => Command::Set {
            type_name: (*type_name).into(),
            resources: response::resources(resources)?,
        },
        ("remove", [type_name, names @ ..]) => Command::Remove {
            type_name: (*type_name).into(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        },
        ("connect", _) => Command::Connect(one()?),
        ("hang-up", _) => Command::HangUp(one()?),
        ("request", [label, type_name, pairs @ ..]) => Command::Request {
            label: (*label).into(),
            type_name: (*type_name).into(),
            fields: fields(pairs)?,
        },
        ("advance", _) => Command::Advance(duration(&one()?)?),
        ("status", []) => Command::Print(Printout::Status),
        ("stats", []) => Command::Print(Printout::Stats),
        ("wants-read", []) => Command::Print(Printout::WantsRead),
        ("deadline", []) => Command::Print(Printout::Deadline),
        ("csds", []) => Command::Print(Printout::Csds(Contents::WithoutSecrets)),
        ("csds", ["all"]) => Command::Print(Printout::Csds(Contents::All)),
        ("csds", ["none"]) => Command::Print(Printout::Csds(Contents::None)),
        ("metrics", []) => Command::Print(Printout::Metrics),
        ("type-stats", []) => Command::Print(Printout::TypeStats),
        _ => return Err(format!("`{line}` is not a command")),
    })
}

fn status_code(code: &str) -> Result<i32, String> {
    code.parse().map_err(|_| format!("`{code}` is not a status code"))
}

/// Parses rejections, splitting at the last `=` because names may contain others.
fn rejections(words: &[&str]) -> Result<Vec<(String, String)>, String> {
    let rejection = |word: &&str| {
        let (name, reason) =
            word.rsplit_once('=').ok_or("a verdict must have the form NAME=REASON")?;
        Ok((name.into(), reason.into()))
    };
    words.iter().map(rejection).collect()
}

fn fields(pairs: &[&str]) -> Result<Vec<(String, String)>, String> {
    let split = |pair: &&str| {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("`{pair}` is not of the form KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}

/// Expands a name, or a name with a count after `×` into numbered names.
fn expand_names(name: &str) -> Result<Vec<String>, String> {
    let several = name.rsplit_once('×').and_then(|(name, count)| Some((name, count.parse().ok()?)));
    match several {
        Some((name, count)) => Ok((0..count).map(|n: usize| format!("{name}{n}")).collect()),
        None => Ok(vec![expand_name(name)?]),
    }
}

pub(super) fn expand_name(name: &str) -> Result<String, String> {
    match name.strip_prefix('%') {
        Some(length) => {
            let length = length.parse().map_err(|_| format!("`{length}` is not a length"))?;
            Ok("x".repeat(length))
        }
        None => Ok(name.into()),
    }
}

/// Parses a duration such as `15s` or `10ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as 15s or 10ms");
    let seconds = |number: &str, unit: f64| {
        let number: f64 = number.parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
    };
    match text.strip_suffix("ms") {
        Some(millis) => seconds(millis, 0.001),
        None => seconds(text.strip_suffix('s').ok_or_else(wrong)?, 1.0),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    (0..text.len())
        .step_by(2)
        .map(|at| text.get(at..at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`{text}` is not hexadecimal"))
}

//! Runs that broke a rule about clients (IC).

use super::Regression;

pub(super) const REGRESSIONS: [Regression; 28] = [
    (
        "a client that starts anew sends nothing on the streams it had (IC5)",
        "types=2 names=3 operations=20 actions={watch-all,delete,storm,slow-watcher} faults={block-requests,restart-client}",
        "AAEAAAAAAQABAAAAAAEAAQAAAAEAAAEAAAAAAQABAAAAAAEAAQAAAAABAAEACAAAAAABAAAAAAIAAQAJAAAAAAEDAAAAAQABAAgAAAAAAQ",
    ),
    (
        "the same, seen again",
        "types=1 operations=20 actions={watch-all,watch-again,set-bad,set-back,storm,empty} faults={wake-for-nothing,reset,hang,block-requests,restart-client}",
        "AAEAAAAAAQABAAAAAAEAAQABAAAAAAEAAAAAAQABAAAAAAEAAQAAAAABAAEADQAAAAABAAMAAAEAAQMOAAAAAAEDAAAAAQABAA0AAAAAAQ",
    ),
    (
        "the same, seen again",
        "types=1 names=3 operations=20 actions={watch-all,watch-again,delete,set-bad,empty} faults={hang,half-open,block-requests,restart-client}",
        "AAEAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAEACwAAAAABAAAAAAIAAQAMAAAAAAEDCwAAAAAB",
    ),
    (
        "a stream that the client had ended itself is no failure of its server (IC26, the rule was wrong)",
        "servers=2 types=1 latency=0ns operations=20 actions={watch-all,unwatch,watch-again,set-back} faults={starve,end}",
        "AAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAMAAAAAAQAAAAABAAEACQAAAAABBQgAAAAAAQAFAAAAAAEACQAAAAAB",
    ),
    (
        "a member of a glob that begins anew may be known from another watch (IC15, the rule was wrong)",
        "servers=3 variant=delta types=1 operations=20 actions={unwatch,empty,watch-when-told,set-for-a-while,set-error,watch-glob}",
        "AAEAAwAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAMAAAAAAQAAAAAAAAEABAAAAAABAAkAAAAAAQADAAABAAEAAAAAAQABBAQAAAAnAQAJ",
    ),
    (
        "a channel given up for what was read counts from then, drained or not (IC26, the rule was wrong)",
        "streams=PerType types=1 names=4 operations=20 transport=Polls actions={watch-all,unwatch} faults={starve,wake-for-nothing,hang,half-open,block-requests,restart-server,restart-client,lag,slow,go-away,bad-answer}",
        "AAEAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAEAEAAAAwABAAAAAAAAAQAGAAABAAEG",
    ),
    (
        "an alias that is watched again before its end was said is asked for again (IC40, the rule was wrong)",
        "variant=delta types=1 names=1 operations=20 actions={unwatch,delete,set-back,storm,watch-alias} faults={end,hang,half-open,block-requests,block-responses,restart-client,go-away,late-timers,narrow,clog}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAAAAAEACAAAAAABAwAAAAAAAQASAAAAAAEDCA",
    ),
    (
        "a heartbeat does not end the wait of who asks for the resource by its other name (IC31, the rule was wrong)",
        "variant=delta types=1 names=1 operations=20 actions={watch-all,watch-again,set-back,storm,empty,watch-when-told,set-for-a-while,set-error,watch-many,watch-alias}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACgAAAAABAwsAAAAAAQANAAAAAAEK",
    ),
    (
        "what one server sent is used since the verdict on it, though another one was read meanwhile (IC7, the rule was wrong)",
        "servers=2 types=2 names=1 latency=300ms operations=20 verdicts=Soon actions={delete,set-back,empty,slow-watcher,watch-when-told} faults={wake-for-nothing,reset,end,hang,half-open,block-requests,restart-server,restart-client}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACAABAAQBCQAAAAAAAQAMAAAAAAEAAwABAAABAAMAAAAAAQAQAAAAAAEHCg",
    ),
    (
        "who polls states the version that its server answered with also after another server was relied on (IC7)",
        "servers=2 streams=PerType types=1 names=3 operations=20 transport=Polls actions={watch-again,set-back,storm,empty} faults={refuse,hang,half-open,block-requests,restart-server,lag,hang-up,bad-answer,stale-answer,late-timers,clock-jump,other-replica}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQABAAAAAAEHBwAAAAABAAAAAAEAAQMTAAAAAAEGAwAAAgABAAwAAAAAAQkAAAAAAAEFBgAAAAABCAo",
    ),
    (
        "who polls states no version of a server when another one has said something since (IC7, the rule was wrong)",
        "servers=2 streams=PerType types=1 latency=0ns operations=20 transport=Polls actions={unwatch,watch-again,set-bad,slow-watcher,watch-many} faults={starve,end,refuse,block-requests,lag,hang-up,go-away,bad-answer}",
        "AAEAAQAAAAABAAAAAAAAAQgAAAAAAAEAAAAAAQABAAEAAAEAAQABAAAAAAEAEAAAAS8BBw",
    ),
    (
        "what nobody watches any more goes with the channel that something unreadable ends (IC36, the rule was wrong)",
        "types=1 names=1 operations=20 actions={watch-all,unwatch,empty,watch-when-told} faults={starve,reset,end,refuse,hang,block-requests,block-responses,restart-server,restart-client,hang-up,narrow,other-replica} lies={truncate,flip}",
        "AAEAAAAAAAAAAQAEAAAAAAEADQAAAAABAAUAAAAAAQAVAAAAAAED",
    ),
    (
        "a heartbeat renews the version in use though a newer one was rejected (IC33, the rule was wrong)",
        "variant=delta types=1 names=6 operations=20 actions={watch-all,set-bad,storm,empty,set-for-a-while,set-error} faults={wake-for-nothing,reset,end,refuse,hang,block-requests,lag,go-away,clock-jump,other-replica}",
        "AAEAAAAABQAAAQAIAAAFDQEAEQAAAAABBQAAAAAAAQAFAAAFAAEGAAAAAAABABMAAAQAAQcAAAAAAAEJCw",
    ),
    (
        "who is called for nothing learns the time, and that a silent server is well again (IC28, the rule was not told)",
        "variant=delta types=1 names=6 operations=20 actions={watch-again,delete,set-back,storm,empty,set-for-a-while,watch-many} faults={wake-for-nothing,end,block-requests,block-responses,restart-client,hang-up,go-away,late-timers}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAwAAAAABAAAAAAAAAQgAAAAAAAEADAAAAAABBgMAAAEAAQURAAAAAAEFEgAABAABBgMAAAEAAQkL",
    ),
    (
        "the same, where trouble comes again after that (IC27)",
        "streams=PerType types=2 names=4 operations=20 features={transient-timer} actions={watch-all,unwatch,set-bad,storm,slow-watcher} faults={starve,wake-for-nothing,reset,refuse,hang,block-requests,block-responses,restart-server}",
        "AAEAAAABAAAAAQALAAAAAAEHAAAAAAABAAsAAAAAAQcQAAAAAAEHAAAAAAABABAAAAAAAQcAAAAAAAEJAAAAAAABBgAAAQEAAQkAAAAAAAEACQAAAwABBgAAAAAAAQAQAAAAAAEACg",
    ),
    (
        "who was not seen to had turned to the next server before the first one answered (IC29, the rule was wrong)",
        "servers=2 streams=PerType types=2 names=4 operations=20 transport=Polls actions={watch-all,unwatch,watch-again,storm,empty,slow-watcher,watch-many} faults={starve,restart-server,go-away}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAQAAAQkAAAAAAAEADAAAAAABCQAAAAAAAQgAAAAAAAEACwAAAwABAAoAAQAAAQc",
    ),
    (
        "what another server had, and the answer with everything has not, is missing after a while for who asks by name, too (IC24, the rule was wrong)",
        "servers=2 variant=delta types=2 names=6 operations=20 actions={watch-all,storm,empty,slow-watcher,set-for-a-while,set-error,watch-many} faults={starve,reset,end,refuse,hang,half-open,block-requests,restart-server,lag,go-away,late-timers,clock-jump,clog}",
        "AAEAAAAAAAAAAQAEAAEAAAEAAwABAAABAxcAAAAAAQAGAAEAAAEADgAABAABABQAAAAAAQAAAAABAAEHAAAAAAABCQAAAQ",
    ),
    (
        "who used a part of what it rejected does not state over polls to hold the version before it (IC7, IL1)",
        "streams=PerType types=1 names=4 operations=20 transport=Polls actions={unwatch,set-bad,storm,slow-watcher,watch-when-told} faults={starve,wake-for-nothing,reset,end,hang,block-requests,restart-client,slow,hang-up,go-away,late-timers,other-replica}",
        "AAEAAQAAAAAAAQAAAAAAAAEAAAAAAQABAAUAAAEAAQASAAAAAAEABgAAAAABBxQAAAEAAQYNAAADAAEH",
    ),
    (
        "a stream that has served begins the pauses anew though the client ends it (IC26)",
        "clients=2 types=1 names=1 operations=20 actions={unwatch,set-back,empty,slow-watcher,set-for-a-while,set-privileged} faults={half-open}",
        "AAEAAAAAAAAAAQAKAAAAAAEAAAAAAAABCAMAAAAAAQAEAAAAAAEJAAEAAAABAAQAAAAAAQkAAQAAAAEJAAEAAAABBQAAAAAAAQMK",
    ),
    (
        "the same (the rule was wrong)",
        "clients=2 streams=PerType types=1 names=1 operations=20 transport=Polls actions={unwatch,watch-again,delete,set-bad,set-back,empty,watch-many,set-privileged} faults={starve,end,refuse}",
        "AAEAAAEAAAABAAEAAAAAAAEADgAAAAABAAUBAAAAAQcAAAAAAAEIDgAAAAABAAQBAAAAAQAAAQAAAAED",
    ),
    (
        "who has turned to the next server connects to it though he knows all by then (IC29, the rule was wrong)",
        "servers=2 streams=PerType types=2 names=4 operations=20 actions={watch-all,delete,set-bad,storm,slow-watcher,watch-when-told,set-for-a-while,set-error} faults={starve,reset,end,refuse,hang,half-open,block-requests,block-responses,restart-server,slow,clog,reset-connection,partition}",
        "AAEAAAABAAABAAAAAAAAAAEAGAAAAw0BABcAAAAAAQYAAAAAAAEAGAAAAAABDA",
    ),
    (
        "what another server sent is taken into use after a stream has begun (IC7, the rule was wrong)",
        "servers=2 types=3 names=6 operations=20 verdicts=Late actions={watch-all,watch-again,delete,storm,empty,slow-watcher,set-error} faults={wake-for-nothing,reset,hang,block-requests,restart-server,late-timers,narrow,clog,other-replica,cut-off,reset-connection,expire}",
        "AAEAAAAAAAABAAAAAQAAAAEABwAAAAABBwAAAAAAAQkWAAAEAAEHDgAABAABCQ",
    ),
    (
        "what was found missing of everything is told to who asks for it just then (IC24, the rule was wrong)",
        "variant=delta types=1 names=6 operations=20 actions={watch-all,unwatch,empty,slow-watcher,watch-when-told,set-for-a-while,set-privileged} faults={starve,wake-for-nothing,reset,hang,block-responses,restart-server,lag,slow,hang-up,late-timers,clock-jump,other-replica}",
        "AAABAAAAAAAAAQAJAAAEGAEAEAAAAAABABAAAAAAAQAAAAAAAAEABAAAAAABAAAAAAAAAQAWAAAAAAEAFgAAAAABAAAAAAAAAQUWAAAFIgEJCAAABCABBw",
    ),
    (
        "an ACK waits for the NACK of an earlier response (IC34, the rule was wrong)",
        "types=1 operations=20 views=2 actions={unwatch,set-bad,set-back,slow-watcher,set-for-a-while,move,set-privileged} faults={wake-for-nothing,refuse,hang,block-responses,restart-server,restart-client,late-timers,clog} lies={wrong-any}",
        "AAEAAAAAAAAAAQAOAAAAAAEAEgAAAQABABMAAAAAAQATAAAAAAEABgAAAAABBw",
    ),
    (
        "an ACK waits for the NACK of a damaged response (IC34, the rule was wrong)",
        "types=1 names=1 operations=20 actions={unwatch,watch-again,set-bad,set-back,empty,slow-watcher,set-for-a-while,set-error,watch-many,set-privileged} faults={starve,wake-for-nothing,hang,half-open,block-requests,restart-client,slow,late-timers,clog,other-replica,partition,slow-link,expire} lies={truncate,flip,unknown-type,twice,invent,repeat,no-nonce}",
        "AAEAAAAAAAAAAQASAAAAAAEADQAAAAABABwAAAAVAQAhAAAAAAEH",
    ),
    (
        "an alias that was not requested yet does not make the client use its resource (IC18, the rule was wrong)",
        "variant=delta types=2 names=1 operations=20 views=2 actions={watch-again,storm,set-error,move,watch-alias} faults={refuse,hang,block-requests}",
        "AAEAAwABAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAIAAEAAAEABAAAAAABBAAAAAAAAQALAAAAAAEAAwABAAABAAQAAAA0AQM",
    ),
    (
        "what the response to a wildcard lacks does not exist, although the server reports nonexistence of what is named (IC25, the rule was wrong)",
        "clients=2 variant=delta types=1 names=1 operations=20 views=2 features={transient-timer} actions={watch-all,watch-again,delete,set-bad,slow-watcher,watch-when-told,move} faults={starve,wake-for-nothing,reset,end}",
        "AAEAAAAAAAAAAQAEAAAAAAEACQAAAAABAAcAAAAAAQAOAAAAAAEABgAAAAABCQkAAAARAQgAAQAAAAEI",
    ),
    (
        "a resource that the fallback server does not send ends what an earlier server's version says (IC7, the rule was wrong)",
        "servers=2 mixture=ByServer types=2 names=6 latency=0ns operations=20 actions={watch-all,watch-again,delete,set-back,storm,empty,watch-when-told,set-error,watch-many,set-privileged} faults={end,block-requests,block-responses,lag,slow,hang-up,late-timers,narrow,clog,other-replica,cut-off,reset-connection,expire}",
        "AAABAAQAAQAAAQAHAAEAAAEAAAAAAAABAAYAAQAAAQAaAAAEAAEI",
    ),
];

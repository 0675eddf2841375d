//! Regression tests: shrunk runs that once broke a rule.
//!
//! Each run is stored with the text of its options and the part of its tape that follows them, so
//! that it stays the same when options are added. `regressions.txt` stores the questions that each
//! tape answers, so that a drifted run fails.

use std::{env, fs, path::Path};

use xds_sim::{Config, Options, Outcome, Tape, replay};

/// Description, relevant options, and the rest of the tape.
const MENDED: [(&str, &str, &str); 101] = [
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
        "everything of an empty list that ended is asked for again though a response crossed its end (IL1)",
        "types=1 names=1 operations=20 actions={watch-all,unwatch}",
        "AAABAAQAAAAAAQQBAAAAAAEABQAAAAABAwQ",
    ),
    (
        "everything of endpoints is asked for again though a response crossed its end (IL1)",
        "clients=2 types=2 operations=20 actions={watch-all,unwatch}",
        "AAEAAQAAAAABAAABAAAAAQADAAAAAAEAAAEAAAABAAABAAAAAQABAAAAAAEABAABAAABAAMAAQEAAQQFAAAAAAEABAABAAABAAMAAQ",
    ),
    (
        "a name is asked for again though a response crossed its end (IL1)",
        "types=2 names=3 operations=20 actions={watch-all,unwatch}",
        "AAEAAAABAgABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQAAAAEAAAEAAQABAgABAAUAAAAEAQAAAAE",
    ),
    (
        "a proxy's time for a resource goes on while a name is asked for anew (IL1)",
        "types=1 names=4 profile=Envoy operations=20 actions={unwatch}",
        "AAABAAEAAAAAAQAAAAADAAEIAAAAAAABCAQAAAAAAQAAAAAD",
    ),
    (
        "heartbeats are not withheld by those of whom nothing was due (IS27, IL1)",
        "clients=2 types=2 latency=300ms operations=20 actions={watch-all,unwatch,delete,storm,empty,watch-when-told,set-for-a-while}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACQABABABAAQBAQAAAQcAAAAAAAEACgABAQEBCAoAAQAAAQc",
    ),
    (
        "a first answer is given though all of it was deleted while it was held back (M39, IL1)",
        "types=3 names=1 data_errors=DropCached operations=20 order=AfterAcks actions={watch-all,delete,set-bad,set-back,slow-watcher,watch-when-told,set-for-a-while} faults={wake-for-nothing,reset}",
        "AAEAAQACAAABAAAAAAAAAQAAAAIAAAABAAMAAAAAAQAMAAAAAAEHBQAC",
    ),
    (
        "types that share a stream wait for each other's verdicts (IL1, the bound was wrong)",
        "names=1 profile=Envoy operations=20 verdicts=Late",
        "AAEAAAACAAABAAAAAAAAAQAAAAEAAAEAAAADAAABAAMAAAAAAQADAAEAAAEAAwACAAABAAMAAw",
    ),
    (
        "a full state that a moved client was sent is not sent again (IS5)",
        "types=3 names=3 operations=20 order=AfterAcks views=2 actions={set-back,storm,set-for-a-while,set-error,move}",
        "AAEAAAAAAQABAAAAAAEAAQAAAAIAAAEAAwAAAAABAAEAAgAAAQAAAAACAAEABQAAAAABAAg",
    ),
    (
        "errors are told to who names the resource, not to who has to hear that it is gone (IS28)",
        "types=3 operations=20 order=OnlyAfterAcks actions={watch-all,unwatch,delete,set-back,storm,set-for-a-while,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAIAAAEABAAAAAABAAEAAAEAAQADAAIAAAEDBgAAAQABAAoAAAE",
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
        "a removal that was told in a rejected response is told again, whoever asked meanwhile (IS11, the rule was wrong)",
        "clients=2 variant=delta types=1 operations=20 actions={watch-all,watch-again,delete,set-bad,set-back,storm,slow-watcher,set-for-a-while}",
        "AAEAAAEAAAABAAMAAAAAAQAAAQAAAAEAAAAAAQABAAAAAAEAAQADAAAAAAEABAAAAAABAAsAAAEYAQQGAAAAAAEAAAAAAAABBA",
    ),
    (
        "a state without what was dropped is another one, also where that was dropped before (IS4, the rule was wrong)",
        "types=1 names=4 operations=20 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,empty,watch-when-told}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAEAAAAAAEABQAAAAABAAAAAAAAAQAAAAAAAAEADAAAABsBAAYAAAAIAQAIAAADAAEEAAAAAwABAAAAAAAAAQAIAAAAAAEDBQAAAB8BBA",
    ),
    (
        "what was deleted from under a rejected response is told (IL1)",
        "variant=delta types=1 names=6 data_errors=DropCached operations=20 actions={watch-all,unwatch,delete,set-bad,set-back,empty,slow-watcher,watch-when-told,set-for-a-while}",
        "AAEAAAAAAAAAAQAMAAABGAEAAwAAAgABAAcAAAAAAQAEAAAAAAEECQ",
    ),
    (
        "a moved client that everything is told of lacks nothing where there is an error only (IS5)",
        "operations=20 views=2 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,set-for-a-while,set-error,move}",
        "AAEAAwADAQABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAADAAABBAwAAwEAAQAN",
    ),
    (
        "a rejected state is the same one in another version (IS4)",
        "clients=2 types=1 names=6 operations=20 versions=Counted actions={watch-all,unwatch,set-bad,set-back,empty,slow-watcher,watch-when-told} faults={starve,reset,end,refuse,hang,block-requests,block-responses,restart-client,slow,go-away,late-timers,clock-jump}",
        "AAEAAAEABQAAAQkAAAAAAAEAEAAABQABBwAAAAAAAQcAAAAAAAEJAAAAAAABABYAAAEAAQAGAAAFAAEFAwAAAAABCQAAAAAAAQc",
    ),
    (
        "a new name of what a client comes back with is answered (IL1)",
        "variant=delta types=1 names=1 operations=20 actions={watch-again,watch-when-told,set-error,watch-alias} faults={restart-server}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAMAAAAAAQAAAAAAAAEABwAAAAABAAg",
    ),
    (
        "an error that was told since is not followed by the deletion before it (IS11)",
        "variant=delta types=1 operations=20 actions={watch-all,delete,storm,slow-watcher,watch-when-told,set-for-a-while,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAAAAAABAAkAAAAAAQAJAAABGAEDBQAAAAABBAAAAAAAAQAKAAAAAQ",
    ),
    (
        "a driver asks again which requests are welcome when it has drained a server that it had kept waiting (IL1, the world was wrong)",
        "clients=2 types=3 names=1 operations=20 views=2 actions={unwatch,delete,storm,slow-watcher,watch-when-told,set-for-a-while,set-error,watch-many} faults={starve,reset,refuse,block-requests,block-responses,restart-client}",
        "AAEAAAAAAAABAAABAgAAAQAAAAAAAAEAAAAAAAABAAABAQAAAQABAAIAAAEADAAAAAUBABEBAAAAAQQ",
    ),
    (
        "what was never accepted is told to be gone, also if it was there before it was asked for (IL1)",
        "operations=20 order=OnlyAfterAcks actions={watch-all,set-bad,storm,empty}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABgAAAAABAAMAAwAAAQMFAAABAAEAAAAAAQABBAAAAwAAAQAH",
    ),
    (
        "an alias that is watched again before its end was said is asked for again (IC40, the rule was wrong)",
        "variant=delta types=1 names=1 operations=20 actions={unwatch,delete,set-back,storm,watch-alias} faults={end,hang,half-open,block-requests,block-responses,restart-client,go-away,late-timers,narrow,clog}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAAAAAEACAAAAAABAwAAAAAAAQASAAAAAAEDCA",
    ),
    (
        "an error is told again to who asked for it with a glob, though the glob has ended meanwhile (IS28, the rule was wrong)",
        "servers=3 variant=delta types=1 operations=20 actions={watch-all,unwatch,delete,set-bad,slow-watcher,set-error,watch-glob,watch-many} faults={starve}",
        "AAABAAAAAAAAAQAAAAAAAAEAAQAAAQABAAkAAAEAAQAAAAABAAEEDAAAAA8BAAoAAAAAAQAFAAAANwED",
    ),
    (
        "a heartbeat does not end the wait of who asks for the resource by its other name (IC31, the rule was wrong)",
        "variant=delta types=1 names=1 operations=20 actions={watch-all,watch-again,set-back,storm,empty,watch-when-told,set-for-a-while,set-error,watch-many,watch-alias}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACgAAAAABAwsAAAAAAQANAAAAAAEK",
    ),
    (
        "an alias of what a client comes back with is answered where it asks for that with a glob (IL1)",
        "clients=2 servers=3 variant=delta types=1 operations=20 actions={watch-again,delete,set-bad,set-back,watch-glob,watch-alias} faults={starve,wake-for-nothing,reset,refuse,half-open}",
        "AAEAAAEAAAABAAABAAAAAQADAAAAAAEAAAEAAAABAAMAAAEAAQAAAQAAAAEACAAAAAABBA4AAAAAAQAJAAAB",
    ),
    (
        "who polls and asks for everything later states no version, which may be that of all there is (RJ-01, IL1)",
        "streams=PerType types=1 names=4 operations=20 transport=Polls actions={watch-all,unwatch,watch-again,delete,slow-watcher} faults={wake-for-nothing,end,hang}",
        "AAABAAAAAAEAAQAAAAAAAAEAAwAAAAABBgUAAAADAQALAAADAAEHBA",
    ),
    (
        "who came back with a resource that is gone since is told that, and no error, unless he names it (IS28)",
        "variant=delta types=3 names=1 operations=20 order=AfterAcks actions={watch-all,unwatch,empty,watch-when-told,set-for-a-while,set-error,watch-many,watch-alias} faults={end,half-open,restart-client,lag,slow,late-timers,clog,other-replica}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAwACAAABAAAAAAAAAQAAAAAAAAEACAAAAAABAAQAAgAAAQkAAAAAAAEFEwAAAAABBwYAAgAAAQAJAAIABA",
    ),
    (
        "an alias that came to stand for something before its end was said is not told to be gone (IS11)",
        "variant=delta types=1 names=1 operations=20 actions={watch-all,unwatch,watch-again,storm,empty,watch-when-told,watch-many,watch-alias}",
        "AAEAAAAAAAAAAQALAAAAAAEABAAAAAABAAUAAAAWAQMAAAAAAAEABw",
    ),
    (
        "who rejects its first part of everything is not told of what was gone before that was asked for (IS11)",
        "clients=2 variant=delta types=1 names=3 operations=20 verdicts=Soon actions={watch-all,delete,set-bad,set-back,storm,empty}",
        "AAABAAgAAAAAAQAEAAAAAAEAAAEAAAABBAAAAAAAAQAJAAAAAAEABAEAAAABAAYAAAEAAQU",
    ),
    (
        "what was rejected, and then left out of a full state for an error, does not linger in it (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks actions={delete,set-bad,watch-when-told,set-error}",
        "AAEAAwAAAQABAAAAAAEAAQAAAAIBAAEAAAAAAAABAAAAAAAAAQADAAIBAAEABQAAAAABAAcAAAAAAQQE",
    ),
    (
        "what one server sent is used since the verdict on it, though another one was read meanwhile (IC7, the rule was wrong)",
        "servers=2 types=2 names=1 latency=300ms operations=20 verdicts=Soon actions={delete,set-back,empty,slow-watcher,watch-when-told} faults={wake-for-nothing,reset,end,hang,half-open,block-requests,restart-server,restart-client}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACAABAAQBCQAAAAAAAQAMAAAAAAEAAwABAAABAAMAAAAAAQAQAAAAAAEHCg",
    ),
    (
        "nor is who accepts something since, unless that took along what was rejected (IS11)",
        "clients=2 variant=delta types=1 names=6 operations=20 actions={watch-all,unwatch,watch-again,delete,set-bad,empty,slow-watcher,watch-when-told,set-error,watch-many} faults={starve,reset,refuse,hang,block-requests,lag,go-away,clock-jump,narrow,clog,other-replica}",
        "AAABAAMAAAMAAQAAAAACAAEAAAAAAAABAAMAAAAAAQAYAAAAAAEACQAAAAABAAgAAAIAAQUYAAAEAAEKBAEAAAABBgAAAAAAAQAEAAAAAAEEDAAAAAE",
    ),
    (
        "who is moved and rejects what the other view has is not told again of what it has accepted to be gone (IS11)",
        "clients=2 variant=delta types=1 names=3 operations=20 views=2 actions={watch-all,watch-again,delete,set-bad,set-for-a-while,move}",
        "AAABAAEAAAAAAQAJAQAAAAEABAEAAAABAAQAAAAAAQAHAAACAAEECQAAAAABAAEAAAEAAQAGAAAAAAEEAAAAAAABAAkB",
    ),
    (
        "what came and went before its client was told is no change that takes along what was rejected (IS4)",
        "variant=delta types=2 operations=20 actions={watch-all,watch-again,delete,set-bad,set-back,empty,set-for-a-while} faults={starve}",
        "AAEAAAAAAQABAAAAAQAAAQAAAAEAAAEAAAAAAQABAAAAAQAAAQAAAAABAAEABAAAAAABAAcAAAEAAQQLAAAABwEAAwAAAAABAAYAAAAAAQU",
    ),
    (
        "who is told again of what is gone hears of what came back and went since as well (IS10)",
        "variant=delta types=1 names=4 operations=20 actions={watch-all,delete,set-back,storm,empty,watch-when-told,set-for-a-while}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAAAAAABAAcAAAAAAQMFAAADAAEDCgAAAxgBBAg",
    ),
    (
        "that an error is said of a listener does not make it wait for newer clusters (IS17, the rule was wrong)",
        "types=3 names=1 operations=20 order=OnlyAfterAcks actions={watch-all,unwatch,watch-again,delete,empty,set-for-a-while,set-error}",
        "AAEAAAAAAAABAAAAAQAAAQAAAAAAAAEAAAAAAAABAAMAAgAAAQkAAAAAAAEACgACAAABAAQAAgAAAQADAAAAAAED",
    ),
    (
        "a silent stream is given up in time though the network was slow for a moment that nobody saw (IL3, the rule was wrong)",
        "types=1 operations=20 actions={watch-all,unwatch,delete,watch-when-told} faults={starve,end,half-open,block-responses,restart-client,lag,slow}",
        "AAEAAAAAAAAAAQAKAAAAAAEHAAAAAAABCg4AAAEAAQc",
    ),
    (
        "who asks for everything again is sent all of it again, also what it stated before (IS13, the rule was wrong)",
        "variant=delta types=3 operations=20 order=AfterAcks actions={watch-all,watch-again,set-back,empty,slow-watcher,watch-when-told,watch-many} faults={starve,half-open}",
        "AAEAAAAAAAABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQAAAAABAAEABAACAAABBAEAAgAAAQADAAAAAAEDDAAAAAABDAAAAAAAAQAAAAIB",
    ),
    (
        "who polls states the version that its server answered with also after another server was relied on (IC7)",
        "servers=2 streams=PerType types=1 names=3 operations=20 transport=Polls actions={watch-again,set-back,storm,empty} faults={refuse,hang,half-open,block-requests,restart-server,lag,hang-up,bad-answer,stale-answer,late-timers,clock-jump,other-replica}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQABAAAAAAEHBwAAAAABAAAAAAEAAQMTAAAAAAEGAwAAAgABAAwAAAAAAQkAAAAAAAEFBgAAAAABCAo",
    ),
    (
        "what there is no more is not renewed, though nothing says that it is gone (IS27, the rule was wrong)",
        "types=2 names=6 operations=20 actions={watch-all,set-bad,storm,empty,slow-watcher,watch-when-told,set-for-a-while}",
        "AAEAAwAAAAABAAAAAAEAAQADAAAAAAEAAAAAAQABAAEAAAAAAQAAAAEBAAEAAAAAAAABAAAAAAAAAQMIAAAFDQEACgABASMBAwAAAAAAAQAHAAE",
    ),
    (
        "who asks for something by its other name only is told by that name that it is gone (IS10, the rule was wrong)",
        "variant=delta types=1 operations=20 actions={unwatch,watch-again,delete,set-bad,set-back,storm,empty,slow-watcher,watch-when-told,watch-alias}",
        "AAEAAwAAAAABAAEAAAAAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAAAAAEACQAAAAABAA0AAAEAAQAAAAAAAAEAAAAAAAABBAoAAAAAAQAFAAAAOQ",
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
        "a stream waits while an attempt for another one of the same server is under way (IL3, the rule was wrong)",
        "streams=PerType types=2 names=6 operations=20 actions={watch-all,watch-again,delete,set-bad,empty,watch-many} faults={starve,wake-for-nothing,end,refuse,hang,half-open}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAEAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEADwAAAAMBBwAAAAAAAQkMAAAAAAEADgAABQABCAAAAAAAAQw",
    ),
    (
        "who polls states no version for what has not come in its time and is taken up again (IL1)",
        "streams=PerType types=2 profile=Envoy operations=20 transport=Polls actions={unwatch} faults={other-replica}",
        "AAEAAQABAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAQEAAQAAAAEAAAEAAAAAAAABAAUAAAAAAQYEAAAAEAEHAAAB",
    ),
    (
        "what was rejected and is deleted lingers as it was accepted before (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks actions={watch-all,unwatch,watch-again,delete,set-bad}",
        "AAEAAAAAAAABAAAAAAEAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAIBAAEACAACAQABAAEAAAEAAQAIAAABAAEACAAAAAABAAcAAAE",
    ),
    (
        "what was rejected is shown to be so behind a heartbeat that is accepted (IS30, the rule was wrong)",
        "types=2 operations=20 actions={empty,watch-when-told,set-for-a-while}",
        "AAABAAAAAAAAAQABAAAAAAEABQABABYBAAYAAQEAAQQGAAEAGAEGAAAAAAABAAQAAQ",
    ),
    (
        "a rejected resource that went without a word while a heartbeat was on its way holds up nothing (IL1)",
        "types=3 latency=300ms operations=20 order=OnlyAfterAcks actions={watch-all,watch-again,delete,set-bad,storm,empty,watch-when-told,set-for-a-while} faults={wake-for-nothing,reset,end}",
        "AAEAAAAAAAAAAQAAAAIAAAEADQAAAAABAAoAAQAEAQULAAEAAAEICwABARgBBgkAAQ",
    ),
    (
        "what was rejected and is told to be gone holds up nothing once that is accepted (IL1)",
        "servers=3 variant=delta types=3 names=3 operations=80 order=OnlyAfterAcks actions={watch-all,unwatch,watch-again,delete,set-back,storm,empty,set-for-a-while,set-error,watch-glob,set-privileged} faults={wake-for-nothing,refuse,half-open,block-responses,restart-server,lag,hang-up,late-timers,narrow,clog}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAABAAABAAAAAAAAAQAAAAAAAAEAAwAAAAABAAAAAAAAAQADAAAAAAEAAwAAAAABAAMAAAAAAQADAAAAAAEAAwAAAAABAAMAAAAAAQAAAAAAAAEAAwAAAAABAAMAAAAAAQAAAAAAAAEAAwAAAAABAAMAAAAAAQAAAAAAAAEAAAAAAAABAAcAAAEaIAUQAAABFRoFFQAAAgIRCRMAAQIZHwMLAAABCiQAEQAAAB8CCggAAQAYAgoAAAACGTILEwABAgMFDAgAAgIaCggBAAABPAwKDwACAgggABEAAQEcHAwCAAIALDgDAQACAh4GCQAAAAEWEgYBAAECHhkDAgAAAQwDAwkAAAE9OQwMAAIACxgKAAACAiQ9CBcAAQAnKwUGAAIBIRUGEgAAARsJAwsAAQELMgAVAAABOCwBDQACAD4RAQEAAAIrPAQXAAICLCQFBQACAQoWBgQAAgAkKQcWAAEBGRkMDAABAg0eAhgAAAI4HwYKAAEAKS8BDgABABUCBxgAAgA2CQUQAAABICQECgABAQcAAQ",
    ),
    (
        "the same, where another one is renewed again and again (IL1)",
        "types=3 names=3 latency=300ms operations=80 order=OnlyAfterAcks actions={watch-all,watch-again,set-back,storm,empty,slow-watcher,watch-when-told,set-for-a-while} faults={starve,refuse,restart-server,lag,slow,narrow,clog}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAADQoPAAICMDgICwACAgYVDAcAAAArHwsJAAIBPSQMEAAAAgQqAwwAAgAsJQMDAAECHQ0DBAABARUoBQ0AAQI6AwgFAAEAKjoDAQACAQUCAQwAAgAkKwEEAAEBFwoGEgAAACAPAwAAAgIuOgwGAAIANyYGDwABAAQUBgsAAQIAMQsLAAEAPw8DCgAAABEhBREAAgIrFAIFAAEBPgQJEgACATUsAQwAAQIdOQAEAAICFDMIBQAAAS0eAxEAAAI6MQMKAAACDBYICAAB",
    ),
    (
        "what a client that was moved before it was sent anything rejects is not repeated in the next view (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={watch-all,unwatch,set-bad,set-back,empty,watch-when-told,set-for-a-while,set-error,move}",
        "AAEAAAAAAAABAAAAAgAAAQADAAIAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEADAAAAAABAAQAAAAAAQAKAAABGAEADAAAAAABAwEAAAAAAQAM",
    ),
    (
        "what a client rejects that has accepted nothing of the view that it is moved from is not repeated (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={unwatch,watch-again,delete,set-bad,set-back,slow-watcher,set-for-a-while,set-error,move}",
        "AAEAAAAAAAABAAMAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEADAAAAAABAAAAAgAAAQAHAAABAAEAAAAAAQABAwwAAAAAAQADAAIAAAEDDA",
    ),
    (
        "the same, if it has rejected that before (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={watch-all,delete,set-bad,empty,slow-watcher,watch-when-told,set-for-a-while,set-error,move}",
        "AAEAAAAAAAABAAEAAgAAAQAAAAAAAAEAAwAAAAABAAAAAAAAAQAAAAAAAAEADAAAAAABAAQAAAAAAQAKAAABGAEADAAAAAABAAAAAgAAAQQM",
    ),
    (
        "the same, by name (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={watch-again,delete,set-bad,set-back,set-error,move}",
        "AAEAAAACAAABAAAAAAEAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAAAAAEACQAAAAABAAkAAAAAAQAGAAABAAEAAwACAAABBAk",
    ),
    (
        "the same, after several moves (IL1)",
        "types=3 operations=80 order=OnlyAfterAcks views=2 actions={watch-again,set-bad,watch-when-told,set-for-a-while,move} faults={block-responses}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACAAAAAABAAgAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACAAAAAABAAgAAAAAAQAIAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABQAAAQABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAA4HAQACAA4SBgAAAAADIQEIAAIBIjoKAAAAACMqCQAAAgE3AQcJAAABID4CAAACADg6CgcAAAA-FQQIAAEAMi4MCAABAQ44BQAAAQA0BwUAAAABGSQDBwACADoRAgIAAgAJMgEDAAEBAQgECAACACoICgk",
    ),
    (
        "the same, of who has never accepted anything (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={watch-all,unwatch,watch-again,set-bad,storm,set-for-a-while,move}",
        "AAEAAAACAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACgAAAAABAAcAAAAAAQABAAIAAAEABAAAAAABAAoAAAAAAQAHAAABAAEECg",
    ),
    (
        "the same, seen again",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={unwatch,watch-again,delete,set-bad,storm,empty,slow-watcher,move}",
        "AAEAAAAAAAABAAAAAAEAAQAAAAAAAAEAAQAAAAABAAAAAAAAAQAAAAAAAAEACwAAAAABAAAAAgAAAQMHAAABAAEDCwAAAAABAAs",
    ),
    (
        "what a client rejects that has come back with something is not repeated in the next view (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks views=2 actions={set-bad,watch-when-told,set-for-a-while,set-error,move,watch-many} faults={wake-for-nothing,reset}",
        "AAEAAQAAAAABAAAAAgAAAQAAAAAAAAEAAAAAAAABAAAAAAEAAQABAAIAAAEABAAAAQABAAsAAAAAAQcI",
    ),
    (
        "who does not ask for endpoints is not waited for anew each time that clusters are renewed (IL1)",
        "names=3 operations=60 order=OnlyAfterAcks views=2 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,empty,set-for-a-while,set-error,move} faults={reset,block-requests,block-responses}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAABAAABAA4AAAAAAQAAAAAAAAEABQAAAAABAA4AAAAAAQAAAAIAAAEAAAAAAAABAAwAAAAFAQAFAAAAAAEAAAAAAAABAA4AAAAAAQAFAAAAAAEAAAAAAQABAAQAAAAAAQABAAEBAAEDBQAAAAYBAA4",
    ),
    (
        "what a client has rejected that had come with something is not repeated in the next view, though it was forgiven for that (IL1)",
        "names=3 operations=60 order=OnlyAfterAcks views=2 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,empty,set-for-a-while,move} faults={reset,block-requests,block-responses}",
        "AAEAAwADAAAAAQAEAAAAAAEEDgAAAAABAAgAAAEAAQAJAAAAAAEAAAADAAABBgsAAAAAAQAJAAAAAAEADQ",
    ),
    (
        "what was there before a client asked for it by name, and then for everything, it has not accepted (IL1)",
        "names=3 operations=60 order=OnlyAfterAcks views=2 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,empty,set-for-a-while,move} faults={reset,block-requests,block-responses}",
        "AAEAAAAAAAAAAQAAAAICAAEACAAAAQABCQAAAAEAAQAIAAICAAEABAAAAAABAwMAAAAAAQQN",
    ),
    (
        "a name that was gone when it was asked for is told once, and not again for what was rejected before (IS11)",
        "clients=2 variant=delta types=1 names=3 operations=20 actions={watch-all,unwatch,watch-again,set-bad,set-back,empty,watch-when-told,set-for-a-while}",
        "AAABAAQAAAAAAQALAAAAAAEEBwAAAgABAAQBAAAAAQMKAAAAAAEDCQAAAAABAwQAAAAAAQAAAAACAAEEBw",
    ),
    (
        "what is told to be gone by its other name is told by its own one, too, to who has it as part of everything (IS11, the rule was wrong)",
        "variant=delta types=3 names=4 latency=50ms jitter=20ms ties=TimersFirst clock_grain=10ms operations=120 order=OnlyAfterAcks views=2 versions=CountedAnew actions={watch-all,watch-again,delete,set-bad,set-back,storm,move,watch-many,watch-alias} faults={half-open,block-responses,bad-answer,stale-answer,lost-event,late-timers}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACQABAAABAAQAAQAAAQUAAAAAAAEABwAAAAABAA0AAAAAAQcGAAECAAEIAAAAAAABCAAAAAAAAQAMAAEC",
    ),
    (
        "who wants nothing for a moment while nothing is taken out of it turns to the next server once (IL5, the rule was wrong)",
        "clients=2 servers=3 types=2 names=1 operations=20 actions={watch-all,watch-again,delete,storm,empty,set-error} faults={starve,reset,refuse,block-responses,slow,clock-jump,other-replica}",
        "AAABAAAAAAAAAQMQAAAAAAEACgAAAAABAwU",
    ),
    (
        "what waits to be told as gone is no reason to send a state that says nothing new, though something was to be renewed (IS2, IS5)",
        "servers=2 types=3 names=6 data_errors=DropCached read_gate=Off latency=0ns jitter=2s ties=TimersFirst operations=80 order=OnlyAfterAcks views=2 versions=CountedAnew actions={unwatch,watch-again,set-back,storm,watch-when-told,set-for-a-while,set-error,move,watch-many} faults={starve,reset,hang,half-open,block-responses,restart-server,lag,go-away,bad-answer,lost-event,late-timers}",
        "AAEAAAAABAABAAAAAgAAAQgBAAAAAAEAAAAAAAABAAAAAAAAAQgAAAEAAAEABwAAAAABAA4AAAAAAQgFAAAAAAEICAAAAAABABAAAAAAAQAEAAAAAQEIAAAAAgABCQMAAgAAAQAFAAAAAAEKDQAAAAABAA4AAAAAAQAEAAAAAAEHAwAAAAABCQkAAAIAAQALAAAAAAEABAAAABcBBgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQCfwh4",
    ),
    (
        "what is renewed for who has rejected a heartbeat is not sent in place of the error that was told of it (IS17, IS28)",
        "servers=3 variant=delta names=3 data_errors=DropCached latency=1ms jitter=2s ties=TimersFirst operations=80 order=OnlyAfterAcks features={transient-timer,without-wrappers} actions={unwatch,watch-again,storm,slow-watcher,set-for-a-while,set-error,watch-many} faults={starve,wake-for-nothing,block-responses,restart-server,slow,hang-up,bad-answer,stale-answer,late-timers,clock-jump,narrow,other-replica} lies={hostile-client,rejecter,bilingual}",
        "AAEAAAAAAQABAAEAAAAAAQABAAAAAAEAAwAAAAABAAAAAwAAAQAAAAEAAAEACAADAgUBCQAAAwIAAQkDAAAAAAEHCQADAgABCQAAAAAAAQcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAt94a8bpx",
    ),
    (
        "a name that a client drops while a glob stands for it is answered, though it sees another view before that (IS14)",
        "servers=3 variant=delta latency=0ns jitter=2s ties=TimersFirst operations=120 order=OnlyAfterAcks verdicts=Soon views=2 versions=Counted actions={unwatch,set-bad,slow-watcher,move,watch-glob,watch-many} faults={starve,end,half-open,block-requests,block-responses,lag,hang-up,stale-answer,bad-file,late-timers,clock-jump,clog,other-replica}",
        "AAEAAAAAAAAAAQAAAAAAAAEACQADAAABAAQAAAAAAQABAAMBAAEACAADAAABAAQAAAAAAQAEAAAAAwEABw",
    ),
    (
        "who used a part of what it rejected does not state over polls to hold the version before it (IC7, IL1)",
        "streams=PerType types=1 names=4 operations=20 transport=Polls actions={unwatch,set-bad,storm,slow-watcher,watch-when-told} faults={starve,wake-for-nothing,reset,end,hang,block-requests,restart-client,slow,hang-up,go-away,late-timers,other-replica}",
        "AAEAAQAAAAAAAQAAAAAAAAEAAAAAAQABAAUAAAEAAQASAAAAAAEABgAAAAABBxQAAAEAAQYNAAADAAEH",
    ),
    (
        "what was answered by a part of everything is not answered by nothing once the rest is gone (IS5)",
        "variant=delta types=2 names=6 latency=50ms operations=20 order=AfterAcks verdicts=Soon responses=Short actions={watch-all,watch-again,set-back,storm,empty,slow-watcher,watch-when-told,set-error,watch-many,set-privileged} faults={starve,refuse,half-open,hang-up,reset-connection}",
        "xmEAAQAEAAEAAAEFDwAABAABABIAAAAAAQcAAAAAAAEABwABAAABCQAAAAAAAQAIAAE",
    ),
    (
        "endpoints that expired come before the request that clusters are warmed with (IS18, the rule was wrong)",
        "types=2 latency=0ns operations=20 actions={watch-all,watch-again,delete,set-back,slow-watcher,set-for-a-while,set-error,watch-many} faults={starve,end,refuse,hang,half-open,block-requests,block-responses}",
        "AAEAAAAAAAABAAMAAQAAAQAAAAAAAAEAAAABAAABAAAAAAAAAQAAAAEBAAEACQABAQABAAEAAAAAAQASAAABAAEG",
    ),
    (
        "the error of an endpoint beside one that is renewed is the answer to who warms a cluster (IS18, the rule was wrong)",
        "types=2 operations=20 responses=Short actions={set-bad,set-back,storm,empty,set-for-a-while}",
        "AAEAAAABAQABAAAAAQAAAQAAAAAAAAEAAwAAAAABAAEAAAAAAQADAAAAAAEACAABAAABBAUAAAAAAQADAAEBAAEE",
    ),
    (
        "all endpoints that come again after a move are an answer to who warms a cluster (IS18, the rule was wrong)",
        "types=2 latency=0ns operations=20 views=2 actions={delete,set-back,slow-watcher,set-for-a-while,set-error,move}",
        "AAEAAAABAQABAAAAAAAAAQADAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABwABAQABAAkAAAAAAQAJAAAAAAE",
    ),
    (
        "the same, seen again",
        "types=2 operations=20 views=2 actions={watch-again,set-back,storm,watch-when-told,set-for-a-while,move}",
        "AAABAAgAAQEAAQADAAAAAAEAAAABAQABBAAAAAAAAQAJAAAAAAEECQAAAAABBA",
    ),
    (
        "parts that were accepted do not come again with a change, beside nothing that was rejected (IS5)",
        "types=2 names=3 operations=20 responses=Short actions={watch-all,watch-again,delete,set-back,slow-watcher,set-error,set-privileged}",
        "AAEAAQAAAAABAAMAAAAAAQABAAAAAAEAAwAAAAABAAEAAAAAAQADAAAAAAEACgABAQABAAMAAAAAAQABAAAAAAEAAQABAAABAAcAAQIAAQAEAAEAAAEDAAAAAAABAwMAAQEAAQQHAAEB",
    ),
    (
        "who comes back with a resource that has an error is told of the error (IS28)",
        "servers=3 variant=delta types=2 names=4 latency=0ns jitter=20ms clock_grain=10ms operations=120 order=AsDue views=2 features={fail-on-data-errors,trusted-server,strict-server} actions={unwatch,set-bad,storm,set-error,move,set-privileged} faults={starve,end,block-requests,hang-up,go-away,stale-answer,lost-event,late-timers,narrow,clog,other-replica,partition,expire}",
        "AAEAAQAAAQABAAAAAAAAAQAAAAABAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAEwAAAC8BCAAAAAAAAQAHAAABLgEJBwAAAS4BAAg",
    ),
    (
        "rejected news hold up nothing once something was accepted after a change, also if that was asked for (IL1)",
        "clients=2 servers=2 variant=delta types=3 data_errors=DropCached operations=80 order=OnlyAfterAcks views=2 actions={watch-all,delete,set-bad,set-back,storm,watch-when-told,set-for-a-while,set-error,move,watch-alias,set-privileged} faults={starve,reset,hang,lag,slow,hang-up,go-away,clock-jump,narrow,other-replica,reset-connection}",
        "AAEAAAAAAQABAAAAAQAAAQADAAEBAAEAAQAAAQABAAAAAAEAAQAAAAABAAEAAAABAAABAAYAAAAAAQAAAAIAAAEAAAABAQABAwAAAAAAAQAMAAAAAAEDCQAAACcBABAAAAAAAQc",
    ),
    (
        "what was told in a rejected response to be gone is told again with the next change, whatever errors end before it (IS11, the rule was wrong)",
        "variant=delta types=1 operations=20 actions={watch-all,delete,set-bad,storm,slow-watcher,watch-when-told,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAMAAAAAAQAAAAAAAAEABAAAAAABAAYAAAEAAQQFAAAAAAEACgAAAAEBBAU",
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
        "what is the same at the server behind is not taken for missing at the one that was told of it (IL1)",
        "clients=2 servers=2 variant=delta mixture=ByServer names=8 data_errors=DropCached latency=50ms jitter=2s ties=TimersFirst operations=80 order=AsDue verdicts=Soon views=2 actions={watch-all,unwatch,set-back,empty,slow-watcher,watch-when-told,set-for-a-while,set-error,watch-many} faults={refuse,hang,block-requests,restart-client,slow,hang-up,late-timers,clock-jump,cut-off,expire,double-event}",
        "qOoDAQAAAAAAAAABAAABAAAAAQAAAQEAAAEABAACAAABABQAAAAAAQADAAIAAAEJFgAAAwABAAAAAQAAAQgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMqTOqCzAgAAAO7oOwAAAAAAjvM7AKy-K9rhZtrhZg",
    ),
    (
        "what was rejected before a move, and is not there, holds up nothing (IL1)",
        "variant=delta types=3 operations=20 order=OnlyAfterAcks views=2 actions={watch-again,delete,watch-when-told,set-for-a-while,set-error,move,set-privileged}",
        "AAEAAAACAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQADAAAAAAEACQAAAAABAAoAAQEAAQAAAAAAAAEABgABAAoBAAkAAAAAAQQJ",
    ),
    (
        "what is too long is not renewed by sending it (IS26)",
        "variant=delta types=1 names=8 operations=20 views=2 responses=Short actions={watch-all,unwatch,storm,watch-when-told,set-for-a-while,move,watch-many,watch-alias,set-privileged} faults={starve,reset,refuse,hang,half-open,block-requests,block-responses,lag,slow,go-away,late-timers}",
        "AAEAAAAAAAABAAAAAAYAAQADAAAAAAEAAwAAAAABAAMAAAAAAQAAAAAAAAEACAAABgABABcAAAQAAQAEAAAAAAEDBwAAACcBBwgAAAAFAQYOAAAAAAEEAAAAAAABDA",
    ),
    (
        "endpoints that come in parts are an answer to who warms a cluster (IS18, the rule was wrong)",
        "types=2 latency=300ms operations=20 responses=Short actions={watch-all,delete,set-bad,storm,empty,slow-watcher,set-for-a-while,set-error,set-privileged} faults={end,refuse,hang,block-requests,restart-server}",
        "AAEAAQAAAAABAAMAAAAAAAEAAwAAAAABAAEAAAAAAQAEAAEAAAEAAwAAAAABAAoAAQEFAQAKAAEAGAEAEQAAAAABBwAAAAAAAQcAAAAAAAEJAwAAAAABCAMAAAAAAQc",
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
        "who asks by another name is answered though all of it goes (IS7)",
        "variant=delta types=3 names=6 operations=20 order=AfterAcks verdicts=Late actions={unwatch,set-back,storm,empty,watch-many,watch-alias} faults={starve,wake-for-nothing,refuse,hang,restart-server,restart-client,lag,hang-up,go-away,late-timers,narrow,other-replica,cut-off,partition}",
        "AAABABcAAAUIAQkAAAAAAAEHAAACAAABCQAAAAAAAQkAAAAAAAEABgAAAAABCQAAAAAAAQAJAAABAAEDBw",
    ),
    (
        "who asks for what lingers is told after a move (IS7)",
        "variant=delta types=2 names=1 operations=20 order=AfterAcks verdicts=Late views=2 actions={watch-all,set-bad,storm,empty,move} faults={wake-for-nothing,reset,end}",
        "AAEAAAAAAAABAAEAAQAAAAEABAABAAABDAEAAAAAAQAHAAEAAAEACgAAAAABBwAAAQAAAQMI",
    ),
    (
        "what was found missing of everything is told to who asks for it just then (IC24, the rule was wrong)",
        "variant=delta types=1 names=6 operations=20 actions={watch-all,unwatch,empty,slow-watcher,watch-when-told,set-for-a-while,set-privileged} faults={starve,wake-for-nothing,reset,hang,block-responses,restart-server,lag,slow,hang-up,late-timers,clock-jump,other-replica}",
        "AAABAAAAAAAAAQAJAAAEGAEAEAAAAAABABAAAAAAAQAAAAAAAAEABAAAAAABAAAAAAAAAQAWAAAAAAEAFgAAAAABAAAAAAAAAQUWAAAFIgEJCAAABCABBw",
    ),
    (
        "who drops a name just then has accepted nothing without it (IS29, the rule was wrong)",
        "types=1 names=3 operations=20 actions={unwatch,set-bad,empty,set-for-a-while,set-error} faults={starve}",
        "AAEAAAAAAAABAAEAAAAAAQAAAAACAAEAAwAAAAABAAMAAAAAAQABAAAAAAEAAQAAAAABAAkAAAADAQMEAAAAAAEAAwAAAgABAw",
    ),
    (
        "what goes after it was asked about waits for what refers to it (IS25, the rule was wrong)",
        "variant=delta types=2 names=1 latency=0ns operations=20 order=OnlyAfterAcks actions={watch-all,unwatch,watch-again,storm,empty,slow-watcher,watch-when-told,set-for-a-while,set-error,set-privileged} faults={end,refuse,hang,half-open,block-requests,block-responses}",
        "AAABAAAAAQAAAQAAAAAAAAEABAABAAABAAcAAQAAAQATAAAAAAEABQAAAAABAAgAAQ",
    ),
    (
        "a version is no longer stated once the server that has renewed what it stands for takes it back (IL1)",
        "clients=3 servers=3 types=2 names=4 data_errors=DropCached operations=20 actions={watch-again,set-bad,empty,slow-watcher,watch-when-told,set-for-a-while,set-error,watch-many,set-privileged} faults={end,hang,block-responses,restart-server,restart-client,lag,late-timers,narrow,other-replica,cut-off,reset-connection,slow-link,expire} lies={truncate,flip}",
        "AAEAAwAAAAABAAACAAMAAAEACAIAACgBCAAAAAMAAQgZAAADAAEAAAIBAAABAAAAAAAAAQgbAAAAGwEAAwABAAABAw",
    ),
    (
        "what comes again in parts is renewed by its part (IS5)",
        "types=2 names=4 operations=20 responses=Short actions={watch-all,unwatch,watch-again,delete,set-back,empty,slow-watcher,watch-when-told,set-for-a-while,set-privileged} faults={starve}",
        "AAEAAwABAAABAAAAAAAAAAEABAABAAABAAgAAQIAAQAKAAADAAEADAABAQABBQ4AAAMAAQAMAAAAAQEABwAAAAABCQ",
    ),
    (
        "everything is asked for anew though a response crossed the end of a name that it covers (IL1)",
        "types=2 operations=20 actions={watch-all,unwatch}",
        "AAEAAAABAQABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQADAAEBAAEAAAABAAABAAUAAAAAAQAEAAE",
    ),
];

#[test]
fn fixed_bugs_do_not_recur() {
    let mut read = String::new();
    for (what, options, tape) in MENDED {
        let tape: Tape = tape.parse().expect("a tape that was printed");
        let options: Options = options.parse().expect("options that were printed");
        let config = Config::default().with_fixed_options(options);
        let outcome = replay(&tape, &config);
        assert_eq!(outcome.drift, None, "{what}: its tape is that of another run by now");
        read += &format!("# {what}\n{}\n\n", questions_of(&tape, &outcome));
        if let Some(failure) = outcome.violation {
            panic!("{what}\n{}", failure.to_text(None));
        }
    }
    ensure_nothing_drifted(&read);
}

/// Returns the questions that a tape answers, after its run.
fn questions_of(tape: &Tape, outcome: &Outcome) -> String {
    let answers = outcome.choices.iter().take(tape.values().len());
    let words =
        answers.map(|it| format!("{}={}/{}", it.label.replace(' ', "-"), it.value, it.bound));
    words.collect::<Vec<_>>().join(" ")
}

/// Compares the questions with the stored ones. A tape has only answers: if runs ask other
/// questions, or in another order, it is a different run, which may not test the fixed bug any
/// more.
fn ensure_nothing_drifted(read: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions.txt");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, read).expect("the tests of this crate can be written");
    }
    let kept = fs::read_to_string(&path).expect("it is beside this file");
    for (kept, read) in kept.lines().zip(read.lines()) {
        assert_eq!(
            kept, read,
            "a tape is asked for something else than when it was recorded (question=answer/answers): find a tape that \
             shows again what was mended, then run this test with UPDATE=1"
        );
    }
    let (kept, read) = (kept.lines().count(), read.lines().count());
    assert_eq!(kept, read, "a new tape: run this test with UPDATE=1");
}

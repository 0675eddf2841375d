//! Runs that broke a rule about liveness (IL).

use super::Regression;

pub(super) const REGRESSIONS: [Regression; 37] = [
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
        "what was deleted from under a rejected response is told (IL1)",
        "variant=delta types=1 names=6 data_errors=DropCached operations=20 actions={watch-all,unwatch,delete,set-bad,set-back,empty,slow-watcher,watch-when-told,set-for-a-while}",
        "AAEAAAAAAAAAAQAMAAABGAEAAwAAAgABAAcAAAAAAQAEAAAAAAEECQ",
    ),
    (
        "a new name of what a client comes back with is answered (IL1)",
        "variant=delta types=1 names=1 operations=20 actions={watch-again,watch-when-told,set-error,watch-alias} faults={restart-server}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAMAAAAAAQAAAAAAAAEABwAAAAABAAg",
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
        "what was rejected, and then left out of a full state for an error, does not linger in it (IL1)",
        "types=3 operations=20 order=OnlyAfterAcks actions={delete,set-bad,watch-when-told,set-error}",
        "AAEAAwAAAQABAAAAAAEAAQAAAAIBAAEAAAAAAAABAAAAAAAAAQADAAIBAAEABQAAAAABAAcAAAAAAQQE",
    ),
    (
        "a silent stream is given up in time though the network was slow for a moment that nobody saw (IL3, the rule was wrong)",
        "types=1 operations=20 actions={watch-all,unwatch,delete,watch-when-told} faults={starve,end,half-open,block-responses,restart-client,lag,slow}",
        "AAEAAAAAAAAAAQAKAAAAAAEHAAAAAAABCg4AAAEAAQc",
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
        "who wants nothing for a moment while nothing is taken out of it turns to the next server once (IL5, the rule was wrong)",
        "clients=2 servers=3 types=2 names=1 operations=20 actions={watch-all,watch-again,delete,storm,empty,set-error} faults={starve,reset,refuse,block-responses,slow,clock-jump,other-replica}",
        "AAABAAAAAAAAAQMQAAAAAAEACgAAAAABAwU",
    ),
    (
        "rejected news hold up nothing once something was accepted after a change, also if that was asked for (IL1)",
        "clients=2 servers=2 variant=delta types=3 data_errors=DropCached operations=80 order=OnlyAfterAcks views=2 actions={watch-all,delete,set-bad,set-back,storm,watch-when-told,set-for-a-while,set-error,move,watch-alias,set-privileged} faults={starve,reset,hang,lag,slow,hang-up,go-away,clock-jump,narrow,other-replica,reset-connection}",
        "AAEAAAAAAQABAAAAAQAAAQADAAEBAAEAAQAAAQABAAAAAAEAAQAAAAABAAEAAAABAAABAAYAAAAAAQAAAAIAAAEAAAABAQABAwAAAAAAAQAMAAAAAAEDCQAAACcBABAAAAAAAQc",
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
        "a version is no longer stated once the server that has renewed what it stands for takes it back (IL1)",
        "clients=3 servers=3 types=2 names=4 data_errors=DropCached operations=20 actions={watch-again,set-bad,empty,slow-watcher,watch-when-told,set-for-a-while,set-error,watch-many,set-privileged} faults={end,hang,block-responses,restart-server,restart-client,lag,late-timers,narrow,other-replica,cut-off,reset-connection,slow-link,expire} lies={truncate,flip}",
        "AAEAAwAAAAABAAACAAMAAAEACAIAACgBCAAAAAMAAQgZAAADAAEAAAIBAAABAAAAAAAAAQgbAAAAGwEAAwABAAABAw",
    ),
    (
        "everything is asked for anew though a response crossed the end of a name that it covers (IL1)",
        "types=2 operations=20 actions={watch-all,unwatch}",
        "AAEAAAABAQABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQADAAEBAAEAAAABAAABAAUAAAAAAQAEAAE",
    ),
];

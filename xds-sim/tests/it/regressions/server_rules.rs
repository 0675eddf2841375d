//! Runs that broke a rule about servers (IS).

use super::Regression;

pub(super) const REGRESSIONS: [Regression; 50] = [
    (
        "heartbeats are not withheld by those of whom nothing was due (IS27, IL1)",
        "clients=2 types=2 latency=300ms operations=20 actions={watch-all,unwatch,delete,storm,empty,watch-when-told,set-for-a-while}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACQABABABAAQBAQAAAQcAAAAAAAEACgABAQEBCAoAAQAAAQc",
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
        "an error that was told since is not followed by the deletion before it (IS11)",
        "variant=delta types=1 operations=20 actions={watch-all,delete,storm,slow-watcher,watch-when-told,set-for-a-while,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAAAAAABAAkAAAAAAQAJAAABGAEDBQAAAAABBAAAAAAAAQAKAAAAAQ",
    ),
    (
        "an error is told again to who asked for it with a glob, though the glob has ended meanwhile (IS28, the rule was wrong)",
        "servers=3 variant=delta types=1 operations=20 actions={watch-all,unwatch,delete,set-bad,slow-watcher,set-error,watch-glob,watch-many} faults={starve}",
        "AAABAAAAAAAAAQAAAAAAAAEAAQAAAQABAAkAAAEAAQAAAAABAAEEDAAAAA8BAAoAAAAAAQAFAAAANwED",
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
        "who asks for everything again is sent all of it again, also what it stated before (IS13, the rule was wrong)",
        "variant=delta types=3 operations=20 order=AfterAcks actions={watch-all,watch-again,set-back,empty,slow-watcher,watch-when-told,watch-many} faults={starve,half-open}",
        "AAEAAAAAAAABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQAAAAABAAEABAACAAABBAEAAgAAAQADAAAAAAEDDAAAAAABDAAAAAAAAQAAAAIB",
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
        "what was rejected is shown to be so behind a heartbeat that is accepted (IS30, the rule was wrong)",
        "types=2 operations=20 actions={empty,watch-when-told,set-for-a-while}",
        "AAABAAAAAAAAAQABAAAAAAEABQABABYBAAYAAQEAAQQGAAEAGAEGAAAAAAABAAQAAQ",
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
        "what waits to be told as gone is no reason to send a state that says nothing new, though something was to be renewed (IS2, IS5)",
        "servers=2 types=3 names=6 data_errors=DropCached flow_control=Off latency=0ns jitter=2s ties=TimersFirst operations=80 order=OnlyAfterAcks views=2 versions=CountedAnew actions={unwatch,watch-again,set-back,storm,watch-when-told,set-for-a-while,set-error,move,watch-many} faults={starve,reset,hang,half-open,block-responses,restart-server,lag,go-away,bad-answer,lost-event,late-timers}",
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
        "what was told in a rejected response to be gone is told again with the next change, whatever errors end before it (IS11, the rule was wrong)",
        "variant=delta types=1 operations=20 actions={watch-all,delete,set-bad,storm,slow-watcher,watch-when-told,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAMAAAAAAQAAAAAAAAEABAAAAAABAAYAAAEAAQQFAAAAAAEACgAAAAEBBAU",
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
        "what comes again in parts is renewed by its part (IS5)",
        "types=2 names=4 operations=20 responses=Short actions={watch-all,unwatch,watch-again,delete,set-back,empty,slow-watcher,watch-when-told,set-for-a-while,set-privileged} faults={starve}",
        "AAEAAwABAAABAAAAAAAAAAEABAABAAABAAgAAQIAAQAKAAADAAEADAABAQABBQ4AAAMAAQAMAAAAAQEABwAAAAABCQ",
    ),
    (
        "work that is left of a request needs no timer (IS31, the simulated driver was wrong)",
        "clients=2 streams=PerType types=1 names=6 operations=20 transport=Polls names_per_call=1 actions={watch-all,unwatch,watch-again,storm,empty,slow-watcher,watch-when-told,set-privileged} faults={reset,end,refuse,hang,half-open,block-requests,restart-client,lag,hang-up,bad-answer,stale-answer,late-timers}",
        "AAEAAAEAAAABAAAAAAAAAQgAAAAAAAEAAAAAAAABAAMAAAEAAQkAAAAAAAEAFwAABQABCQAAAAAAAQADAAAAAAEM",
    ),
    (
        "a repeated subscription to the wildcard is answered with everything in the end (IS17, the rule was wrong)",
        "variant=delta types=3 operations=20 order=OnlyAfterAcks actions={watch-all,watch-again,delete,storm,slow-watcher,watch-when-told,set-for-a-while,watch-many,set-privileged}",
        "AAEAAQACAAABAAAAAAAAAAEABAACAAABAAAAAgEAAQAMAAAAAAEDDAACAAABCA",
    ),
    (
        "who asks for a missing name beside the wildcard is answered with everything in the end (IS17, the rule was wrong)",
        "variant=delta operations=20 order=OnlyAfterAcks actions={watch-all,set-privileged}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABAADAAABAAMAAwAAAQMAAAEBAAEAAAADAQABAAAAAg",
    ),
    (
        "clusters that a returning client stated are warm with the endpoints that it stated (IS8)",
        "variant=delta names=1 operations=20 order=OnlyAfterAcks actions={watch-again,delete,set-back,storm,empty,watch-when-told,watch-many} faults={reset}",
        "AAEAAQABAAABAAAAAAAAAQAAAAMAAAEAAAAAAAABAAAAAQAAAQAAAAAAAAEACQAAAAoBAAMAAAAAAQMLAAAAAAEAAwADAAABCAEAAw",
    ),
    (
        "the error of a requested name is an answer that goes before its turn (IS17, the rule was wrong)",
        "types=3 operations=20 order=OnlyAfterAcks actions={watch-again,delete,empty,watch-when-told,set-for-a-while,set-error,watch-many,set-privileged}",
        "AAEAAAACAQABAAAAAQEAAQAAAAAAAAEAAAACAAABAAAAAAAAAQADAAIAAAEACwABAQABAAgAAgAAAQAJAAIBAAEI",
    ),
    (
        "a removal that is accepted after a move is not sent again (IS11)",
        "variant=delta types=1 operations=20 order=AfterAcks views=2 actions={watch-all,unwatch,watch-again,delete,set-bad,set-back,storm,empty,move}",
        "AAEAAwAAAAABAAAAAAEAAQAAAAABAAEAAAAAAQABAAEAAAAAAQAAAAABAAEABAAAAAABBAAAAAEAAQALAAAAAAEADA",
    ),
    (
        "an unsubscription from a name that the wildcard covers is answered without what else is due (IS17)",
        "variant=delta types=3 names=1 operations=20 order=OnlyAfterAcks verdicts=Late actions={unwatch,watch-again,delete,set-back,storm,slow-watcher,watch-when-told,watch-many,set-privileged}",
        "AAEAAAAAAAABAAMAAAAAAAEACgACAAoBAAsAAgAAAQQAAAAAAAEKBwACAAABAAQAAAAB",
    ),
    (
        "the error of an alias is repeated for a changed cluster (IS28, the rule was wrong)",
        "variant=delta types=2 latency=0ns operations=20 actions={watch-when-told,set-for-a-while,set-error,watch-alias}",
        "AAEAAAAAAAABAAEAAQEAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQADAAABAAEABgABAQABAAcAAQEAAQAEAAAAEAEAAQAAAAAB",
    ),
    (
        "a resource that the wildcard has sent is not awaited by name once the wildcard has ended (IS17)",
        "names=1 operations=20 order=OnlyAfterAcks actions={watch-all,unwatch,watch-again,set-bad,set-back,storm,empty,slow-watcher,set-error}",
        "AAEAAAAAAAABAAAAAAAAAQAAAAMAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAcAAAAAAQAHAAMAAAEADAADAAABCAQAAwAAAQAAAAAAAAEIAwABAAABAAUAAAA0AQABAAMAAAEI",
    ),
];

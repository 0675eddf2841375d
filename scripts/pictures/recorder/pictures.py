"""The pictures: each is a command as a reader would type it, and what happens around it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Picture:
    """A recorded command."""

    name: str
    #: Commands that the picture shows after a prompt.
    shown: list
    #: Shell command that produces the output. By default the shown ones.
    run: str = ""
    #: Rows of an animated picture. None for a still picture of the final screen.
    animated_rows: int | None = None
    #: Regular expressions and their replacements, of the same length or at the end of a row.
    frozen: list = field(default_factory=list)
    #: Number of first rows that are shown. An ellipsis replaces the others.
    first_rows: int | None = None

    @property
    def command(self):
        return self.run or "; ".join(self.shown)


SERVE = "xds serve examples/config --listen 127.0.0.1:18000"
WATCH = "xds watch --server 127.0.0.1:18000 cds eds:api"

#: A change that a client accepts.
EDIT = "sed -i 's/connect_timeout: 1s/connect_timeout: 2s/' examples/config/clusters.yaml"

ROLLOUT = "xds serve config --listen 127.0.0.1:18000 --canary id=canary-1 --state state"

#: A change that a client rejects.
REJECTED = "sed -i 's/connect_timeout: 1s/connect_timeout: 0s/' config/clusters.yaml"

#: A field that does not exist, and a route to a cluster that does not exist.
MISTAKES = (
    "sed -i 's/lb_policy: LEAST_REQUEST/lb_polcy: LEAST_REQUEST/' examples/config/clusters.yaml; "
    "sed -i '0,/cluster: api/s//cluster: apii/' examples/config/routes.yaml; "
)


def wait_for(pattern, file):
    """Returns a shell command that waits until a file has a line, and then for what follows from it."""
    return f"until grep -qs '{pattern}' {file}; do sleep 0.1; done; sleep 2.5"


PICTURES = [
    Picture(
        "demo",
        ["xds demo"],
        animated_rows=28,
        # A response has the changes that are there when it is sent, so their number varies.
        frozen=[(r"It has sent \d+ responses, (.*)(?=\r\n)", r"It has sent 9 responses, \1")],
    ),
    Picture("help", ["xds --help"]),
    Picture(
        "serve",
        [SERVE],
        # A client connects, and a file changes.
        run=f"{SERVE} & server=$!; {WATCH} --node edge-1 -o ndjson >seen 2>/dev/null & client=$!; "
        f"{wait_for('eds', 'seen')}; {EDIT}; {wait_for('2s', 'seen')}; "
        # The server ends first: without a client, its table would be empty.
        "kill -INT $server; wait $server; kill -INT $client; wait $client",
    ),
    Picture(
        "rollout",
        [ROLLOUT],
        # Two clients connect, and a file changes to what clients reject.
        run=f"mv examples/config config; RUST_LOG=error {ROLLOUT} & server=$!; sleep 0.3; "
        f"{WATCH} --node canary-1 -o ndjson >seen 2>/dev/null & a=$!; {wait_for('eds', 'seen')}; "
        f"{WATCH} --node edge-1 -o ndjson >other 2>/dev/null & b=$!; {wait_for('eds', 'other')}; "
        f"{REJECTED}; {wait_for('rolled-back', 'state/state')}; "
        "kill -INT $server; wait $server; kill -INT $a $b; wait",
    ),
    Picture(
        "watch",
        [WATCH],
        run=f"{SERVE} -o ndjson >seen 2>/dev/null & server=$!; {wait_for('serving', 'seen')}; {WATCH} & client=$!; "
        f"{wait_for('ACKED.*eds', 'seen')}; {EDIT}; {wait_for('reloaded', 'seen')}; "
        "kill -INT $client; wait $client; kill -INT $server; wait $server",
    ),
    Picture(
        "get",
        ["xds get cds lds eds:api -o table"],
        run=f"{SERVE} -o ndjson >seen 2>/dev/null & server=$!; {wait_for('serving', 'seen')}; "
        "xds get cds lds eds:api -o table; kill -INT $server; wait $server",
    ),
    Picture(
        "status",
        ["xds status 127.0.0.1:18001"],
        run=f"{SERVE} --csds 127.0.0.1:18001 -o ndjson >seen 2>/dev/null & server=$!; {wait_for('serving', 'seen')}; "
        f"{WATCH} --node edge-1 >/dev/null & client=$!; {wait_for('ACKED.*eds', 'seen')}; "
        "xds status 127.0.0.1:18001; kill -INT $client $server; wait",
    ),
    Picture("route", ["xds route explain examples/config --host example.com --path /api/users"]),
    Picture("check", ["xds check examples/config"], run=f"{MISTAKES} xds check examples/config"),
    Picture("compat", ["xds compat old.binpb new.binpb"]),
    Picture(
        "convert",
        ["xds convert examples/config/routes.yaml --to textproto"],
        first_rows=24,
    ),
    Picture(
        "sim-run",
        ["xds sim run --seeds 200"],
        frozen=[(r" in [\d.]+ s: [\d,]+ a second in each of \d+ jobs?", " in 3.1 s: 6,600 a second in each of 2 jobs")],
        first_rows=18,
    ),
]

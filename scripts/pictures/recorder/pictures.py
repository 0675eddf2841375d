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

#: A field that does not exist, and a route to a cluster that does not exist.
MISTAKES = (
    "sed -i 's/lb_policy: LEAST_REQUEST/lb_polcy: LEAST_REQUEST/' examples/config/clusters.yaml; "
    "sed -i '0,/cluster: api/s//cluster: apii/' examples/config/routes.yaml; "
)

PICTURES = [
    Picture("demo", ["xds demo"], animated_rows=28),
    Picture("help", ["xds --help"]),
    Picture(
        "serve",
        [SERVE],
        # A client connects, a file changes, the client leaves.
        run=f"{SERVE} --for 4s & sleep 1.2; (sleep 0.8; {EDIT}) & {WATCH} --node edge-1 --for 1.8s >/dev/null; wait",
    ),
    Picture(
        "watch",
        [WATCH],
        run=f"{SERVE} --for 5s >/dev/null & sleep 1; (sleep 1.2; {EDIT}) & {WATCH} --for 2.2s",
    ),
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
        frozen=[(r" in [\d.]+ s: [\d,]+ a second in each of \d+ jobs? *$", " in 3.1 s: 6,600 a second in each of 2 jobs")],
        first_rows=18,
    ),
]

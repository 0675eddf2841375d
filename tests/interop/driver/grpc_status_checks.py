"""`xds status` of a gRPC application that serves its own view (CSDS), and of its management server."""

from __future__ import annotations

from pathlib import Path

from driver import xds_status
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir
from driver.grpc_application import GrpcApplication
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS, XdsServe
from driver.xds_status import ResourceRow


def check_status(
    scenario: Scenario,
    xds: Path,
    config: ConfigDir,
    serve: XdsServe,
    client: GrpcApplication,
    rejection: tuple[str, str],
) -> None:
    """The rows of `xds status` are those of the peer's own API, before and after a rejected listener.

    `rejection` has the edit that the peer rejects, and what its reason says.
    """
    admin, csds = client.admin, serve.csds
    expect(admin is not None and csds is not None, f"no CSDS: {admin}, {csds}")
    assert admin is not None and csds is not None
    client.expect_answer("first")
    serve.wait_acked(*TYPE_URLS)
    own = _own_rows(client)

    with scenario.check("xds status reads what the client's API says: type, name, version, status"):
        rows = xds_status.rows(xds, admin)
        expect(rows == own and len(rows) == 4, f"{rows}; the client itself: {own}")
        expect({row.status for row in rows} == {"ACKED"}, str(rows))
        xds_status.expect_table(xds, admin, rows)
    debugged = xds_status.grpcdebug_rows(admin)
    if debugged is None:
        comment("grpcdebug is not installed: its rows are not compared")
    else:
        with scenario.check("grpcdebug has the same rows"):
            expect(debugged == own, f"{debugged}; the client itself: {own}")
    with scenario.check("resources are selected by type and name"):
        one = own[0]
        rows = xds_status.rows(xds, admin, f"{one.type}:{one.name}")
        expect(rows == [one], str(rows))
        contents = xds_status.read(xds, admin, "lds")[0]["resource"]
        expect(isinstance(contents, dict) and contents["name"] == "svc", str(contents))
    with scenario.check("the server's view and the client's own are the same"):
        xds_status.wait_same(xds, csds, admin, same=4)

    edit, reason = rejection
    config.replace("listener.yaml", edit)
    serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
    with scenario.check("a rejected listener is NACKED, with the client's reason"):

        def probe() -> bool:
            listener = xds_status.read(xds, admin, "lds")[0]
            error = listener["error"]
            expect(listener["status"] == "NACKED" and isinstance(error, dict), str(listener))
            assert isinstance(error, dict)
            expect(reason in error["details"] and error["time"].endswith("Z"), str(listener))
            return True

        eventually("NACKED in the client", probe)
        rows, own = xds_status.rows(xds, admin), _own_rows(client)
        expect(rows == own, f"{rows}; the client itself: {own}")
    with scenario.check("both views agree that it is rejected, and differ in the contents"):
        # The server has the newest listener, and the client still uses the one before.
        found = xds_status.differences(xds, csds, admin)
        expect(found == [("lds", "svc", "content")], str(found))


def _own_rows(client: GrpcApplication) -> list[ResourceRow]:
    """The resources in the words of the peer's own API."""
    return sorted(
        ResourceRow(name, it["name"], it["version"], it["status"]) for name, it in client.csds().items()
    )

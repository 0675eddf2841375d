"""`xds status` of Envoy's admin interface."""

from __future__ import annotations

from driver import xds_status
from driver.checks import Scenario
from driver.envoy_world import NODE, Programs
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS


def shows_the_configuration_dump(scenario: Scenario, programs: Programs) -> None:
    """The rows of `xds status` are those of the dump, before and after a rejected listener."""
    with programs.world(scenario) as world:
        xds, envoy, serve = programs.xds, world.envoy, world.serve
        envoy.wait_live()
        acked = serve.wait_acked(*TYPE_URLS)
        csds = serve.csds
        assert csds is not None
        for address in (envoy.admin_address, f"http://{envoy.admin_address}"):
            form = "HTTP URL" if "/" in address else "address alone"
            with scenario.check(f"xds status reads the admin interface, given its {form}"):
                rows = {(row.type, row.name): row for row in xds_status.rows(xds, address, "--node", NODE)}
                dynamic = {key for key, row in rows.items() if row.status == "ACKED"}
                wanted = {
                    ("lds", "ingress"), ("rds", "routes"), ("cds", "blue"), ("cds", "green"),
                    ("eds", "blue"), ("eds", "green"),
                }  # fmt: skip
                expect(dynamic == wanted, f"{rows}")
                static = {key for key, row in rows.items() if row.status == "STATIC"}
                expect(static == {("cds", "xds"), ("eds", "xds")}, f"{rows}")
        with scenario.check("the versions are those that xds serve has sent"):
            for type_name in ("lds", "rds", "cds"):
                versions = {row.version for (it, _), row in rows.items() if it == type_name and row.status == "ACKED"}
                expect(versions == {acked[type_name].acked}, f"{type_name}: {versions}, sent: {acked[type_name]}")
        with scenario.check("each entry of the dump is a row"):
            for resource, name_of in (
                ("dynamic_active_clusters", lambda it: ("cds", it["cluster"]["name"], it["version_info"])),
                ("dynamic_route_configs", lambda it: ("rds", it["route_config"]["name"], it["version_info"])),
                ("dynamic_listeners", lambda it: ("lds", it["name"], it["active_state"]["version_info"])),
            ):
                dumped = sorted(map(name_of, envoy.config(resource)))
                shown = sorted(
                    (row.type, row.name, row.version)
                    for row in rows.values()
                    if row.type == dumped[0][0] and row.status == "ACKED"
                )
                expect(shown == dumped, f"{shown}; Envoy: {dumped}")
        with scenario.check("the table has them all"):
            xds_status.expect_table(xds, envoy.admin_address, sorted(rows.values()))
        with scenario.check("the server's view and Envoy's own are the same"):
            xds_status.wait_same(xds, csds, envoy.admin_address, "lds", "rds", "cds", same=4)

        world.config.replace("listener.yaml", "edits/listener-without-prefix.yaml")
        sent = serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
        # Of other types the dump has no rejections: Envoy does not keep them.
        with scenario.check("a rejected listener is NACKED, with Envoy's reason"):

            def probe() -> bool:
                # Envoy has the error twice, in an entry of its own, too: it is one row.
                (listener,) = xds_status.read(xds, envoy.admin_address, "lds")
                error = listener["error"]
                expect(listener["status"] == "NACKED" and isinstance(error, dict), str(listener))
                assert isinstance(error, dict)
                expect(error["details"] and error["details"] in (sent.error or ""), f"{listener}; {sent}")
                return True

            eventually("NACKED in Envoy", probe)
        with scenario.check("both views agree that it is rejected, and differ in the contents"):
            # The server has the newest listener, and Envoy still uses the one before.
            found = xds_status.differences(xds, csds, envoy.admin_address, "lds", "rds", "cds")
            expect(found == [("lds", "ingress", "content")], str(found))

"""Envoy with a certificate that comes by SDS and runtime values that come by RTDS."""

from __future__ import annotations

import json
from pathlib import Path

from driver import tls, workspace
from driver.checks import Scenario
from driver.config_dir import ConfigDir
from driver.envoy_world import Programs, Transport, resource_values
from driver.http_backend import HttpBackend
from driver.tls import Certificate, TlsConnection
from driver.waiting import SILENCE, eventually, expect, settled
from driver.xds import TYPE_URLS

_TYPES = (*TYPE_URLS, "sds", "rtds")
_KEY = "interop.percent_to_green"
_REJECTION = "KEY_VALUES_MISMATCH"


def follows_secrets_and_runtime(
    scenario: Scenario, programs: Programs, transport: Transport, python: Path
) -> None:
    """A certificate is used, rotated, and broken; runtime values are shown, and move the traffic."""
    first, second = (Certificate.make(python, name) for name in ("first", "second"))
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        values = resource_values(transport, blue_port=blue.port, green_port=green.port, percent_to_green=0)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.fill(
            {"listener.yaml": "edits/listener-tls.yaml", "routes.yaml": "edits/routes-by-runtime.yaml"}
        )
        _show(config, first)
        config.replace("runtime.yaml", "edits/runtime.yaml")
        serve, envoy = programs.start(scenario, config.path, transport, runtime=True)

        def runtime() -> object:
            return json.loads(envoy.admin("/runtime"))["entries"].get(_KEY, {}).get("final_value")

        with scenario.check("Envoy starts with the secret and the runtime values it waits for"):
            envoy.wait_live()
            expect(runtime() == "0", f"{_KEY} is {runtime()}")
        port = envoy.listener_port()
        with scenario.check(
            "a TLS request through Envoy is answered behind the certificate that SDS brought"
        ):
            old_connection = TlsConnection(port, first)
            expect(old_connection.fetch() == "blue", "not answered by blue")
        with scenario.check("xds serve has the secret and the runtime layer as ACKed, each by its name"):
            rows = serve.wait_acked(*_TYPES)
            for name in ("sds", "rtds"):
                expect(rows[name].subscribed == 1, str(rows[name]))
        with scenario.check("neither is sent again while nothing changes"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(all(counters[name] == (1, 1, 0) for name in ("sds", "rtds")), str(counters))

        rows = serve.settled()
        with scenario.check(
            "after a rename over the file of the secret new connections show the new certificate"
        ):
            _show(config, second)
            eventually("the second certificate", lambda: tls.fetch(port, second) == "blue")
        with scenario.check("a connection from before goes on"):
            expect(old_connection.fetch() == "blue", "not answered by blue")
            old_connection.close()
        with scenario.check("only the secret was sent for it, and it is ACKed"):
            serve.wait_acked("sds", new_after=rows)
            serve.expect_sent(rows, sds=1)

        rows = serve.settled()
        with scenario.check("a secret whose key does not fit is NACKed, and the reason stands in its row"):
            _show(config, Certificate("broken", second.certificate, first.private_key))
            row = serve.wait_row("sds", "NACKED", lambda row: row.state == "NACKED")
            expect(row.error and _REJECTION in row.error, f"error: {row.error}")
            expect(row.acked == rows["sds"].acked, f"the accepted version did not stay: {row}")
        with scenario.check("it is not sent again, and the accepted certificate stays in use"):
            serve.expect_sent(rows, sds=1)
            settled("counters", serve.counters, SILENCE)
            serve.expect_sent(rows, sds=1)
            expect(tls.fetch(port, second) == "blue", "not answered by blue")
        with scenario.check("the repaired secret is accepted and used"):
            _show(config, first)
            eventually("the first certificate", lambda: tls.fetch(port, first) == "blue")
            serve.wait_acked("sds")

        rows = serve.settled()
        with scenario.check("a changed runtime value is in force, and moves the traffic"):
            config.set("percent_to_green", 100)
            config.replace("runtime.yaml", "edits/runtime.yaml")
            eventually(f"{_KEY} = 100", lambda: runtime() == "100")
            answers = {tls.fetch(port, first) for _ in range(20)}
            expect(answers == {"green"}, f"answers came from {sorted(answers)}")
        with scenario.check("only the runtime layer was sent for it, and it is ACKed"):
            serve.wait_acked("rtds", new_after=rows)
            serve.expect_sent(rows, rtds=1)


def _show(config: ConfigDir, certificate: Certificate) -> None:
    """Puts a certificate and a private key into the file of the secret."""
    # A string in JSON is one in YAML, too.
    config.set("certificate", json.dumps(certificate.certificate))
    config.set("private_key", json.dumps(certificate.private_key))
    config.replace("secret.yaml", "edits/secret.yaml")

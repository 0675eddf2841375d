"""Certificates made for a run, and requests that trust one of them and no other."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from driver import workspace
from driver.waiting import expect

_PATIENCE = 5.0


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate with its private key, both PEM."""

    name: str
    certificate: str
    private_key: str

    @classmethod
    def make(cls, python: Path, name: str, *names: str) -> Certificate:
        """A new one, made by a Python that has the package `cryptography`; it is for these names of DNS and URIs, too."""
        program = workspace.INTEROP / "envoy" / "certificate.py"
        made = json.loads(workspace.run_program(python, program, name, *names))
        return cls(name, made["certificate"], made["private_key"])


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate with its key, in files."""

    certificate: Path
    key: Path

    @classmethod
    def write(cls, made: Certificate, directory: Path) -> CertificateFiles:
        """Both, in files that have its name."""
        files = cls(directory / f"{made.name}.pem", directory / f"{made.name}-key.pem")
        files.certificate.write_text(made.certificate, encoding="utf-8")
        files.key.write_text(made.private_key, encoding="utf-8")
        return files


class TlsConnection:
    """One connection to a port on loopback that shows this certificate; another one is an error."""

    def __init__(self, port: int, trusted: Certificate) -> None:
        context = ssl.create_default_context(cadata=trusted.certificate)
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE, context=context)
        self._connection.connect()
        socket = self._connection.sock
        assert isinstance(socket, ssl.SSLSocket)
        shown, expected = socket.getpeercert(True), ssl.PEM_cert_to_DER_cert(trusted.certificate)
        expect(shown == expected, f"not the certificate {trusted.name} but another that it vouches for")

    def fetch(self) -> str:
        """The answer to one request."""
        # Without this a new connection would be opened in silence if this one had ended.
        self._connection.auto_open = 0
        self._connection.request("GET", "/")
        response = self._connection.getresponse()
        body = response.read().decode("utf-8", "replace")
        expect(response.status == 200, f"HTTP {response.status} through Envoy: {body}")
        return body

    def close(self) -> None:
        """Ends it."""
        self._connection.close()


def fetch(port: int, trusted: Certificate) -> str:
    """The answer to one request over a connection of its own."""
    connection = TlsConnection(port, trusted)
    try:
        return connection.fetch()
    finally:
        connection.close()

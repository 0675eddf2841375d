"""What an attacker or a canary knows about the server, passed to its process as JSON."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Target:
    """Addresses of a server, and the files for TLS if it uses TLS."""

    port: int
    rest_port: int = 0
    csds_port: int = 0
    """Port of the client status discovery service (CSDS)."""
    authority: str = ""
    """Certificate that the server's is checked against; empty without TLS."""
    certificate: str = ""
    """Certificate of the client, with its key in the same file; empty without one."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Reads what `text` returned."""
        return cls(**json.loads(text))

    def text(self) -> str:
        """The target as JSON."""
        return json.dumps(asdict(self))

    @property
    def scheme(self) -> str:
        """The scheme of requests."""
        return "https" if self.authority else "http"

    def csds(self) -> Target:
        """The target with the address of CSDS as that for gRPC."""
        return replace(self, port=self.csds_port)

    def tcp(self, port: int | None = None, timeout: float = 5.0) -> socket.socket:
        """A new TCP connection to the server."""
        connection = socket.create_connection(("127.0.0.1", port or self.port), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def connect(self, timeout: float = 5.0) -> socket.socket:
        """A new connection for gRPC, with TLS if the server uses TLS."""
        connection = self.tcp(timeout=timeout)
        if not self.authority:
            return connection
        context = ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols(["h2"])
        if self.certificate:
            context.load_cert_chain(self.certificate)
        return context.wrap_socket(connection, server_hostname="localhost")

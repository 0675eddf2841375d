"""gRPC C-core as nothing but a client of management servers: a channel that resolves its target.

Runs in the virtual environment of `requirements-grpc.txt`. It makes one channel to `xds:///svc`, has it
resolve, and obeys JSON commands on standard input:

    {"command": "open", "servers": ["127.0.0.1:PORT", ...], "node": ID, "providers": {NAME: FILES, ...}}
    {"command": "close"}                                    the channel, and with it all subscriptions

It prints the channel's states as JSON events, and ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import sys

import grpc
from grpc.experimental import insecure_channel_credentials

# For resources that name a provider. Its file is never read: the channel is not secured.
_UNREAD = {"certificates": {"ca_certificate_file": "/nowhere/roots.pem"}}


def say(**event: object) -> None:
    """One event, as a line."""
    print(json.dumps(event), flush=True)


def open_channel(servers: list[str], node: str, providers: dict[str, dict[str, str]]) -> grpc.Channel:
    """The channel, which has begun to resolve its target.

    If there are instances of certificate providers, with the files that they watch, clusters may ask for TLS.
    """
    # A bootstrap file of the environment would be preferred to ours.
    os.environ.pop("GRPC_XDS_BOOTSTRAP", None)
    os.environ["GRPC_XDS_BOOTSTRAP_CONFIG"] = json.dumps(
        {
            "xds_servers": [
                {"server_uri": server, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}
                for server in servers
            ],
            "node": {"id": node},
            "certificate_providers": {
                name: {"plugin_name": "file_watcher", "config": {**files, "refresh_interval": "600s"}}
                for name, files in (providers or _UNREAD).items()
            },
        }
    )
    if providers:
        credentials = grpc.xds_channel_credentials(insecure_channel_credentials())
        channel = grpc.secure_channel("xds:///svc", credentials)
    else:
        channel = grpc.insecure_channel("xds:///svc")
    # Without a call, somebody has to ask for a connection.
    channel.subscribe(lambda state: say(event="state", state=state.name), try_to_connect=True)
    return channel


def main() -> None:
    channel: grpc.Channel | None = None
    say(event="ready", version=grpc.__version__)
    for line in sys.stdin:
        words = json.loads(line)
        if words["command"] == "open":
            channel = open_channel(words["servers"], words["node"], words["providers"])
        elif channel is not None:
            channel.close()
    # Not a normal end: C-core's threads may hold that up for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()

"""Sovereign as its own program starts it, over TLS: `serve_tls.py CERTIFICATE KEY`. It has no setting for that."""

import sys

from sovereign import asgi_config
from sovereign.server import StandaloneApplication, app

certificate, key = sys.argv[1:]
options = asgi_config.as_gunicorn_conf() | {"certfile": certificate, "keyfile": key}
StandaloneApplication(application=app, options=options).run()

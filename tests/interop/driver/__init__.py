"""Runs real peers against the `xds` binary; see the README beside this package."""

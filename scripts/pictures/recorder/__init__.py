"""Recorder of terminal sessions as SVG."""

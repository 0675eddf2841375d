"""`caller.py` with the metrics of C-core, by its OpenTelemetry plugin.

Runs in the virtual environment of `requirements-observability.txt`. It obeys the commands of `caller.py`, and one more:

    {"command": "metrics"}    -> {"event": "metrics", "points": [{"name": N, "labels": {...}, "count": N, "sum": N}, ...]}
"""

from __future__ import annotations

import os
import sys
from typing import Any

import grpc_observability
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import caller  # noqa: E402
from channel import say  # noqa: E402


def _points(reader: InMemoryMetricReader) -> list[dict[str, Any]]:
    data = reader.get_metrics_data()
    return [
        {
            "name": metric.name,
            "labels": dict(point.attributes or {}),
            # A histogram has both, a counter its value alone.
            "count": getattr(point, "count", None),
            "sum": getattr(point, "sum", getattr(point, "value", None)),
        }
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]


def main() -> None:
    """Registers the plugin, which has to precede the first channel."""
    reader = InMemoryMetricReader()
    plugin = grpc_observability.OpenTelemetryPlugin(
        meter_provider=MeterProvider(metric_readers=[reader]),
        # Methods that no generated code has registered are `other` by default.
        generic_method_attribute_filter=lambda _method: True,
    )
    plugin.register_global()
    caller.COMMANDS["metrics"] = lambda: say(event="metrics", points=_points(reader))
    caller.main()


if __name__ == "__main__":
    main()

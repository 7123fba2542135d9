"""What is measured for other tools: hooks that turn events into Prometheus metrics, and into OpenTelemetry's spans."""

from brimful.telemetry.otel import OpenTelemetry
from brimful.telemetry.prometheus import Prometheus

__all__ = ["OpenTelemetry", "Prometheus"]

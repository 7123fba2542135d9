"""Telemetry hooks: events as Prometheus metrics, and as OpenTelemetry spans and metrics."""

from brimful.telemetry.otel import OpenTelemetry
from brimful.telemetry.prometheus import Prometheus

__all__ = ["OpenTelemetry", "Prometheus"]

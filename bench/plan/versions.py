"""Versions of what makes numbers: part of the keys of records, which are made anew when one is raised."""

PROTOCOL_VERSION = 2  # raise when a protocol changes
METRICS_VERSION = 1  # raise when the definition of a metric changes

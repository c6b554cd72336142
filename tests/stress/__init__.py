"""Campaigns that break things on purpose: `python -m tests.stress CAMPAIGN`; docs/faults.md says what must hold."""

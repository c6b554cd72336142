"""The documents' own training steps and prediction loops: timed beside ours, and run to show their mistakes."""

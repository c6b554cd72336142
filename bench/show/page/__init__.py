"""The report as one HTML page. The answers come first, then the evidence for them. It measures nothing."""

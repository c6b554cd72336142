"""Statistics on records."""

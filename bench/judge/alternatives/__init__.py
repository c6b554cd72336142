"""Against what: how likely a reported number is under each named alternative to the published recipe."""

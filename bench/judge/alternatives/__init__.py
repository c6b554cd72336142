"""How likely a reported number is under each alternative to the published recipe."""

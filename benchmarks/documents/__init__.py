"""Training steps and prediction loops as the documents run them."""

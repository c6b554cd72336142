"""How fast our code is beside the documents' own, measured in one run, block by block in turn."""

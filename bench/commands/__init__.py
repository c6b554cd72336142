"""The commands, one subject a file: `add(commands)` declares a file's commands to the parser."""

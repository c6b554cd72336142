"""Lines that commands print: `compare`, `gate`, `verdict`, `audit` and the summary of `run`."""

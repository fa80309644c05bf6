"""The verbs of a host: `listen`, and the local `run-agent`."""

"""The sender's side of a host's HTTP door. Standard library alone: it needs no extra."""

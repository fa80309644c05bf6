"""What this host does for a job of each kind."""

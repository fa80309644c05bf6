"""The worktrees of this host after their jobs: seen, kept, put aside, brought back, deleted."""

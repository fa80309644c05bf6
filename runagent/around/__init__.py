"""What a job changed around its worktree: refs, settings, hooks, checkouts, watched files."""

"""One run on this machine: worktree, agent, evidence, validation. Knows no Redis and no keys."""

"""The worktree of a job: how it is made, what is copied into it, how it goes."""

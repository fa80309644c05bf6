"""What was done to a worktree: git's answer and the files, held against each other."""

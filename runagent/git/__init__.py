"""Git as a run may use it: the owner's repository, and git's own files where an agent was."""

"""The log of a job's events: what is written down, where, and how it is read again."""

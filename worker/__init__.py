"""The listener of one host: it takes signed jobs from the queue, runs each in a process of its own,
keeps the journal, and sends signed results back."""

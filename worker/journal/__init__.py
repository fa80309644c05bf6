"""The journal of a host and its registers: jobs, leases, trees, processes, trust."""

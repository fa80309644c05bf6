"""The second door of a host: signed jobs, asks and cancels over HTTP. Needs the extra `http`."""

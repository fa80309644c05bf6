"""A host's side of the broker: what it takes, what it shows, what it sends back."""

"""The listener as a service of the machine: its unit's text, and putting it there and away."""

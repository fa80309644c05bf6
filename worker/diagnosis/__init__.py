"""What `fleet-dispatch doctor` looks at: one file a noun, each check a function that only looks."""

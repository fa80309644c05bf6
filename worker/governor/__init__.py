"""What a host asks before it starts an agent: the fleet's pools, and a program of its owner."""

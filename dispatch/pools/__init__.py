"""Pools of the usage governor: what agents may use on an account, counted for the whole fleet."""

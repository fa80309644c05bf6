"""The runs of a host: started, recorded, recovered after a crash, and what they answer."""

"""The box around one run's agent and validator: who may build it, what it holds, what comes out."""

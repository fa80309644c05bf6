"""What is on the wire: frozen models, envelope, events, ids, errors. Pure; no input or output."""

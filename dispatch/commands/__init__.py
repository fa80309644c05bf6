"""The verbs of the sender's side, one module each; `dispatch.cli` holds the table of them."""

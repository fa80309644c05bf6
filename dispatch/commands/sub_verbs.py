"""A verb with verbs of its own, such as `keys grant`, as its help shows it.

Owns that list alone. It cuts no sentence short: click ends it at the width of the terminal, and
what is lost is the half that tells two verbs apart.
"""

from __future__ import annotations

from typing import Final

import click

_WHOLE_SENTENCE: Final = 1_000  # characters; no first sentence of a help text is longer


class SubVerbs(click.Group):
    """A click group whose help shows the whole first sentence of each of its commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, wrapped."""
        rows = [
            (name, command.get_short_help_str(_WHOLE_SENTENCE))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        with formatter.section("Verbs"):
            formatter.write_dl(rows)

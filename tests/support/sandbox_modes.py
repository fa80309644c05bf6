"""How many runs the tests made in each sandbox mode, for the summary at the end."""

from __future__ import annotations

from collections import Counter

EXERCISED: Counter[str] = Counter()

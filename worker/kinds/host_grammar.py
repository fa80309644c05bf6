"""By which grammar this host reads paths."""

from __future__ import annotations

import sys
from typing import Final

from validation.paths import Grammar

HOST_GRAMMAR: Final[Grammar] = "windows" if sys.platform == "win32" else "posix"

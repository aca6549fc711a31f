"""Whether colours are wanted."""

from __future__ import annotations

import os


def colour_choice() -> bool | None:
    """For click's `color`: False where the user wants no colours, None for colours on a terminal only.

    NO_COLOR counts where it is not empty (no-color.org); a terminal that calls itself dumb knows no colours.
    """
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None

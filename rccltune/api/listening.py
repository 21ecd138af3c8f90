"""Who is told what the verbs have to tell, where nobody reads a terminal."""

from __future__ import annotations

import logging
from typing import Final

from rccltune.model import Reporter

_LOGGER: Final = logging.getLogger("rccltune")


class Logging(Reporter):
    """Sentences for people become records of the logger ``rccltune``."""

    def say(self, text: str) -> None:
        """Take a sentence."""
        _LOGGER.info("%s", text)

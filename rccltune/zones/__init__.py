"""The zones room: which setting to choose at which size. Pure Python over fitted curves.

Everybody else takes the fastest row at each size and puts boundaries half-way. That follows noise
(174 rules where four do), and loses up to half the speed between the sizes. Here the fewest zones
are chosen that stay within a stated loss at every measured size, exactly; boundaries lie where
curves cross; and where the untouched library is known, a zone must beat it by more than noise.
"""

from __future__ import annotations

from rccltune.zones.choosing import choose, choose_together
from rccltune.zones.environments import environments
from rccltune.zones.options import Choice, ChoiceOptions
from rccltune.zones.selectable import why_not_selectable

__all__ = [
    "Choice",
    "ChoiceOptions",
    "choose",
    "choose_together",
    "environments",
    "why_not_selectable",
]

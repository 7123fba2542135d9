"""Lorebooks: which entries are told now, and why; and the formats in which others keep them.

activate → scene (where keys stand) | groups | timed | chance → shelf (books made ready) → finder → words | patterns
formats
"""

from brimful.lore.activate import Activation, Told, Who, activate
from brimful.lore.scene import Turn
from brimful.lore.shelf import Shelf
from brimful.lore.why import Held, Why

__all__ = ["Activation", "Held", "Shelf", "Told", "Turn", "Who", "Why", "activate"]

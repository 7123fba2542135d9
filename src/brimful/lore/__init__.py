"""Lorebooks: which entries are activated in a turn, and why.

activation → groups | scan → index → keys → patterns
"""

from brimful.lore.activation import ActivatedEntry, Activation, PersonaInfo, activate
from brimful.lore.index import LoreIndex, check_keywords
from brimful.lore.reasons import ActivationReason, LoreExclusion
from brimful.lore.scan import Turn

__all__ = [
    "ActivatedEntry",
    "Activation",
    "ActivationReason",
    "LoreExclusion",
    "LoreIndex",
    "PersonaInfo",
    "Turn",
    "activate",
    "check_keywords",
]

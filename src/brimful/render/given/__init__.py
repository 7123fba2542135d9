"""Requests that a caller wrote: read as they are, and written again with some of their messages.

More tolerant than the other readers. What is sent is the caller's, and whether it is right is for the provider to say;
here it is only to be counted, and what belongs together is to stay together.
"""

from brimful.render.given.reading import GIVEN_WIRES, Given, GivenWire, read_given
from brimful.render.given.writing import GivenRenderer, frame_of

__all__ = ["GIVEN_WIRES", "Given", "GivenRenderer", "GivenWire", "frame_of", "read_given"]

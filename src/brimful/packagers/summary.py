"""A summary → a package that can stand for the cluster it covers."""

from typing import Unpack

from brimful.core.content import ContentPackage
from brimful.core.tokens import TokenCounter
from brimful.packagers.package import Options, package


def summary(text: str, *, of: str, counter: TokenCounter, **options: Unpack[Options]) -> ContentPackage:
    """Package a summary of the cluster `of`; `covers` names the ids that it covers, if that is not all of it."""
    whole: Options = {**options, "cluster": of}
    return package("summary", text, counter=counter, **whole)

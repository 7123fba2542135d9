"""Hooks of the documentation site: files that are made by the build, and links that leave the docs.

The pages stay plain Markdown that also reads well in the repository: there, they link to files outside of `docs`, and
the name of a file stands in a comment before its contents.
"""

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = "https://github.com/brimful/brimful/blob/main/"
COPIES: Final = {
    "icon.svg": "web/src/styles/icon.svg",
    "mermaid.js": "web/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js",
}
"""Files of the site that are kept elsewhere."""
_OUTSIDE: Final = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]*)")
_FILE: Final = re.compile(r"^<!-- (?:file|policy|models) (\S+) -->\n+```(\w+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add files that are kept outside of `docs`."""
    for name, path in COPIES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Link to the repository what is not on the site, and show the names of files."""
    folder = Path(config.docs_dir) / Path(page.file.src_uri).parent
    docs = Path(config.docs_dir)

    def link(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        inside = target.is_relative_to(docs) or not target.exists()  # a dead link stays as it is, and fails the build
        return found[1] if inside else SOURCE + target.relative_to(ROOT).as_posix()

    return _FILE.sub(r'```\2 title="\1"', _OUTSIDE.sub(link, markdown))

"""Hooks of the documentation site: the HTTP reference, files from elsewhere, links that leave the docs, docstrings.

The pages stay plain Markdown that also reads well in the repository: there, they link to files outside of `docs`, and
the name of a file stands in a comment before its contents.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from griffe import Class, Extension, Function, Object, Parameter, ParameterKind, Parameters
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from brimful.server.openapi import openapi_document

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = "https://github.com/brimful/brimful/blob/main/"
ROUTES: Final = "<!-- routes -->"
"""What stands for the routes of the server on its page."""
COPIES: Final = {
    "icon.svg": "web/src/styles/icon.svg",
    "iframe-worker.js": "web/node_modules/iframe-worker/shim/index.js",
    "mermaid.js": "web/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js",
}
"""Files of the site that stand elsewhere in the repository."""
_API: Final = "/brimful/v1/"
_JSON: Final = "application/json"
_SUCCESS: Final = range(200, 300)
_DOCTEST: Final = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_OUTSIDE: Final = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]*)")
_FIRST_PARAGRAPH: Final = re.compile(r"^# .+\n+(?:```[^`]+```\n+)?((?!```)[\w`].*\n(?:.+\n)*)", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_LINK_TEXT: Final = r"\1"
_FILE: Final = re.compile(r"^<!-- (?:file|policy|models) (\S+) -->\n+```(\w+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add files from outside of `docs`."""
    for name, path in COPIES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Link to the repository what is not on the site, show the names of files, and give the home page all the width."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    folder = Path(config.docs_dir) / Path(page.file.src_uri).parent
    docs = Path(config.docs_dir)

    def link(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        inside = target.is_relative_to(docs) or not target.exists()  # a dead link stays as it is, and fails the build
        return found[1] if inside else SOURCE + target.relative_to(ROOT).as_posix()

    markdown = _FILE.sub(r'```\2 title="\1"', _OUTSIDE.sub(link, markdown))
    return markdown.replace(ROUTES, http_reference()) if ROUTES in markdown else markdown


def on_env(env: object, config: MkDocsConfig, files: Files) -> None:
    """Write llms.txt: what each page is about, for a model that looks for one."""
    del env
    sections: defaultdict[str, list[str]] = defaultdict(list)
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    for page in pages:
        text = _FIRST_PARAGRAPH.search(page.markdown or "")
        about = f": {' '.join(_LINK.sub(_LINK_TEXT, text[1]).split())}" if text else ""
        section = str(page.ancestors[-1].title) if page.ancestors else "Start"
        sections[section].append(f"- [{page.title}]({config.site_url}{page.url}){about}")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    lines += [line for title, listed in sections.items() for line in ("", f"## {title}", "", *listed)]
    site = Path(config.site_dir)
    site.mkdir(parents=True, exist_ok=True)
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


class Docstrings(Extension):
    """Show doctests as code, no special methods, and of a constructor only its signature.

    The signature of a struct is made from its fields.
    """

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Change the docstring of an object of the package."""
        if obj.is_special:
            obj.docstring = None
        elif obj.docstring:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_class(self, *, cls: Class, **_: object) -> None:
        """Give a struct its signature."""
        if [str(base) for base in cls.bases] in (["msgspec.Struct"], ["Struct"]):
            kind = ParameterKind.keyword_only if "kw_only" in cls.keywords else ParameterKind.positional_or_keyword
            fields = [
                Parameter(name, annotation=field.annotation, kind=kind, default=field.value)
                for name, field in cls.attributes.items()
                if "property" not in field.labels
            ]
            cls.set_member("__init__", Function("__init__", parameters=Parameters(Parameter("self"), *fields)))


# -- the HTTP reference ----------------------------------------------------------------------------------------------


def http_reference() -> str:
    """Return a section for each group of routes, for errors, and for schemas."""
    document = msgspec.json.decode(openapi_document())
    groups = defaultdict(list)
    errors: dict[str, str] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups[_group(path)] += _operation(f"{method.upper()} {path}", operation)
            errors |= {status: answer["description"] for status, answer in operation["responses"].items()}
    schemas = document["components"]["schemas"]
    lines = [line for group, text in groups.items() for line in (f"## {group}", "", *text)]
    lines += ["## Errors", "", "| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {errors[status]} |" for status in sorted(errors) if _is_error(status)]
    lines += ["", "## Schemas", ""]
    lines += [line for name in sorted(schemas) for line in _schema(name, schemas[name])]
    return "\n".join(lines)


def _group(path: str) -> str:
    if path.startswith(_API):
        return path.removeprefix(_API).partition("/")[0].capitalize()
    return "Proxy" if path.startswith("/v1/") else "Server"


def _is_error(status: str) -> bool:
    return status == "default" or int(status) not in _SUCCESS


def _operation(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    scope = operation.get("description", "")
    yield from (f"### `{title}`", "", f"{operation['summary']}. {scope}".strip(), "")
    if parameters := operation.get("parameters"):
        yield from ("| parameter | in | type | |", "|---|---|---|---|")
        for each in parameters:
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {each.get('description', '')} |"
        yield ""
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody'])}"
        yield ""
    status, answer = next(each for each in operation["responses"].items() if not _is_error(each[0]))
    yield f"Answer: {status}, {_content(answer)}"
    yield ""


def _content(holder: Mapping[str, Any]) -> str:
    """Return the types of a body or an answer, each with its media type unless that is JSON."""
    types = ((media, _type(content.get("schema", {}))) for media, content in holder["content"].items())
    return " or ".join(kind if media == _JSON else f"`{media}`" for media, kind in types)


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"#### {name}", "", schema.get("description", ""), "")
    if "properties" in schema:
        required = schema.get("required", ())
        yield from ("| field | type | default | |", "|---|---|---|---|")
        for field, kind in schema["properties"].items():
            default = "required" if field in required else f"`{_json(kind['default'])}`" if "default" in kind else ""
            yield f"| `{field}` | {_type(kind)} | {default} | {kind.get('description', '')} |"
    else:
        yield f"{_type(schema)}"
    yield ""


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema in words, with links: array of [ChatMessage](#chatmessage)."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{_json(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if items := schema.get("prefixItems") or ([schema["items"]] if "items" in schema else []):
        return f"array of {', '.join(map(_type, items))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _json(value: object) -> str:
    return re.sub(r"\|", r"\\|", msgspec.json.encode(value).decode())

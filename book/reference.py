"""Write ``reference.qmd``, the library's reference page, from its docstrings, read by griffe without importing."""

import argparse
import re
from pathlib import Path

import griffe

from book import pages

MODULES = (
    "corpus language settings text chunking streaming retrieval figures figure_reader metrics typed_metrics baseline "
    "extraction models prompts records generation local_llm endpoints anthropic_generator tokens traces "
    "verification citations simulator misbehaviour evaluation links comparison abstention checks failures judge runs "
    "stats plots report convert"
).split()

HEAD = """# Reference {#sec-reference}

The public names of the library, module by module. This page is generated from the docstrings by
`python -m book.reference`; a test compares it with them.
"""


def render() -> str:
    """Return the reference page as Quarto Markdown."""
    package = griffe.load("ragfin", search_paths=[pages.ROOT / "src"], docstring_parser="numpy")
    parts = [HEAD]
    for name in MODULES:
        if name in package.modules:
            parts.append(_module(package.modules[name]))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip() + "\n"


def _module(module: griffe.Module) -> str:
    parts = [f"## `ragfin.{module.name}`\n", _prose(module.docstring)]
    members = [m for m in module.members.values() if not m.is_alias and not m.name.startswith("_")]
    for member in members:
        if isinstance(member, griffe.Function) and member.docstring:
            parts.append(_function(member))
        elif isinstance(member, griffe.Class) and member.docstring:
            parts += [f"### `{member.name}`\n", _prose(member.docstring), _sections(member.docstring)]
            for method in member.members.values():
                if isinstance(method, griffe.Function) and method.docstring and not method.name.startswith("_"):
                    parts.append(f"- `{_signature(method)}`: {_first_line(method.docstring)}")
            parts.append("")
    return "\n".join(parts)


def _function(function: griffe.Function) -> str:
    head = f"### `{function.name}`\n\n```python\n{_signature(function)}\n```\n\n"
    return f"{head}{_prose(function.docstring)}\n{_sections(function.docstring)}"


def _signature(function: griffe.Function) -> str:
    shown = []
    keyword_only = False
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            shown.append("*")
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            parameter.kind, ""
        )
        default = f"={parameter.default}" if parameter.default is not None and not stars else ""
        shown.append(f"{stars}{parameter.name}{default}")
    returns = f" -> {function.returns}" if function.returns is not None else ""
    return f"{function.name}({', '.join(shown)}){returns}"


def _prose(docstring: griffe.Docstring | None) -> str:
    """Return the text of a docstring before its first section, headings of its own made plain."""
    if docstring is None:
        return ""
    texts = [part.value for part in docstring.parsed if part.kind is griffe.DocstringSectionKind.text]
    return _plain(texts[0]) + "\n" if texts else ""


def _sections(docstring: griffe.Docstring | None) -> str:
    if docstring is None:
        return ""
    lines = []
    kinds = griffe.DocstringSectionKind
    names = {kinds.parameters: "Parameters", kinds.returns: "Returns", kinds.raises: "Raises", kinds.yields: "Yields"}
    for part in docstring.parsed:
        if part.kind in names:
            lines.append(f"\n**{names[part.kind]}**\n")
            for item in part.value:
                name = f"`{item.name}`" if getattr(item, "name", "") else ""
                kind = f"`{item.annotation}`" if item.annotation is not None else ""
                head = ", ".join(piece for piece in (name, kind) if piece)
                text = re.sub(r"\s+", " ", _plain(item.description or ""))
                lines.append(f"- {head}{': ' if text else ''}{text}")
        elif part.kind is kinds.examples:
            code = "\n".join(value for kind, value in part.value if kind is kinds.examples)
            lines.append(f"\n**Example**\n\n```python\n{code}\n```")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Turn reST literals into Markdown code and section underlines into bold words."""
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _first_line(docstring: griffe.Docstring) -> str:
    return _plain(docstring.value.splitlines()[0])


def main() -> None:
    """Write the page, or with --check say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when the page differs from the docstrings")
    target: Path = pages.ROOT / "reference.qmd"
    if parser.parse_args().check:
        raise SystemExit(0 if target.read_text(encoding="utf-8") == render() else "run `python -m book.reference`")
    target.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()

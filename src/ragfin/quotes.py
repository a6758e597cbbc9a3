"""Passages given as quoted text instead of offsets: looked up once, when the corpus is loaded.

A quotation must occur once in its document. Runs of white space match each other, since a quotation copied from a
page breaks its lines elsewhere; nothing else is forgiven, and an ambiguous quotation is refused, never guessed.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ragfin.tables import Fault, Table

QUOTE, QUOTE_ALIAS = "quote", "cita"

_STAND_IN = (0, 1)  # the span of a passage whose quotation is at fault: loading fails anyway, with that fault alone


def resolve_quotes(passages: Table, texts: Mapping[str, str]) -> Table:
    """Return the passages with ``start`` and ``end`` where only a ``quote`` was given.

    Parameters
    ----------
    passages : Table
        With English column names; unchanged when it has no column ``quote``.
    texts : mapping of str to str
        The documents' texts by id.

    Returns
    -------
    Table
        Its faults also hold: a quotation that does not occur, one that occurs more than once (both places named), one
        that is not what lies at the offsets given beside it.
    """
    frame = passages.frame
    if QUOTE not in frame or "doc_id" not in frame or not frame.columns.is_unique:
        return passages
    spans: list[tuple[Any, Any]] = []
    faults: list[Fault] = []
    given = (frame[name] if name in frame else [None] * len(frame) for name in ("doc_id", QUOTE, "start", "end"))
    for position, (doc_id, quote, start, end) in enumerate(zip(*given, strict=True)):
        text = texts.get(doc_id) if isinstance(doc_id, str) else None
        if not isinstance(quote, str) or not quote.strip() or text is None:
            spans.append((start, end))
            continue
        found = list(islice(find_quote(text, quote), 3))
        if not (_missing(start) and _missing(end)):
            spans.append((start, end))
            if not any((str(a), str(b)) == (str(start), str(end)) for a, b in find_quote(text, quote)):
                problem = f"quote {quote!r:.60} is not what lies at {start}-{end} of {doc_id!r}"
                faults.append(passages.fault(position, problem, "keep the quotation or the offsets, not both"))
        elif len(found) == 1:
            spans.append(found[0])
        else:
            spans.append(_STAND_IN)
            problem, repair = f"quote {quote!r:.60} is not in {doc_id!r}", "copy it exactly from the document's text"
            if found:
                places = " and ".join(f"{a}-{b} ({_around(text, a, b)})" for a, b in found[:2])
                more = ", and elsewhere" if len(found) > 2 else ""
                problem = f"quote {quote!r:.60} is ambiguous in {doc_id!r}: it is at {places}{more}"
                repair = "quote more of the passage, or give start and end"
            faults.append(passages.fault(position, problem, repair))
    starts, ends = zip(*spans, strict=True) if spans else ((), ())
    frame = frame.assign(start=list(starts), end=list(ends)).astype({"start": object, "end": object})
    return Table(passages.file, frame, passages.rows, [*passages.faults, *faults])


def find_quote(text: str, quote: str) -> Iterator[tuple[int, int]]:
    r"""Yield where a quotation occurs in a text, half-open, in code points; occurrences may overlap.

    Examples
    --------
    >>> list(find_quote("Net debt was\n12.5 million. Net debt was 9.", "Net debt was 12.5"))
    [(0, 17)]
    """
    pattern = re.compile(r"\s+".join(map(re.escape, quote.split())))
    position = 0
    while quote.strip() and (match := pattern.search(text, position)):
        yield match.span()
        position = match.start() + 1


def _missing(value: Any) -> bool:
    """Tell whether a cell is empty."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _around(text: str, start: int, end: int, width: int = 24) -> str:
    """Tell a place by a little of the text before it, or after it where it opens the document."""
    before, after = (" ".join(part.split()) for part in (text[max(0, start - width) : start], text[end : end + width]))
    return f"after {before!r}" if before else f"before {after!r}"

"""The faults that the simulator commits on demand, so that a pipeline's answer to each can be shown."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Misbehaviour(StrEnum):
    """What the simulator can do wrong: the first four once each, the others in every answer."""

    RATE_LIMIT = "rate limit once"
    SERVER_ERROR = "server error once"
    OVERLOADED = "overloaded once"
    TIME_OUT = "time-out once"
    WRONG_OFFSET = "wrong offset"
    WRONG_DOCUMENT = "wrong document"
    UNKNOWN_DOCUMENT = "unknown document"
    BEYOND_THE_END = "end beyond the text"
    REVERSED = "reversed offsets"
    NOT_INTEGER = "index as a string"
    NULL_TITLE = "null title"
    TRUNCATED = "truncated stream"
    NO_CITATIONS = "no citations"
    SEVERAL_CITATIONS = "several citations on a block"
    SEVERAL_BLOCKS = "several blocks"
    PAGE_LOCATION = "page location"
    CONTENT_BLOCK_LOCATION = "content block location"
    SEARCH_RESULT_LOCATION = "search result location"
    WEB_SEARCH_RESULT_LOCATION = "web search result location"
    UNKNOWN_LOCATION = "unknown kind of location"


ONCE = {
    Misbehaviour.RATE_LIMIT: (429, "This request would exceed your rate limit"),
    Misbehaviour.SERVER_ERROR: (500, "Internal server error"),
    Misbehaviour.OVERLOADED: (529, "Overloaded"),
    Misbehaviour.TIME_OUT: (0, "The read timed out"),
}


def spoiled(
    location: Mapping[str, Any], misbehaviours: frozenset[Misbehaviour], text: str, n_documents: int
) -> dict[str, Any]:
    """Return a character location as the misbehaviours order it: wrong, or of another kind.

    Parameters
    ----------
    location : mapping
        A sound ``char_location`` of the API.
    misbehaviours : frozenset of Misbehaviour
        Those that do not concern a location change nothing.
    text : str
        The text of the cited document.
    n_documents : int
        How many documents the request holds.

    Returns
    -------
    dict
        A new location; the one given when nothing is ordered.
    """
    wrong = dict(location)
    for misbehaviour in sorted(misbehaviours):
        if misbehaviour in _OTHER_KINDS:
            return {"cited_text": location["cited_text"], **_OTHER_KINDS[misbehaviour]}
        wrong.update(_changes(misbehaviour, location, len(text), n_documents))
    return wrong


_DOCUMENT = {"document_index": 0, "document_title": None}
_OTHER_KINDS: dict[Misbehaviour, dict[str, Any]] = {
    Misbehaviour.PAGE_LOCATION: {"type": "page_location", **_DOCUMENT, "start_page_number": 1, "end_page_number": 2},
    Misbehaviour.CONTENT_BLOCK_LOCATION: {
        "type": "content_block_location",
        **_DOCUMENT,
        "start_block_index": 0,
        "end_block_index": 1,
    },
    Misbehaviour.SEARCH_RESULT_LOCATION: {
        "type": "search_result_location",
        "source": "https://example.org",
        "title": None,
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 1,
    },
    Misbehaviour.WEB_SEARCH_RESULT_LOCATION: {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "title": None,
        "encrypted_index": "AAAA",
    },
    Misbehaviour.UNKNOWN_LOCATION: {"type": "line_location", **_DOCUMENT, "start_line": 1, "end_line": 2},
}


def _changes(misbehaviour: Misbehaviour, location: Mapping[str, Any], length: int, n_documents: int) -> dict[str, Any]:
    """Return the fields that a fault within the characters changes."""
    start, end = location["start_char_index"], location["end_char_index"]
    match misbehaviour:
        case Misbehaviour.WRONG_OFFSET:
            step = 7 if end + 7 <= length else -min(7, start)
            moved = (start + step, end + step) if step else (start, end - 1)
            return {"start_char_index": moved[0], "end_char_index": moved[1]}
        case Misbehaviour.WRONG_DOCUMENT:
            return {"document_index": (location["document_index"] + 1) % max(n_documents, 2)}
        case Misbehaviour.UNKNOWN_DOCUMENT:
            return {"document_index": n_documents}
        case Misbehaviour.BEYOND_THE_END:
            return {"end_char_index": length + 1}
        case Misbehaviour.REVERSED:
            return {"start_char_index": end, "end_char_index": start}
        case Misbehaviour.NOT_INTEGER:
            return {"start_char_index": f"char {start}"}  # the client turns a string of digits into an integer
        case Misbehaviour.NULL_TITLE:
            return {"document_title": None}
    return {}

"""What the Messages API refuses, as far as a request for citations over plain text can show it.

The simulator answers such a request with status 400 and this message in the documented error body. It checks the
shape, not the account, the model's name or its limits.
"""

from collections.abc import Mapping
from typing import Any

_BLOCK_TYPES = (
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
)


def fault(body: Any) -> str | None:
    """Return what is wrong with a request's body, in the API's manner; None for a sound one."""
    if not isinstance(body, dict):
        return "Input should be an object"
    for name in ("max_tokens", "messages", "model"):
        if name not in body:
            return f"{name}: Field required"
    if type(body["max_tokens"]) is not int:
        return "max_tokens: Input should be a valid integer"
    if body["max_tokens"] < 1:
        return "max_tokens: Input should be greater than or equal to 1"
    if not isinstance(body["model"], str) or not body["model"]:
        return "model: Input should be a valid string"
    if not isinstance(body["messages"], list):
        return "messages: Input should be a valid list"
    if not body["messages"]:
        return "messages: at least one message is required"
    if not isinstance(body.get("system", ""), str | list):
        return "system: Input should be a valid string"
    for i, turn in enumerate(body["messages"]):
        if found := _turn_fault(f"messages.{i}", turn):
            return found
    if body["messages"][0]["role"] != "user":
        return 'messages: first message must use the "user" role'
    enabled = {bool((block.get("citations") or {}).get("enabled")) for block in document_blocks(body)}
    if len(enabled) > 1:
        return "messages: citations must be enabled on all documents or on none of them"
    return None


def _turn_fault(where: str, turn: Any) -> str | None:
    """Return what is wrong with one message."""
    if not isinstance(turn, dict):
        return f"{where}: Input should be an object"
    for name in ("role", "content"):
        if name not in turn:
            return f"{where}.{name}: Field required"
    if turn["role"] not in ("user", "assistant"):
        return f"{where}.role: Input should be 'user' or 'assistant'"
    if isinstance(turn["content"], str):
        return None if turn["content"] else "messages: text content blocks must be non-empty"
    if not isinstance(turn["content"], list):
        return f"{where}.content: Input should be a valid list"
    if not turn["content"]:
        return f"{where}: user messages must have non-empty content"
    return next(
        (f for j, block in enumerate(turn["content"]) if (f := _block_fault(f"{where}.content.{j}", block))), None
    )


def _block_fault(where: str, block: Any) -> str | None:
    """Return what is wrong with one content block; only text and plain-text documents are looked into."""
    if not isinstance(block, dict):
        return f"{where}: Input should be an object"
    kind = block.get("type")
    if kind not in _BLOCK_TYPES:
        expected = ", ".join(f"'{name}'" for name in _BLOCK_TYPES)
        return f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {expected}"
    if kind == "text":
        return _text_fault(f"{where}.text.text", block, "text")
    if kind != "document":
        return None
    source = block.get("source")
    if not isinstance(source, dict):
        return f"{where}.document.source: Field required"
    if not isinstance(block.get("title"), str | None):
        return f"{where}.document.title: Input should be a valid string"
    if not isinstance(block.get("citations"), dict | None):
        return f"{where}.document.citations: Input should be an object"
    if source.get("type") != "text":
        return f"{where}.document.source: the simulator reads plain text only, not '{source.get('type')}'"
    if source.get("media_type") != "text/plain":
        return f"{where}.document.source.text.media_type: Input should be 'text/plain'"
    return _text_fault(f"{where}.document.source.text.data", source, "data", may_be_empty=True)


def _text_fault(where: str, holder: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str | None:
    """Return what is wrong with a field that holds text."""
    if name not in holder:
        return f"{where}: Field required"
    if not isinstance(holder[name], str):
        return f"{where}: Input should be a valid string"
    return None if holder[name] or may_be_empty else "messages: text content blocks must be non-empty"


def document_blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the document blocks of all messages: their order is their index."""
    contents = [turn["content"] for turn in body["messages"] if isinstance(turn["content"], list)]
    return [block for content in contents for block in content if block["type"] == "document"]

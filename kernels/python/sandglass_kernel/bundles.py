"""Display values made fit for the wire: every value a string, none too big.

What an object shows of itself can be anything. On the wire a bundle maps MIME types to strings: JSON as its
text, pictures in base64. All bundles of a cell together have a cap; of a bundle that would go over it the
biggest parts are left out and a note in its plain text says so.
"""
from __future__ import annotations

import base64
import json
import math

CELL_MAX = 16 << 20
NOTES_MAX = 100  # notes of a cell once its budget is used up

PLAIN = "text/plain"


def _plain_json(value):
    """JSON has no NaN and no keys but strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _plain_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_json(v) for v in value]
    return value


def json_text(value) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=str)
    except (TypeError, ValueError):
        return json.dumps(_plain_json(value), default=str)


def well_formed(text: str) -> str:
    """Lone surrogates cannot be sent; show them as escapes, as sys.stdout does."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _value_text(mime: str, value) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        if mime.startswith("text/") or mime == "image/svg+xml":
            return bytes(value).decode("utf-8", "replace")
        return base64.b64encode(value).decode("ascii")
    if mime == "application/json":
        return json_text(value)
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, (list, tuple)) and mime.startswith("text/") and all(isinstance(v, str) for v in value):
        return well_formed("".join(value))
    return json_text(value)


def clean(data: dict) -> dict[str, str]:
    """The bundle as it goes over the wire."""
    return {str(mime): _value_text(str(mime), value) for mime, value in data.items() if value is not None and mime != "type"}


class Budget:
    """What a cell may still send."""

    def __init__(self):
        self.left = CELL_MAX
        self.notes_left = NOTES_MAX

    def fit(self, data: dict) -> dict[str, str] | None:
        """The bundle, or as much of it as the budget has room for. None: not even a note fits any more."""
        bundle = clean(data)
        sizes = {mime: len(mime) + _wire_size(text) for mime, text in bundle.items()}
        notes = []
        while sizes and sum(sizes.values()) > self.left:
            biggest = max(sizes, key=sizes.get)
            notes.append(f"[{biggest} of {sizes.pop(biggest):,} bytes left out: one cell may display {CELL_MAX:,} bytes]")
            del bundle[biggest]
        self.left -= sum(sizes.values())
        if notes:
            if self.notes_left == 0:
                return None
            self.notes_left -= 1
            if self.notes_left == 0:
                notes.append("[what follows is left out without a note]")
            bundle[PLAIN] = "\n".join(filter(None, [bundle.get(PLAIN), *notes]))
        return bundle


def _wire_size(text: str) -> int:
    """Bytes of a JSON string: exact for ASCII without escapes, never too small otherwise."""
    return len(text) if text.isascii() else 6 * len(text)

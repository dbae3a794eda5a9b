"""Errors as plain text: like Python's own tracebacks, with the frames of the user only, and bounded.

Written out here rather than left to the traceback module because of what user code can do to it: a __str__ that
raises or never ends (it alone is run through the gate, so that an interrupt stops it and nothing else), messages
and stacks without bound.
"""
from __future__ import annotations

import linecache
import os
import sys
import traceback

from .interrupts import gate

TEXT_HEAD, TEXT_TAIL = 6 << 10, 10 << 10
MESSAGE_MAX = 4 << 10
FRAMES_MAX = 1200
CHAIN_MAX = 12
GROUP_MAX = 8

CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
HEADER = "Traceback (most recent call last):\n"

_OWN_FOLDERS = [os.path.dirname(os.path.abspath(__file__)) + os.sep]
CELL_PREFIX = "<cell "


def hide_folder(path: str) -> None:
    """Leave out frames of the files below."""
    _OWN_FOLDERS.append(path.rstrip(os.sep) + os.sep)


def bounded(text: str, head: int, tail: int) -> str:
    """Head and tail of a long text, cut at line ends where there are some near."""
    if len(text) <= head + tail:
        return text
    first, last = text[:head], text[-tail:]
    if "\n" in first[head // 2:]:
        first = first[:first.rindex("\n") + 1]
    if "\n" in last[:tail // 2]:
        last = last[last.index("\n") + 1:]
    left_out = len(text) - len(first) - len(last)
    end = "" if first.endswith("\n") else "\n"
    return f"{first}{end}[... {left_out:,} characters left out ...]\n{last}"


def type_name(kind: type) -> str:
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", None) or kind.__name__
    return name if module in ("builtins", "__main__") or not isinstance(module, str) else f"{module}.{name}"


def message_of(exc: BaseException) -> str:
    try:
        text = gate.call(str, exc)
        return bounded(text, MESSAGE_MAX // 2, MESSAGE_MAX // 2)
    except BaseException as error:
        return f"<its message cannot be shown: str() raised {type(error).__name__}>"


def describe(exc: BaseException) -> dict[str, str]:
    """What an ERROR frame carries."""
    message = message_of(exc)
    try:
        text = "".join(_chain(exc, message))
    except Exception as error:  # a subclass that lies about itself
        text = f"{type(exc).__name__}: {message}\n[no traceback: {type(error).__name__} while writing it]\n"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return {"name": type(exc).__name__, "message": message.encode("utf-8", "backslashreplace").decode("utf-8"),
            "traceback": bounded(text, TEXT_HEAD, TEXT_TAIL).rstrip("\n")}


def _chain(exc: BaseException, message: str) -> list[str]:
    parts, seen = [_one(exc, message)], {id(exc)}
    while len(seen) < CHAIN_MAX:
        if exc.__cause__ is not None:
            before, joint = exc.__cause__, CAUSE
        elif exc.__context__ is not None and not exc.__suppress_context__:
            before, joint = exc.__context__, CONTEXT
        else:
            break
        if id(before) in seen:
            break
        seen.add(id(before))
        parts[:0] = [_one(before, message_of(before)), joint]
        exc = before
    return parts


def _one(exc: BaseException, message: str, depth: int = 0) -> str:
    stack = _user_stack(exc.__traceback__)
    lines = [HEADER, *stack.format()] if stack else []
    if type(exc) in (SyntaxError, IndentationError, TabError):
        _give_line(exc)
        lines += traceback.TracebackException(type(exc), exc, None).format_exception_only()
    else:
        lines.append(type_name(type(exc)) + (f": {message}" if message else "") + "\n")
        lines += [f"{note}\n" for note in getattr(exc, "__notes__", None) or () if isinstance(note, str)]
    if isinstance(exc, BaseExceptionGroup) and depth < 3:
        for number, member in enumerate(exc.exceptions[:GROUP_MAX], 1):
            text = _one(member, message_of(member), depth + 1)
            lines.append(f"  +---------------- {number} ----------------\n")
            lines += [f"  | {line}\n" for line in text.splitlines()]
        if len(exc.exceptions) > GROUP_MAX:
            lines.append(f"  +-- and {len(exc.exceptions) - GROUP_MAX} more\n")
    return "".join(lines)


def _give_line(exc: SyntaxError) -> None:
    """The compiler's later passes (`return` outside of a function) tell the number of the line and not the line."""
    if exc.text is None and isinstance(exc.filename, str) and isinstance(exc.lineno, int):
        exc.text = linecache.getline(exc.filename, exc.lineno) or None


def _user_stack(tb) -> traceback.StackSummary:
    stack = traceback.extract_tb(tb, limit=FRAMES_MAX)
    if len(stack) == FRAMES_MAX:
        stack = stack[:FRAMES_MAX // 2] + traceback.extract_tb(tb, limit=-FRAMES_MAX // 2)
    frames = [f for f in stack if not any(f.filename.startswith(folder) for folder in _OWN_FOLDERS)]
    for first, frame in enumerate(frames):
        if frame.filename.startswith(CELL_PREFIX):
            frames = frames[first:]  # what led to the cell is ours, or the event loop's
            break
    return traceback.StackSummary.from_list(frames)


def show(exc: BaseException) -> dict[str, str]:
    """Write the traceback to sys.stderr and return what goes into the ERROR frame."""
    error = describe(exc)
    try:
        sys.stderr.write(error["traceback"] + "\n")
        sys.stderr.flush()
    except Exception:
        pass  # the user's own stderr object does not take it; the frame will
    return error

"""Conversations on disk: one line of JSON for each question and answer, appended as they come.

Knows a file. Does not know models or terminals. Several chats may append to one file; a line that a kill cut short
is passed over.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Turn:
    """One question with its answer. `standalone` is the question as it was looked up; `stopped` by the reader."""

    conversation: str
    question: str
    standalone: str
    answer: str
    cited: tuple[str, ...] = ()
    stopped: bool = False


class History:
    """The turns in a file; None keeps them in memory only. Continues the last conversation.

    Raises ValueError for a file that cannot be read or written as history.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._turns = _read(path) if path is not None else []
        self.conversation = self._turns[-1].conversation if self._turns else uuid.uuid4().hex

    @property
    def turns(self) -> list[Turn]:
        """The present conversation, oldest first."""
        return [turn for turn in self._turns if turn.conversation == self.conversation]

    @property
    def answers(self) -> list[str]:
        """Complete answers of all conversations, newest first."""
        return [turn.answer for turn in reversed(self._turns) if not turn.stopped]

    def begin(self) -> None:
        """Start a new conversation; the old ones stay in the file."""
        self.conversation = uuid.uuid4().hex

    def add(self, question: str, standalone: str, answer: str, cited: tuple[str, ...], stopped: bool) -> None:
        """Append a turn, to the file too."""
        turn = Turn(self.conversation, question, standalone, answer, cited, stopped)
        self._turns.append(turn)
        if self.path is None:
            return
        line = json.dumps(asdict(turn), ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # One write of one line: lines of two chats do not mix.
            with self.path.open("ab", buffering=0) as file:
                file.write((b"" if _ends_line(self.path) else b"\n") + line.encode())
        except OSError as error:
            self.path = None  # said once; the chat goes on
            raise ValueError(f"the history is not kept any more: {error}") from error


def _read(path: Path) -> list[Turn]:
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ValueError(
            f"the history {str(path)!r} cannot be read ({error}); give --history another file"
        ) from error
    whole = [line for line in lines[:-1] if line.strip()]  # the last one may be cut short by a kill
    if whole and not any(map(_is_json, whole)):
        raise ValueError(f"{str(path)!r} is no history but another file; give --history a new one")
    turns = [_turn(line) for line in lines]
    return [turn for turn in turns if turn is not None]


def _turn(line: bytes) -> Turn | None:
    try:
        fields: Any = json.loads(line)
        fields["cited"] = tuple(fields.get("cited", ()))
        return Turn(**fields)
    except (ValueError, TypeError, AttributeError):  # cut short, or of another program
        return None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

"""One line of text in, what the model makes of it out, for both kinds of model.

Knows the engine, the tokenizer and the prompt. Does not know sentences, edits, or whether an output is to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from .caution import Caution
from .config import CorrectorConfig
from .projection import one_line
from .prompts import INSTRUCTION, fill, template_for
from .results import CorrectionStats
from .typography import plain
from .vocabulary import english

if TYPE_CHECKING:
    from core import Completion, Engine, Request

# An output may be half as long again as its source, and a little more: a runaway is cut off there.
_GROWTH = 1.5
_SLACK = 16


@dataclass(frozen=True)
class Rewrite:
    """`seen` is the text as the model's vocabulary can express it; `output` what came back."""

    seen: str
    output: str
    finish_reason: str
    stats: CorrectionStats


class Rewriter:
    """Turns lines into requests and completions into rewrites."""

    def __init__(self, engine: Engine, config: CorrectorConfig) -> None:
        self.engine = engine
        self.config = config
        self._tokenizer: Any = engine.tokenizer
        # A line is counted, sent and compared with what comes back: its tokens are found once.
        self._ids = lru_cache(maxsize=4096)(partial(_encode, self._tokenizer))
        self._is_encoder_decoder = bool(engine.target.is_encoder_decoder)
        self._template = config.prompt or template_for(config.model_name)
        if not self._is_encoder_decoder and self._template is None and not self._chats:
            raise ValueError(
                f"{config.model_name!r} only continues text, and no prompt is known for it; "
                "give one with {text} in it, for example --prompt 'Wrong: {text}\\nRight:'"
            )
        overhead = len(self._prompt(""))
        limit = engine.target.max_length
        room = limit * 2 // 3 if self._is_encoder_decoder else int((limit - _SLACK) / (1 + _GROWTH))
        self.budget = min(config.max_source_tokens, room - overhead - _SLACK // 2)
        if self.budget < 4:
            raise ValueError(f"the prompt leaves {self.budget} of {limit} tokens for a sentence; shorten it")

    @property
    def _chats(self) -> bool:
        return bool(getattr(self._tokenizer, "chat_template", None))

    def count(self, text: str) -> int:
        """Tokens of `text` alone."""
        return len(self._ids(plain(text)))

    def rewrite(self, texts: Sequence[str]) -> list[Rewrite]:
        """One rewrite per text, in order."""
        lines = [plain(text) for text in texts]
        completions = self.engine.generate([self._request(line) for line in lines])
        rewrites = [self._result(line, done) for line, done in zip(lines, completions, strict=True)]
        self._ids.cache_clear()
        return rewrites

    def _prompt(self, line: str) -> Sequence[int]:
        """Token ids of the whole prompt."""
        if self._template is not None:
            return self._ids(fill(self._template, line), special=True)
        if self._is_encoder_decoder:
            return self._ids(line, special=True)
        text: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": fill(INSTRUCTION, _encodable(line))}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        return self._ids(text)

    def _request(self, line: str) -> Request:
        from core import Request, SamplingParams

        prompt = self._prompt(line)
        own = self._ids(line)
        params = SamplingParams(
            temperature=self.config.temperature,
            seed=self.config.seed,
            max_new_tokens=int(len(own) * _GROWTH) + _SLACK,
            # A line stays a line; whatever a chat model says after it is not the correction.
            stop=() if self._is_encoder_decoder else ("\n",),
        )
        # A bare encoder-decoder prompt *is* the text to copy; with words around it, say which part.
        wrapped = self._template is not None or not self._is_encoder_decoder
        return Request(
            prompt,
            prediction=_encodable(line) if wrapped else None,
            params=params,
            transform=self._caution(line, prompt) if self.config.caution else None,
        )

    def _caution(self, line: str, prompt: Sequence[int]) -> Caution:
        target = self.engine.target
        start = target.start_tokens(prompt)
        # Encoder-decoder models that write a begin token (BART) read one too; a forced one is part of the start.
        ids = list(self._ids(line, special=self._is_encoder_decoder))
        special = set(self._tokenizer.all_special_ids)
        while ids and ids[-1] in special:
            ids.pop()
        doubted = self._doubted(line)
        if ids and ids[0] in special and ids[0] in start[1:]:
            ids = ids[1:]
            doubted = [place - 1 for place in doubted]
        return Caution(ids, tuple(target.eos_token_ids), self.config.caution, len(start), frozenset(doubted))

    def _doubted(self, line: str) -> list[int]:
        """The tokens of words that are not English, among those of `line`."""
        if self.config.language != "en" or not self._tokenizer.is_fast:
            return []
        line = _encodable(line)
        strange = english().strange(line)
        if not strange:
            return []
        tokens = self._tokenizer(
            line, add_special_tokens=self._is_encoder_decoder, return_offsets_mapping=True, verbose=False
        )
        return [
            place
            for place, (start, end) in enumerate(tokens["offset_mapping"])
            if any(start < last and end > first for first, last in strange)
        ]

    def _result(self, line: str, done: Completion) -> Rewrite:
        seen: str = self._tokenizer.decode(
            self._ids(line), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        used = done.stats
        stats = CorrectionStats(
            forwards=used.target_calls, drafted=used.drafted, accepted=used.accepted, emitted=used.emitted
        )
        return Rewrite(one_line(seen), one_line(done.text), done.finish_reason, stats)


def _encode(tokenizer: Any, text: str, special: bool = False) -> tuple[int, ...]:
    # Not verbose: long texts are counted here in order to be cut, no need to warn of them.
    return tuple(tokenizer.encode(_encodable(text), add_special_tokens=special, verbose=False))


def _encodable(text: str) -> str:
    """`text` without lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")

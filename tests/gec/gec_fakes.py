"""An engine that corrects by rule, so that the application is tested without a model."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from core.types import Completion, DecodeStats, Request

EOS = 0


class CharTokenizer:
    """One token per character; `unknown` characters are lost, as in a small vocabulary."""

    all_special_ids = (EOS,)
    chat_template = None
    is_fast = False  # so it knows no offsets

    def __init__(self, unknown: str = "") -> None:
        self.unknown = unknown

    def encode(self, text: str, add_special_tokens: bool = True, **_: object) -> list[int]:
        ids = [ord(c) for c in text if c not in self.unknown]
        return [*ids, EOS] if add_special_tokens else ids

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(chr(i) for i in ids if i != EOS)


class RuleEngine:
    """`rule` maps what the model reads to what it writes."""

    def __init__(
        self, rule: Callable[[str], str] = lambda text: text, *, unknown: str = "", max_length: int = 1024
    ) -> None:
        self.rule = rule
        self.tokenizer = CharTokenizer(unknown)
        self.target = SimpleNamespace(
            is_encoder_decoder=True,
            max_length=max_length,
            eos_token_ids=frozenset({EOS}),
            start_tokens=lambda _: [EOS],
        )
        self.stats = DecodeStats()
        self.read: list[str] = []

    def generate(self, requests: list[Request], params: object = None) -> list[Completion]:
        return [self._complete(request) for request in requests]

    def _complete(self, request: Request) -> Completion:
        assert not isinstance(request.prompt, str)
        assert request.params is not None
        text = self.tokenizer.decode(list(request.prompt))
        self.read.append(text)
        self.stats.target_calls += 1
        ids = [*self.tokenizer.encode(self.rule(text))][: request.params.max_new_tokens]
        reason = "stop" if ids[-1] == EOS else "length"
        stats = DecodeStats(target_calls=1, drafted=len(ids), accepted=len(ids) - 1, emitted=len(ids))
        return Completion(self.tokenizer.decode(ids), ids, reason, stats)  # type: ignore[arg-type]


def plain_errors(text: str) -> str:
    """Corrects three errors and knows no others."""
    return text.replace(" go ", " went ").replace("alot", "a lot").replace(" the the ", " the ")

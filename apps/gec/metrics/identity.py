"""Whether drafting changed anything: the share of sentences that come out the same without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.gec.corrector import Corrector


def share_equal_to_plain(corrector: Corrector, sentences: Sequence[str]) -> float:
    """Share of the sentences that the model writes alike with the drafter and with none; caution included."""
    from apps.gec.corrector import Corrector
    from apps.gec.rewriter import Rewriter

    plain = Corrector.from_config(replace(corrector.config, drafter="none"))
    drafted = Rewriter(corrector.engine, corrector.config).rewrite(sentences)
    undrafted = Rewriter(plain.engine, plain.config).rewrite(sentences)
    return fmean(
        (ours.output, ours.finish_reason) == (theirs.output, theirs.finish_reason)
        for ours, theirs in zip(drafted, undrafted, strict=True)
    )


def share_equal_to_transformers(
    corrector: Corrector, sentences: Sequence[str], max_new_tokens: int = 128
) -> float | None:
    """Share of the sentences with the same tokens as transformers' greedy `generate` in float32.

    None where the two do not do the same: with caution, with a prompt, or for a decoder-only model.
    """
    import torch

    from apps.bench.peers import TransformersPeer
    from apps.gec.prompts import template_for
    from core import Request, SamplingParams

    config, engine = corrector.config, corrector.engine
    if config.caution or config.prompt or template_for(config.model_name):
        return None
    if not engine.target.is_encoder_decoder:
        return None
    peer = TransformersPeer(config.model_name, torch.float32, max_new_tokens)
    params = SamplingParams(max_new_tokens=max_new_tokens)
    ours: list[Any] = engine.generate([Request(sentence) for sentence in sentences], params)
    theirs = peer(sentences, rows=1)
    return fmean(
        tuple(i for i in done.token_ids if i not in peer.special_ids) == output.token_ids
        for done, output in zip(ours, theirs, strict=True)
    )

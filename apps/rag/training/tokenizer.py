"""A byte-level BPE tokenizer for copying: a word has the same tokens wherever it stands in a sentence.

Cased and lossless. Digits stand alone, and so does the space before a capital letter, so that the first word of
a quoted sentence, or a name, is the same token in the passage, the question and the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from apps.rag.prompts import CHAT_MARKERS, CHAT_TEMPLATE

PAD_TOKEN, END_TOKEN = "<|pad|>", "<|end|>"
SPECIALS = (PAD_TOKEN, *CHAT_MARKERS)
PAD = 0
SYSTEM, USER, ASSISTANT, END = range(1, 5)


def train_tokenizer(texts: Iterable[str], vocab_size: int = 8192) -> Tokenizer:
    """A tokenizer learnt from texts."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" (?=\p{Lu})"), behavior="isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in SPECIALS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def wrap(tokenizer: Tokenizer, max_length: int = 2048) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers knows it, with the chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD_TOKEN,
        eos_token=END_TOKEN,
        additional_special_tokens=[t for t in CHAT_MARKERS if t != END_TOKEN],
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer saved as JSON, with text that looks like a marker read as text."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer

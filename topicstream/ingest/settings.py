"""What an ingest is told, and the defaults: they decide the first impression, so each has its reason here."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topicstream.errors import InputError
from topicstream.ingest.reader import ReadOptions
from topicstream.machine import parse_bytes
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.stopwords import read_stopwords

HELDOUT_SHARE = 0.01
HELDOUT_LEAST, HELDOUT_MOST_SHARE = 50, 0.10
ENOUGH_DOCUMENTS = round(HELDOUT_LEAST / HELDOUT_SHARE)
"""From this many documents on the default held-out share is 1 % sharp."""


@dataclass(frozen=True)
class Heldout:
    """How documents are set aside.  One of: share (exact threshold), documents (that many), neither (the default)."""

    asked: str
    share: float | None = None
    documents: int | None = None

    @classmethod
    def of(cls, text: str | int | float | None) -> Heldout:
        """``None`` or ``default``; ``1%``; ``0``; a number of documents.  InputError."""
        if text is None or text == "default":
            return cls("default: 1 %, at least 50 documents, at most 10 %")
        asked = str(text).strip()
        try:
            if asked.endswith("%"):
                share = float(asked[:-1]) / 100
                if not 0 <= share < 1:
                    raise ValueError
                return cls(asked, share=share)
            number = int(asked)
            if number < 0:
                raise ValueError
            return cls(asked, share=0.0) if number == 0 else cls(asked, documents=number)
        except ValueError:
            raise InputError(f"--heldout {asked}: give a share (1%), a number of documents (500) or 0") from None

    def wanted(self, documents: int) -> int | None:
        """How many documents to set aside; None when a share fixes the threshold."""
        if self.share is not None:
            return None
        if self.documents is not None:
            return min(self.documents, documents)
        if documents >= ENOUGH_DOCUMENTS:
            return None
        return min(HELDOUT_LEAST, int(documents * HELDOUT_MOST_SHARE))

    def threshold_of_share(self) -> int:
        """The threshold of the asked (or the default) share: documents whose hash is below are held out."""
        return min(int((HELDOUT_SHARE if self.share is None else self.share) * 2**64), 2**64 - 1)


@dataclass(frozen=True)
class IngestOptions:
    """All options of an ingest; None means the default, which may depend on the input.

    min_df       fewest training documents of a word.  Default for text 5 (a word of four documents teaches no topic and
                 such words are most of the raw types), but never more than 1 % of the documents; for counts 1: they
                 were pruned by whoever made them
    max_df       words in more of the training documents are left out: a share (0.5, 50%) or a number.  Default for text
                 50 % from 100 documents on (what stands in every second document parts no subjects); for counts: off
    min_count, max_vocab   fewest occurrences; most words (the most frequent ones)
    vocab        fix the vocabulary: a file with a word a line, or a vocab.parquet
    words        the words of a bag-of-words file that does not lie beside it
    heldout      see Heldout
    on_duplicate ``skip``, ``replace``, ``fail``; default: replace for PubMed (updates), else skip
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    recipe: Recipe = field(default_factory=Recipe)
    min_df: int | None = None
    max_df: float | int | None = None
    min_count: int = 1
    max_vocab: int | None = None
    vocab: str | None = None
    heldout: Heldout = field(default_factory=lambda: Heldout.of(None))
    append: bool = False
    grow_vocab: bool = False
    on_duplicate: str | None = None
    force: bool = False
    mem_limit: int | None = None
    workers: int | None = None
    checkpoint_bytes: int = 512 << 20
    checkpoint_seconds: float = 30.0
    tokenizer_given: bool = False

    @classmethod
    def of(cls, **given: Any) -> IngestOptions:
        """From flat names, as on the command line; InputError for an unknown name or a bad value."""
        read = {f.name for f in dataclasses.fields(ReadOptions)} - {"vocab"}
        recipe = {f.name for f in dataclasses.fields(Recipe)}
        own = {f.name for f in dataclasses.fields(cls)} - {"read", "recipe", "tokenizer_given"}
        if unknown := sorted(set(given) - read - recipe - own - {"words"}):
            raise InputError(f"ingest has no option {unknown[0]!r}")
        recipe_options = {k: v for k, v in given.items() if k in recipe}
        stop = recipe_options.get("stopwords")
        if isinstance(stop, (str, Path)):
            recipe_options["stopwords_from"], recipe_options["stopwords"] = read_stopwords(str(stop))
        read_options = {k: v for k, v in given.items() if k in read}
        if given.get("words") is not None:
            read_options["vocab"] = given["words"]
        rest = {k: v for k, v in given.items() if k in own}
        if not isinstance(rest.get("heldout"), Heldout):
            rest["heldout"] = Heldout.of(rest.get("heldout"))
        if isinstance(rest.get("vocab"), os.PathLike):
            rest["vocab"] = os.fspath(rest["vocab"])
        if "max_df" in rest:
            rest["max_df"] = _max_df(rest["max_df"])
        if isinstance(rest.get("mem_limit"), str):
            rest["mem_limit"] = parse_bytes(rest["mem_limit"])
        if rest.get("on_duplicate") not in (None, "skip", "replace", "fail"):
            raise InputError(f"--on-duplicate {rest['on_duplicate']}: give skip, replace or fail")
        if rest.get("grow_vocab") and not rest.get("append"):
            raise InputError("--grow-vocab goes with --append: a new store makes its vocabulary anyway")
        return cls(
            read=ReadOptions(**read_options),
            recipe=Recipe(**recipe_options),
            tokenizer_given=bool(recipe_options),
            **rest,
        )

    def pruning(self, documents: int, text: bool) -> dict[str, Any]:
        """min_df, max_df (a number of documents or None), min_count, max_vocab in effect for that many training
        documents."""
        least = self.min_df
        if least is None:
            least = max(1, min(5, documents // 100)) if text else 1
        most = self.max_df
        if most is None and text and documents >= 100:
            most = 0.5
        if isinstance(most, float):
            most = math.floor(most * documents)
        return {"min_df": least, "max_df": most, "min_count": self.min_count, "max_vocab": self.max_vocab}


def _max_df(value: Any) -> float | int | None:
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value).strip()
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text) if "." in text else int(text)
    except ValueError:
        raise InputError(f"--max-df {text}: give a share (0.5 or 50%) or a number of documents") from None

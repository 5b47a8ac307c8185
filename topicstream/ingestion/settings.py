"""Defaults of an ingest that depend on its input.

They decide the first impression, so each has its reason here.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.base.errors import UsageError
from topicstream.base.options import check_text, checked, share_or_number
from topicstream.base.records import Json
from topicstream.base.text import compose_text
from topicstream.corpus.manifest import HeldoutRule
from topicstream.ingestion.config import IngestConfig, Place
from topicstream.ingestion.parts.split import DOCUMENT, pattern_of
from topicstream.ingestion.store.side_files import SideOptions
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import LANGUAGES, read_stopwords
from topicstream.ingestion.tokens.tools import replacements, versions_of
from topicstream.ingestion.tokens.word_counts import WordLimits
from topicstream.ingestion.tokens.word_lists import stop_words_with_parts

KEPT_UNASKED = 100_000_000
"""Bytes of texts in memory that a store keeps by default."""
HELDOUT_SHARE = 0.01
HELDOUT_LEAST = 50
HELDOUT_MOST_SHARE = 0.10
ENOUGH_DOCUMENTS = round(HELDOUT_LEAST / HELDOUT_SHARE)
"""Documents from which on the default held-out share is 1 % sharp."""


@dataclass(frozen=True)
class Heldout:
    """Rule by which documents are set aside.

    One of: share (exact threshold), documents (that many), where (field and value: the documents
    that have it), neither (the default). by: whole groups, the documents of one value of that
    field, until the share or the number is reached. parts: the groups are the documents that
    ``--split`` cuts, by default.
    """

    asked: str
    share: float | None = None
    documents: int | None = None
    where: tuple[str, str] | None = None
    by: str | None = None
    parts: bool = dataclasses.field(default=False, repr=False)

    @property
    def split(self) -> tuple[str, str | None] | None:
        """(field, value or None) that decides in place of the id."""
        return self.where or (None if self.by is None else (self.by, None))

    def rule(self, threshold: int) -> HeldoutRule:
        """Return what a manifest remembers for appends.

        threshold: of the hashes of documents.
        """
        return HeldoutRule(
            text=self.asked, threshold=f"{threshold:#018x}", where=self.where, by=self.by
        )

    @classmethod
    def of_rule(cls, rule: HeldoutRule) -> Heldout:
        """Make the rule that a manifest has."""
        return cls(rule.text, where=rule.where, by=rule.by)

    @classmethod
    def of(cls, text: str | int | float | None, by: str | None = None) -> Heldout:
        """Read ``--heldout``: ``default``, ``1%``, ``0``, a number, or ``FIELD=VALUE``.

        InputError.
        """
        if by is not None:
            rule = cls.of(text)
            if rule.where is not None or not by:
                raise UsageError(
                    f"--heldout-by {by} requires a share or a number of documents, not FIELD=VALUE"
                )
            by = compose_text(by)
            return dataclasses.replace(rule, asked=f"{rule.asked}, by {by}", by=by)
        if isinstance(text, str) and "=" in text:
            name, _, value = (part.strip() for part in compose_text(text).partition("="))
            if not name or not value:
                raise UsageError(f"--heldout {text}: write FIELD=VALUE")
            return cls(f"{name}={value}", where=(name, value))
        if text is None or text == "default":
            return cls("default: 1 %, at least 50 documents, at most 10 %")
        text_given = str(text).strip()
        try:
            share = float(text_given[:-1]) / 100 if text_given.endswith("%") else float(text_given)
            if 0 <= share < 1:
                return cls(text_given, share=share)
            number = int(text_given)
            if number < 0:  # which is no number with %
                raise ValueError
            return cls(text_given, documents=number)
        except ValueError:
            raise UsageError(
                f"--heldout {text_given}: give a share (0.1 or 10%), a number of documents "
                f"(500), FIELD=VALUE or 0"
            ) from None

    def by_part(self) -> Heldout:
        """Return the same rule for parts one by one.

        It is for parts of too few documents to set some of these aside.
        """
        return dataclasses.replace(
            self,
            asked=self.asked.replace(f", by {self.by}", ", by part: few documents"),
            by=None,
            parts=False,
        )

    def too_many(self, heldout: int, documents: int) -> bool:
        """Tell whether whole groups exceed by far what was asked for."""
        return heldout > max(
            2 * (self.number_to_hold_out(documents) or 0), HELDOUT_MOST_SHARE * documents
        )

    def number_to_hold_out(self, documents: int) -> int | None:
        """Return how many documents to set aside, None when a share fixes the threshold."""
        if self.share is not None:
            return None if self.by is None else math.ceil(self.share * documents)
        if self.documents is not None:
            return min(self.documents, documents)
        if documents >= ENOUGH_DOCUMENTS:
            return None if self.by is None else math.ceil(HELDOUT_SHARE * documents)
        return min(HELDOUT_LEAST, int(documents * HELDOUT_MOST_SHARE))


def make_options(**options: Any) -> IngestConfig:
    """Make options from names as ``ingest`` takes them.

    Raises InputError for an unknown name or a bad value.
    """
    return resolve_options(IngestConfig((), **checked(IngestConfig, options, "ingest")))


def resolve_options(config: IngestConfig) -> IngestConfig:
    """Check which options go together, and make the recipe of the tokenizer.

    Raises InputError for a bad value.
    """
    recipe = recipe_of(config)
    heldout_of(config)
    if config.grow_vocab and not config.append:
        raise UsageError("--grow-vocab requires --append; a new store always builds its vocabulary")
    if config.split is not None:
        pattern_of(config.split)
        if config.links or config.on_duplicate == "replace":
            raise UsageError(
                "--split: links and replacements refer to whole documents; leave them out"
            )
    if (config.split is not None or config.min_tokens) and config.key == "row":
        raise UsageError(
            "--key row: --split and --min-tokens change the number of documents; give --key id"
        )
    if config.drop_top and config.vocab is not None:
        raise UsageError(
            "--drop-top requires a store that makes its own vocabulary; leave out --vocab"
        )
    vocab_file = None if config.vocab is None else os.fspath(config.vocab)
    return dataclasses.replace(config, recipe=recipe, vocab_file=vocab_file)


def recipe_of(config: IngestConfig) -> Recipe:
    """Return how text becomes words: the recipe of the options, or one made of the others."""
    return config.recipe or Recipe(**recipe_fields(config))


def heldout_of(config: IngestConfig) -> Heldout:
    """Return what is set aside.

    Parts of a document are, by default, held out together.
    """
    whole = DOCUMENT if config.split is not None and "=" not in str(config.heldout) else None
    heldout = Heldout.of(config.heldout, config.heldout_by or whole)
    by_default = whole is not None and config.heldout_by is None
    return dataclasses.replace(heldout, parts=by_default)


def side_files_of(config: IngestConfig) -> SideOptions:
    """Return the files beside the documents."""
    return SideOptions(_paths(config.meta_files), _paths(config.links), config.key)


def describe_reading(config: IngestConfig) -> dict[str, Json]:
    """Return what decides the sequence of the documents and their words.

    It is made of plain values.
    """
    side = side_files_of(config)
    files = {"side files": [side.key, *side.stamps()]} if side else {}
    return {**config.spelt(), "tokenizer": recipe_of(config).hash(), **files}


def keeps_texts(asked: bool | None, text_bytes: int) -> bool:
    """Return whether the texts of a new store are kept.

    Parameters
    ----------
    asked
        As ``--keep-text`` says; None: where they are short.
    text_bytes
        Of all texts.
    """
    return 0 < text_bytes <= KEPT_UNASKED if asked is None else asked


def word_limits(config: IngestConfig, documents: int, text: bool) -> WordLimits:
    """Return the limits of words for so many training documents.

    Of text words of 5 documents at least by default (one of four teaches no topic, and such words
    are most of the raw types), but never of more than 1 % of the documents; and of half of the
    documents at most, from 100 documents on (what stands in every second one parts no subjects).
    Counts were pruned by whoever made them.
    """
    least = share_or_number(config.min_df)
    most = share_or_number(config.max_df)
    if least is None:
        least = max(1, min(5, documents // 100)) if text else 1
    elif isinstance(least, float):
        least = max(1, math.ceil(least * documents - 1e-9))
    if most is None and text and documents >= 100:
        most = 0.5
    return WordLimits(
        min_df=least,
        max_df=math.floor(most * documents) if isinstance(most, float) else most,
        min_count=config.min_count,
        max_vocab=config.max_vocab,
    )


def recipe_fields(config: IngestConfig) -> dict[str, Any]:
    """Return the fields of a ``Recipe`` that options set."""
    made_elsewhere = ("drop", "tools", "replace", "joined_words", "final_sigma")
    recipe = {
        name: value
        for name in Recipe.__struct_fields__
        if name not in made_elsewhere and (value := getattr(config, name)) is not None
    }
    if isinstance(config.stopwords, (str, Path)) or (
        config.stopwords and set(_paths(config.stopwords)) <= set(LANGUAGES.values())
    ):
        recipe["stopwords_from"], recipe["stopwords"] = read_stopwords(
            *_paths(config.stopwords), encoding=config.encoding
        )
    elif config.stopwords is not None:
        recipe.setdefault("stopwords_from", "list")
    if dropped := tuple(
        kind for kind in ("tags", "urls", "mentions") if getattr(config, f"drop_{kind}")
    ):
        recipe["drop"] = dropped
    if config.replace is not None:
        recipe["replace"] = replacements(config.replace, config.encoding)
    if tools := [t.partition(":")[0] for t in (config.lemmas, config.segmenter) if t] + [
        "snowballstemmer"
    ] * bool(config.stem):
        recipe["tools"] = versions_of(tools)
    if config.segmenter is not None:
        recipe.setdefault("unspaced", "runs")  # words are parted by blanks then
    # what could have been names of files until here
    check_text("stopwords", recipe.get("stopwords"))
    check_text("replace", dict(recipe.get("replace", ())))
    recipe |= {
        name: tuple(recipe[name]) for name in ("keep", "stopwords", "phrases") if name in recipe
    }
    if recipe.get("stopwords"):
        recipe["stopwords"] = stop_words_with_parts(Recipe(**recipe))
    return recipe


def _paths(value: Place | Sequence[Place]) -> tuple[str, ...]:
    return tuple(
        os.fspath(p) for p in ([value] if isinstance(value, (str, os.PathLike)) else value)
    )

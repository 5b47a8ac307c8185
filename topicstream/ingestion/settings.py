"""Defaults of an ingest that depend on its input, each with its reason."""

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

KEPT_BY_DEFAULT = 100_000_000
"""Bytes of texts in memory that a store keeps by default."""
HELDOUT_SHARE = 0.01
HELDOUT_LEAST = 50
HELDOUT_MOST_SHARE = 0.10
ENOUGH_DOCUMENTS = round(HELDOUT_LEAST / HELDOUT_SHARE)
"""Documents from which on the default held-out share is 1 % sharp."""


@dataclass(frozen=True)
class Heldout:
    """Rule by which documents are set aside.

    At most one of ``share``, ``documents`` and ``where`` is set; without any, the default applies.

    Attributes
    ----------
    text
        The user's option.
    share
        Share of the documents, an exact threshold of their hashes.
    documents
        Number of documents.
    where
        Field and value: the documents that have it.
    by
        Field whose values name groups, which are set aside as a whole until the share or number is
        reached.
    parts
        True if the groups are documents that ``--split`` cuts, because the user named none.
    """

    text: str
    share: float | None = None
    documents: int | None = None
    where: tuple[str, str] | None = None
    by: str | None = None
    parts: bool = dataclasses.field(default=False, repr=False)

    @property
    def split(self) -> tuple[str, str | None] | None:
        """Return the field that decides instead of the id, with the value that counts, if any."""
        if self.where is not None or self.by is None:
            return self.where
        return (self.by, None)

    def rule(self, threshold: int) -> HeldoutRule:
        """Make the record of the rule in a manifest, for appends.

        Parameters
        ----------
        threshold
            Documents with a hash below it are set aside.
        """
        return HeldoutRule(
            text=self.text, threshold=f"{threshold:#018x}", where=self.where, by=self.by
        )

    @classmethod
    def of_rule(cls, rule: HeldoutRule) -> Heldout:
        """Make the rule that a manifest has recorded."""
        return cls(rule.text, where=rule.where, by=rule.by)

    @classmethod
    def parse(cls, text: str | int | float | None, by: str | None = None) -> Heldout:
        """Read ``--heldout``: ``default``, ``1%``, ``0``, a number, or ``FIELD=VALUE``.

        Parameters
        ----------
        text
            The option.
        by
            ``--heldout-by``.

        Raises
        ------
        UsageError
            If the text is none of these, or does not go with ``by``.
        """
        if by is not None:
            rule = cls.parse(text)
            if rule.where is not None or not by:
                raise UsageError(
                    f"--heldout-by {by} requires a share or a number of documents, not FIELD=VALUE"
                )
            by = compose_text(by)
            return dataclasses.replace(rule, text=f"{rule.text}, by {by}", by=by)
        if isinstance(text, str) and "=" in text:
            name, _, value = (part.strip() for part in compose_text(text).partition("="))
            if not name or not value:
                raise UsageError(f"--heldout {text}: write FIELD=VALUE")
            return cls(f"{name}={value}", where=(name, value))
        if text is None or text == "default":
            return cls("default: 1 %, at least 50 documents, at most 10 %")
        amount = str(text).strip()
        try:
            share = float(amount[:-1]) / 100 if amount.endswith("%") else float(amount)
            if 0 <= share < 1:
                return cls(amount, share=share)
            number = int(amount)  # raises ValueError for 100% and more
            if number < 0:
                raise ValueError
            return cls(amount, documents=number)
        except ValueError:
            raise UsageError(
                f"--heldout {amount}: give a share (0.1 or 10%), a number of documents "
                f"(500), FIELD=VALUE or 0"
            ) from None

    def by_part(self) -> Heldout:
        """Return the same rule for single parts, for too few documents to set one aside."""
        return dataclasses.replace(
            self,
            text=self.text.replace(f", by {self.by}", ", by part: few documents"),
            by=None,
            parts=False,
        )

    def too_many(self, heldout: int, documents: int) -> bool:
        """Tell whether whole groups set far more documents aside than the rule says."""
        number = self.number_to_hold_out(documents) or 0
        return heldout > max(2 * number, HELDOUT_MOST_SHARE * documents)

    def number_to_hold_out(self, documents: int) -> int | None:
        """Return how many documents to set aside, or None if a share fixes the threshold."""
        if self.share is not None:
            return None if self.by is None else math.ceil(self.share * documents)
        if self.documents is not None:
            return min(self.documents, documents)
        if documents >= ENOUGH_DOCUMENTS:
            return None if self.by is None else math.ceil(HELDOUT_SHARE * documents)
        return min(HELDOUT_LEAST, int(documents * HELDOUT_MOST_SHARE))


def make_options(**options: Any) -> IngestConfig:
    """Make options from the keywords of ``ingest``.

    Raises
    ------
    InputError
        If a name is unknown or a value is bad.
    """
    return resolve_options(IngestConfig((), **checked(IngestConfig, options, "ingest")))


def resolve_options(config: IngestConfig) -> IngestConfig:
    """Check that the options go together, and make the recipe of the tokenizer.

    Raises
    ------
    InputError
        If a value is bad, or two options exclude each other.
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
    """Return the recipe of the tokenizer: the one given, or one made of the other options."""
    return config.recipe or Recipe(**recipe_fields(config))


def heldout_of(config: IngestConfig) -> Heldout:
    """Return the rule by which documents are set aside.

    Parts of a document are, by default, held out together.
    """
    by_document = None
    if config.split is not None and "=" not in str(config.heldout):
        by_document = DOCUMENT
    heldout = Heldout.parse(config.heldout, config.heldout_by or by_document)
    by_default = by_document is not None and config.heldout_by is None
    return dataclasses.replace(heldout, parts=by_default)


def side_files_of(config: IngestConfig) -> SideOptions:
    """Return the files beside the documents."""
    return SideOptions(_paths(config.meta_files), _paths(config.links), config.key)


def describe_reading(config: IngestConfig) -> dict[str, Json]:
    """Return the options that decide the sequence of the documents and their words.

    They are plain values, which JSON can hold.
    """
    side = side_files_of(config)
    files = {"side files": [side.key, *side.stamps()]} if side else {}
    return {**config.reading_values(), "tokenizer": recipe_of(config).hash(), **files}


def keeps_texts(keep_text: bool | None, text_bytes: int) -> bool:
    """Tell whether a new store keeps its texts.

    Parameters
    ----------
    keep_text
        ``--keep-text``; None: texts of at most KEPT_BY_DEFAULT are kept.
    text_bytes
        Bytes of all texts.
    """
    if keep_text is not None:
        return keep_text
    return 0 < text_bytes <= KEPT_BY_DEFAULT


def word_limits(config: IngestConfig, documents: int, text: bool) -> WordLimits:
    """Return the limits of words for so many training documents.

    Words of text must, by default, occur in 5 documents (rarer ones teach no topic, and are most of
    the distinct words), or in 1 % of the documents if that is less. From 100 documents on they must
    not occur in more than half of them, because such words do not tell subjects apart. Counts were
    pruned by whoever made them, and have no default limits.

    Parameters
    ----------
    config
        The options.
    documents
        Number of training documents.
    text
        True if the input is text.
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
    made_below = ("drop", "tools", "replace", "joined_words", "final_sigma")
    recipe: dict[str, Any] = {}
    for name in Recipe.__struct_fields__:
        if name not in made_below and getattr(config, name) is not None:
            recipe[name] = getattr(config, name)
    if config.stopwords is not None:
        recipe |= _stop_words(config)
    dropped = [kind for kind in ("tags", "urls", "mentions") if getattr(config, f"drop_{kind}")]
    if dropped:
        recipe["drop"] = tuple(dropped)
    if config.replace is not None:
        recipe["replace"] = replacements(config.replace, config.encoding)
    tools = [tool.partition(":")[0] for tool in (config.lemmas, config.segmenter) if tool]
    if config.stem:
        tools.append("snowballstemmer")
    if tools:
        recipe["tools"] = versions_of(tools)
    if config.segmenter is not None:
        recipe.setdefault("unspaced", "runs")  # the segmenter puts blanks between words
    # these options may name files, whose names may hold any byte, but words may not
    check_text("stopwords", recipe.get("stopwords"))
    check_text("replace", dict(recipe.get("replace", ())))
    for name in ("keep", "stopwords", "phrases"):
        if name in recipe:
            recipe[name] = tuple(recipe[name])
    if recipe.get("stopwords"):
        recipe["stopwords"] = stop_words_with_parts(Recipe(**recipe))
    return recipe


def _stop_words(config: IngestConfig) -> dict[str, Any]:
    """Return the fields ``stopwords_from`` and ``stopwords`` of a ``Recipe``.

    A text or path names languages or files, and so does a list of languages. Any other list
    contains the words.
    """
    stopwords = config.stopwords
    assert stopwords is not None
    are_names = isinstance(stopwords, (str, Path))
    if are_names or (stopwords and set(_paths(stopwords)) <= set(LANGUAGES.values())):
        name, words = read_stopwords(*_paths(stopwords), encoding=config.encoding)
        return {"stopwords_from": name, "stopwords": words}
    return {"stopwords_from": config.stopwords_from or "list", "stopwords": stopwords}


def _paths(value: Place | Sequence[Place]) -> tuple[str, ...]:
    """Return one or several paths as texts."""
    paths = [value] if isinstance(value, (str, os.PathLike)) else value
    return tuple(os.fspath(path) for path in paths)

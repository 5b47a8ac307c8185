"""Options of an append: those that the store remembers, and refusals of what contradicts them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from msgspec import structs

from topicstream.base.errors import InputError, UsageError
from topicstream.base.options import flags, names_tagged
from topicstream.corpus.manifest import HeldoutRule, StoreManifest
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.settings import Heldout, heldout_of, recipe_fields, recipe_of
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import listed_words
from topicstream.ingestion.tokens.word_lists import stop_words_with_parts


def options_of_append(
    config: IngestConfig, store: StoreManifest, out: Path, *kinds: str
) -> IngestConfig:
    """Complete the options of an append with what its store remembers.

    Parameters
    ----------
    config
        The user's options. An option that applies to a new store may be repeated, so that the
        same command serves the first night and all later ones.
    store
        The manifest of the store.
    out
        Folder of the store, for messages.
    kinds
        Groups of options that are taken from the store (``ReadOptions.recall``).

    Raises
    ------
    UsageError
        If an option that applies to a new store has another value than the store's.
    InputError
        If the options ask for another tokenizer than the store's.
    """
    for name in names_tagged(IngestConfig, "new_store"):
        value = getattr(config, name)
        is_given = value is not None if name == "keep_text" else bool(value)
        if is_given and not _is_of_store(name, config, store):
            raise UsageError(
                f"{_spell(name, value)}: requires a new store; {out} was made with "
                f"{_text_of_store(name, store)}, which holds for every append: leave it out"
            )
    recipe = _recipe_of_append(config, store, out)
    return dataclasses.replace(
        config.recall(store.reading, *kinds),
        drop_top=0,
        keep_text=store.texts is not None,
        recipe=recipe,
    )


def _spell(name: str, value: object) -> str:
    """Spell an option as it is given on the command line."""
    flag = flags(IngestConfig.__dataclass_fields__[name])[-1]
    if isinstance(value, bool):
        return flag if value else flag.replace("--", "--no-", 1)
    return f"{flag} {value}"


def _is_of_store(name: str, config: IngestConfig, store: StoreManifest) -> bool:
    """Tell whether a store was made with the option's value."""
    if name in ("heldout", "heldout_by"):
        return _are_same(heldout_of(config), store.heldout)
    if name == "keep_text":
        return bool(config.keep_text) == (store.texts is not None)
    if name == "vocab":
        fixed = store.vocabulary.get("fixed")
        return fixed is not None and fixed == os.path.basename(os.fspath(config.vocab or ""))
    return bool(store.vocabulary.get(name) == getattr(config, name))


def _text_of_store(name: str, store: StoreManifest) -> str:
    """Describe the value of an option with which a store was made, for a message."""
    if name in ("heldout", "heldout_by"):
        return f"heldout {store.heldout.text}"
    if name == "keep_text":
        return "no texts" if store.texts is None else "its texts"
    if name == "vocab":
        return f"the vocabulary {store.vocabulary.get('fixed') or 'of its own words'}"
    return f"{name} {store.vocabulary.get(name) or 0}"


def _are_same(heldout: Heldout, rule: HeldoutRule) -> bool:
    """Tell whether a rule of a manifest is the one that the options ask for."""
    amount, _, _ = rule.text.partition(", by ")
    try:
        stored = Heldout.parse(None if amount.startswith("default") else amount)
    except UsageError:
        return False
    same_groups = heldout.by == rule.by or (heldout.parts and rule.by is None)
    same_number = (heldout.share, heldout.documents) == (stored.share, stored.documents)
    return same_groups and same_number and heldout.where == rule.where


def _recipe_of_append(config: IngestConfig, store: StoreManifest, out: Path) -> Recipe:
    """Return the store's tokenizer.

    Raises
    ------
    InputError
        If the options ask for another.
    """
    if store.tokenizer is None:
        return recipe_of(config)
    stored = Recipe.from_json(store.tokenizer)
    requested = recipe_of(config)
    differing = [
        name
        for name in recipe_fields(config)
        if name != "tools" and getattr(requested, name) != getattr(stored, name)
    ]
    if "stopwords" in differing and _are_same_stop_words(requested, stored):
        differing.remove("stopwords")
    if differing:
        raise InputError(
            f"{out}: was ingested with another tokenizer ({', '.join(differing)}); leave out the "
            f"tokenizer options to append"
        )
    return stored


def _are_same_stop_words(requested: Recipe, stored: Recipe) -> bool:
    """Tell whether stop words are the store's, whose lists an older version may have made."""
    if requested.stopwords_from != stored.stopwords_from:
        return False
    if all(map(listed_words, requested.stopwords_from.split("+"))):
        return True
    with_parts = structs.replace(stored, stopwords=requested.stopwords)
    return stop_words_with_parts(with_parts) == stop_words_with_parts(stored)

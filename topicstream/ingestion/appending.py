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
        The options as the user gave them. An option that only a new store is made by may be
        repeated, so that the same command serves the first night and all later ones.
    store
        The manifest of the store.
    out
        Where the store lies, for messages.
    kinds
        Which options on the input are the store's: see ``ReadOptions.recall``.

    Raises
    ------
    UsageError
        For an option that only a new store is made by, given otherwise than the store has it.
    InputError
        For another tokenizer than the store's.
    """
    for name in names_tagged(IngestConfig, "new_store"):
        value = getattr(config, name)
        given = value is not None if name == "keep_text" else value
        if given and not _is_of_store(name, config, store):
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
    """Return whether a store was made with an option as it is given now."""
    if name in ("heldout", "heldout_by"):
        return _are_same(heldout_of(config), store.heldout)
    if name == "keep_text":
        return bool(config.keep_text) == (store.texts is not None)
    if name == "vocab":
        fixed = store.vocabulary.get("fixed")
        return fixed is not None and fixed == os.path.basename(os.fspath(config.vocab or ""))
    return bool(store.vocabulary.get(name) == getattr(config, name))


def _text_of_store(name: str, store: StoreManifest) -> str:
    """Return how a store was made, for a message."""
    if name in ("heldout", "heldout_by"):
        return f"heldout {store.heldout.text}"
    if name == "keep_text":
        return "no texts" if store.texts is None else "its texts"
    if name == "vocab":
        return f"the vocabulary {store.vocabulary.get('fixed') or 'of its own words'}"
    return f"{name} {store.vocabulary.get(name) or 0}"


def _are_same(heldout: Heldout, rule: HeldoutRule) -> bool:
    """Return whether a rule of a manifest sets documents aside as these options ask."""
    amount, _, _ = rule.text.partition(", by ")
    try:
        stored = Heldout.of(None if amount.startswith("default") else amount)
    except UsageError:
        return False
    same_groups = heldout.by == rule.by or (heldout.parts and rule.by is None)
    return same_groups and (
        (heldout.share, heldout.documents, heldout.where)
        == (stored.share, stored.documents, rule.where)
    )


def _recipe_of_append(config: IngestConfig, store: StoreManifest, out: Path) -> Recipe:
    """Return the store's tokenizer.

    Raises InputError where the options ask for another.
    """
    if store.tokenizer is None:
        return recipe_of(config)
    recipe = Recipe.from_json(store.tokenizer)
    asked = recipe_of(config)
    other = [
        name
        for name in recipe_fields(config)
        if name != "tools" and getattr(asked, name) != getattr(recipe, name)
    ]
    if "stopwords" in other and _are_same_stop_words(asked, recipe):
        other.remove("stopwords")
    if other:
        raise InputError(
            f"{out}: was ingested with another tokenizer ({', '.join(other)}); leave out the "
            f"tokenizer options to append"
        )
    return recipe


def _are_same_stop_words(asked: Recipe, stored: Recipe) -> bool:
    """Return whether stop words are the store's, whose lists an older version may have made."""
    if asked.stopwords_from != stored.stopwords_from:
        return False
    if all(map(listed_words, asked.stopwords_from.split("+"))):
        return True
    with_parts = structs.replace(stored, stopwords=asked.stopwords)
    return stop_words_with_parts(with_parts) == stop_words_with_parts(stored)

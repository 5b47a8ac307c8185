"""Seed words: words that people give to topics, in a TOML file.

    strength = 500                                  # of topics without one of their own; optional

    [hockey] words = ["hockey", "nhl", "goalie"]

    [space]
    words = ["nasa", "orbit", "shuttle"]
    strength = 2000

``space = ["nasa", "orbit"]`` is short for a topic with words alone. The first topic of the file is
topic 0 of the model,
the next one topic 1, and they carry their names; in labelled LDA each is the topic of that name.
``strength`` is
the pseudo-count of each word in its topic: the prior of word w in topic k is beta + strength. By
default it is the word's
count in the training documents, so that half of the word's weight stays in the topic, whatever the
corpus says.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from topicstream.base.errors import InputError, UsageError, terminal_safe
from topicstream.base.records import Count, Record, decode_record, plain
from topicstream.base.text import compose_text
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.numeric.kernels.constants import Constants

LISTED = 10
"""Unknown words that a warning lists."""
ADVICE = 'Write [name] and words = ["one", "two"], perhaps strength = 500, for each topic'


class SeedTopic(Record, forbid_unknown_fields=True):
    """A topic and its seed words.

    Attributes
    ----------
    strength
        Pseudo-counts of each word. None: as many as the word has in the training documents.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    words: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], msgspec.Meta(min_length=1)
    ]
    strength: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "name", compose_text(self.name))
        force_setattr(self, "words", tuple(map(compose_text, self.words)))
        if not self.name.strip():
            raise ValueError("the name is blank")
        if len(set(self.words)) < len(self.words):
            raise ValueError(
                f"names {terminal_safe(max(self.words, key=self.words.count))} twice; leave one out"
            )


class SeedEntry(SeedTopic, kw_only=True, forbid_unknown_fields=False):
    """A manifest entry of a topic with seed words: its number, its words' pseudo-counts."""

    topic: Count
    weights: list[Annotated[float, msgspec.Meta(ge=0, le=1e18)]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.weights) != len(self.words):
            raise ValueError(f"{len(self.weights)} weights for {len(self.words)} words")


def read_seeds(seeds_given: str | Path | Mapping[str, Any] | Sequence[Any]) -> list[SeedTopic]:
    """Read seed topics from a TOML file, a mapping or a list.

    A mapping holds what such a file would. A list holds topics: records, or mappings of name, words
    and strength.

    Raises
    ------
    InputError
        In one line, for anything else.
    """
    where = str(seeds_given) if isinstance(seeds_given, (str, Path)) else "seed words"
    if isinstance(seeds_given, (str, Path)):
        seeds_given = _load(Path(seeds_given))
    if isinstance(seeds_given, Mapping):
        return _distinct(_of_mapping(seeds_given, where), where)
    topics = [
        SeedTopic(name=entry.name, words=entry.words, strength=entry.strength)
        if isinstance(entry, SeedEntry)  # of a model that is updated
        else decode_record(plain(entry), SeedTopic, where, ADVICE, InputError)
        for entry in seeds_given
    ]
    return _distinct(topics, where)


def _load(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file; --seed-words needs a TOML file of topics and their words"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from None
    except (
        ValueError,
        RecursionError,
    ) as e:  # of TOML, of UTF-8, of a number of thousands of digits
        raise InputError(f"{path}: not TOML ({e}). {ADVICE}") from None


def _of_mapping(value: Mapping[str, Any], where: str) -> list[SeedTopic]:
    topics = dict(value)
    strength = None
    if not isinstance(topics.get("strength"), (Mapping, list, tuple)):
        strength = topics.pop("strength", None)
    seeds: list[SeedTopic] = []
    for name, entry in topics.items():
        record = {
            "strength": strength,
            **(entry if isinstance(entry, Mapping) else {"words": entry}),
            "name": name,
        }
        seeds.append(
            decode_record(
                record, SeedTopic, f"{where}: topic {terminal_safe(name)}", ADVICE, InputError
            )
        )
    return seeds


def _distinct(topics: list[SeedTopic], where: str) -> list[SeedTopic]:
    if not topics:
        raise InputError(f"{where}: no topics. {ADVICE}")
    names = [t.name for t in topics]
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: topic {terminal_safe(max(names, key=names.count))} occurs twice"
        )
    return topics


def find_seed_words(topics: Sequence[SeedTopic], vocabulary: Vocabulary) -> list[np.ndarray]:
    """Find the ids of each topic's words, int64, -1 for unknown words.

    Where the vocabulary lacks a word, its lower-case form counts. A word that is found twice in a
    topic counts once.
    """
    ids_by_topic = []
    for topic in topics:
        ids = vocabulary.find(list(topic.words))
        small = vocabulary.find([w.lower() for w in topic.words])
        ids = np.where(ids < 0, small, ids)
        _, first = np.unique(ids, return_index=True)
        again = np.ones(len(ids), bool)
        again[first] = False
        ids[again & (ids >= 0)] = -1
        ids_by_topic.append(ids)
    return ids_by_topic


def resolve_seeds(
    topics: Sequence[SeedTopic],
    vocabulary: Vocabulary,
    n_w: np.ndarray,
    columns: int,
    named: Mapping[str, int] | None = None,
) -> tuple[Constants, list[SeedEntry], list[str]]:
    """Resolve seed words to constants, manifest entries and warnings.

    The constants are those of a table of ``columns`` topics.

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word.
    named
        Topic by name, where topics have names of their own.

    Raises
    ------
    UsageError
        If there are more seed topics than topics.
    InputError
        If no word of a topic is known.
    """
    if named is None:
        if len(topics) > columns:
            raise UsageError(
                f"--seed-words has {len(topics)} topics, the model {columns}; use -K "
                f"{len(topics)} or more"
            )
        named = {topic.name: k for k, topic in enumerate(topics)}
    if other := [t.name for t in topics if t.name not in named]:
        near = difflib.get_close_matches(other[0], list(named), 1)
        hint = (
            f"did you mean {terminal_safe(near[0])}?"
            if near
            else "names are spelt as in the documents"
        )
        raise InputError(f"--seed-words: no label is called {terminal_safe(other[0])}; {hint}")
    entries = list[SeedEntry]()
    warnings = list[str]()
    unknown = list[str]()
    every: list[tuple[int, int, float]] = []
    for topic, ids in zip(topics, find_seed_words(topics, vocabulary), strict=True):
        k = named[topic.name]
        weights = list[float]()
        for word, i in zip(topic.words, ids.tolist(), strict=True):
            weight = 0.0 if i < 0 else float(n_w[i]) if topic.strength is None else topic.strength
            weights.append(weight)
            if weight > 0:
                every.append((i, k, weight))
            else:
                unknown.append(f"{terminal_safe(word)} ({terminal_safe(topic.name)})")
        if not any(weights):
            raise InputError(
                f"--seed-words: no training document contains a word of topic "
                f"{terminal_safe(topic.name)}; choose other words"
            )
        entries.append(
            SeedEntry(
                topic=k,
                name=topic.name,
                words=topic.words,
                strength=topic.strength,
                weights=weights,
            )
        )
    if unknown:
        more = f" and {len(unknown) - LISTED} more" if len(unknown) > LISTED else ""
        warnings.append(
            f"seed words that no training document has: {', '.join(unknown[:LISTED])}{more}"
        )
    return _constants(every, columns), entries, warnings


def _constants(every: list[tuple[int, int, float]], columns: int) -> Constants:
    words, topics, weights = (np.array([entry[i] for entry in every]) for i in range(3))
    return Constants(words, topics, weights, columns)


def constants_of(
    entries: Sequence[SeedEntry] | None, vocabulary: Vocabulary, columns: int
) -> Constants | None:
    """Build the pseudo-counts that a model's manifest lists, None without any."""
    listed = entries or ()
    every = []
    for entry, ids in zip(listed, find_seed_words(listed, vocabulary), strict=True):
        for i, weight in zip(ids.tolist(), entry.weights, strict=True):
            if i >= 0 and weight > 0:
                every.append((i, entry.topic, weight))
    return _constants(every, columns) if every else None

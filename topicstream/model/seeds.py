"""Seed words: words that people give to topics, in a TOML file.

    strength = 500                                  # of topics without one of their own; optional

    [hockey] words = ["hockey", "nhl", "goalie"]

    [space]
    words = ["nasa", "orbit", "shuttle"]
    strength = 2000

``space = ["nasa", "orbit"]`` is short for a topic with words alone. The first topic of the file is
topic 0 of the model, the next one topic 1, and they carry their names; in labelled LDA each is the
topic of that name. ``strength`` is the pseudo-count of each word in its topic: the prior of word w
in topic k is beta + strength. By default it is the word's count in the training documents, so that
half of the word's weight stays in the topic, whatever the corpus says.
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
    """A manifest's entry of a topic with seed words.

    Attributes
    ----------
    topic
        Number of the topic's column.
    weights
        Pseudo-count of each word; 0 for an unknown one.
    """

    topic: Count
    weights: list[Annotated[float, msgspec.Meta(ge=0, le=1e18)]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.weights) != len(self.words):
            raise ValueError(f"{len(self.weights)} weights for {len(self.words)} words")


def read_seeds(seeds: str | Path | Mapping[str, Any] | Sequence[Any]) -> list[SeedTopic]:
    """Read seed topics from a TOML file, a mapping or a list.

    Parameters
    ----------
    seeds
        Path of a file, a mapping of what such a file holds, or a list of topics: records, or
        mappings of name, words and strength.

    Raises
    ------
    UsageError
        There is no such file.
    InputError
        The seeds are of no such form, or two topics have one name.
    """
    if isinstance(seeds, (str, Path)):
        source = str(seeds)
        seeds = _load_toml(Path(seeds))
    else:
        source = "seed words"
    if isinstance(seeds, Mapping):
        return _check_names(_read_mapping(seeds, source), source)
    topics = []
    for entry in seeds:
        if isinstance(entry, SeedEntry):  # of a model that is updated
            topics.append(SeedTopic(name=entry.name, words=entry.words, strength=entry.strength))
        else:
            topics.append(decode_record(plain(entry), SeedTopic, source, ADVICE, InputError))
    return _check_names(topics, source)


def _load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise InputError in one line."""
    try:
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file; --seed-words needs a TOML file of topics and their words"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from None
    # ValueError: of TOML, of UTF-8, or of a number of thousands of digits
    except (ValueError, RecursionError) as e:
        raise InputError(f"{path}: not TOML ({e}). {ADVICE}") from None


def _read_mapping(mapping: Mapping[str, Any], source: str) -> list[SeedTopic]:
    """Read topics by name, with the strength of all of them."""
    topics = dict(mapping)
    strength = None
    # a topic may be called strength: then it has words
    if not isinstance(topics.get("strength"), (Mapping, list, tuple)):
        strength = topics.pop("strength", None)
    seeds: list[SeedTopic] = []
    for name, entry in topics.items():
        fields = entry if isinstance(entry, Mapping) else {"words": entry}
        record = {"strength": strength, **fields, "name": name}
        place = f"{source}: topic {terminal_safe(name)}"
        seeds.append(decode_record(record, SeedTopic, place, ADVICE, InputError))
    return seeds


def _check_names(topics: list[SeedTopic], source: str) -> list[SeedTopic]:
    """Return the topics if there are any, each with a name of its own."""
    if not topics:
        raise InputError(f"{source}: no topics. {ADVICE}")
    names = [topic.name for topic in topics]
    if len(set(names)) < len(names):
        twice = terminal_safe(max(names, key=names.count))
        raise InputError(f"{source}: topic {twice} occurs twice; join its words")
    return topics


def find_seed_words(topics: Sequence[SeedTopic], vocabulary: Vocabulary) -> list[np.ndarray]:
    """Find the ids of each topic's words, int64, -1 for unknown words.

    Where the vocabulary lacks a word, its lower-case form counts. A word that is found twice in a
    topic counts once.
    """
    ids_by_topic = []
    for topic in topics:
        ids = vocabulary.find(list(topic.words))
        lower_ids = vocabulary.find([word.lower() for word in topic.words])
        ids = np.where(ids < 0, lower_ids, ids)
        _, first = np.unique(ids, return_index=True)
        repeated = np.ones(len(ids), bool)
        repeated[first] = False
        ids[repeated & (ids >= 0)] = -1
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

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word.
    columns
        Number of topics of the model.
    named
        Topic by name, where topics have names of their own.

    Returns
    -------
    tuple
        Constants of a table of ``columns`` topics, an entry for each topic of ``topics``, and lines
        for the user.

    Raises
    ------
    UsageError
        There are more seed topics than topics.
    InputError
        No topic has the name of a seed topic, or no word of a topic is known.
    """
    if named is None:
        if len(topics) > columns:
            raise UsageError(
                f"--seed-words has {len(topics)} topics, the model {columns}; use -K "
                f"{len(topics)} or more"
            )
        named = {topic.name: k for k, topic in enumerate(topics)}
    for topic in topics:
        if topic.name not in named:
            raise _unknown_label(topic.name, list(named))
    entries = list[SeedEntry]()
    warnings = list[str]()
    unknown = list[str]()
    triples: list[tuple[int, int, float]] = []
    for topic, ids in zip(topics, find_seed_words(topics, vocabulary), strict=True):
        k = named[topic.name]
        weights = list[float]()
        for word, i in zip(topic.words, ids.tolist(), strict=True):
            weight = 0.0
            if i >= 0:
                weight = float(n_w[i]) if topic.strength is None else topic.strength
            weights.append(weight)
            if weight > 0:
                triples.append((i, k, weight))
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
    return _constants(triples, columns), entries, warnings


def _unknown_label(name: str, labels: list[str]) -> InputError:
    """Make the error of a seed topic that no topic of the model is called like."""
    near = difflib.get_close_matches(name, labels, 1)
    hint = "names are spelt as in the documents"
    if near:
        hint = f"did you mean {terminal_safe(near[0])}?"
    return InputError(f"--seed-words: no label is called {terminal_safe(name)}; {hint}")


def _constants(triples: list[tuple[int, int, float]], columns: int) -> Constants:
    """Build constants from triples of word, topic and weight."""
    words, topics, weights = zip(*triples, strict=True)
    return Constants(np.array(words), np.array(topics), np.array(weights), columns)


def constants_of(
    entries: Sequence[SeedEntry] | None, vocabulary: Vocabulary, columns: int
) -> Constants | None:
    """Build the pseudo-counts that a model's manifest lists, None without any."""
    listed = entries or ()
    triples = []
    for entry, ids in zip(listed, find_seed_words(listed, vocabulary), strict=True):
        for i, weight in zip(ids.tolist(), entry.weights, strict=True):
            if i >= 0 and weight > 0:
                triples.append((i, entry.topic, weight))
    return _constants(triples, columns) if triples else None

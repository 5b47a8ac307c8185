"""Seed words: topics that are told some of their words, in a file that people write.

    strength = 500                                  # of topics that say none themselves; may be left out

    [hockey]
    words = ["hockey", "nhl", "goalie"]

    [space]
    words = ["nasa", "orbit", "shuttle"]
    strength = 2000

``space = ["nasa", "orbit"]`` is short for a topic with words alone.  The first topic of the file is topic 0 of the model,
the next one topic 1, and they carry their names; where topics are labels, each is the label of that name.  ``strength`` is how many tokens of each of the words the topic is taken
to have beside those it gets (pseudo-counts: the prior of word w in topic k is beta + strength); left out, as many as the
word has in the training documents, so that whatever the corpus says of it, half of its weight stays in its topic.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import InputError, StoreError, UsageError, shown
from topicstream.kernels.constants import Constants
from topicstream.model.vocabulary import Vocabulary

MOST_BYTES = 1 << 26
STRONGEST = 1e9
LONGEST = 200
TOLD = 10


@dataclass(frozen=True)
class SeedTopic:
    """A topic and its words; strength: pseudo-counts of each, None: as many as the word has in the training documents."""

    name: str
    words: tuple[str, ...]
    strength: float | None = None


def read_seeds(given: str | Path | Mapping[str, Any] | Sequence[Any]) -> list[SeedTopic]:
    """Seed topics from a file, from a mapping of what such a file holds, or as a model has them (a list of name, words and
    strength).  InputError, one line, for what cannot be meant."""
    if isinstance(given, Mapping):
        return _of_mapping(given, "seed words")
    if isinstance(given, (str, Path)):
        return _of_mapping(_load(Path(given)), str(given))
    found = []
    for entry in given:
        if isinstance(entry, SeedTopic):
            entry = asdict(entry)
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError("seed words: a list of topics needs a name, words and perhaps a strength for each")
        found.append(
            _topic(
                entry["name"],
                {k: entry[k] for k in ("words", "strength") if entry.get(k) is not None},
                None,
                "seed words",
            )
        )
    return _checked(found, "seed words")


def _load(path: Path) -> dict[str, Any]:
    import tomllib  # here: most commands read none

    try:
        if not path.is_file():
            raise UsageError(f"{path}: no such file; --seed-words names a TOML file of topics and their words")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes, more than a list of seed words can have")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from None
    except (ValueError, RecursionError) as e:  # of TOML, of UTF-8, of a number of thousands of digits
        raise InputError(f'{path}: not TOML ({e}); write [name] and words = ["one", "two"] for each topic') from None


def _of_mapping(value: Mapping[str, Any], where: str) -> list[SeedTopic]:
    every, found = None, []
    for name, entry in value.items():
        if name == "strength" and not isinstance(entry, (Mapping, list, tuple)):
            every = _strength(entry, where, "")
    for name, entry in value.items():
        if isinstance(entry, (list, tuple)):
            entry = {"words": list(entry)}
        if isinstance(entry, Mapping):
            found.append(_topic(name, entry, every, where))
        elif name != "strength":
            raise InputError(
                f'{where}: {shown(name)}: neither a topic nor a setting; write [{shown(name)}] and words = ["one", "two"]'
            )
    return _checked(found, where)


def _topic(name: str, entry: Mapping[str, Any], every: float | None, where: str) -> SeedTopic:
    label, words = shown(name), entry.get("words")
    if not name.strip() or len(name) > LONGEST:
        raise InputError(f"{where}: a topic's name has 1 to {LONGEST} characters, not {len(name)}")
    if unknown := [k for k in entry if k not in ("words", "strength")]:
        raise InputError(f"{where}: topic {label} has no setting {shown(unknown[0])}; it has words and strength")
    if not isinstance(words, (list, tuple)) or not words or not all(isinstance(w, str) and w for w in words):
        raise InputError(f'{where}: topic {label} needs a list of words, as in words = ["one", "two"]')
    twice = {w for w in words if list(words).count(w) > 1} if len(set(words)) < len(words) else set()
    if twice:
        raise InputError(f"{where}: topic {label} names {shown(min(twice))} twice; leave one out")
    strength = entry.get("strength")
    return SeedTopic(name, tuple(words), every if strength is None else _strength(strength, where, f"topic {label}: "))


def _strength(value: Any, where: str, topic: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= STRONGEST:
        raise InputError(
            f"{where}: {topic}strength is a number of tokens above 0 and at most {STRONGEST:.0e}, not {shown(value)}"
        )
    return float(value)


def _checked(found: list[SeedTopic], where: str) -> list[SeedTopic]:
    if not found:
        raise InputError(f'{where}: no topics; write [name] and words = ["one", "two"] for each')
    names = [t.name for t in found]
    if len(set(names)) < len(names):
        raise InputError(f"{where}: topic {shown(next(n for n in names if names.count(n) > 1))} is there twice")
    return found


def plain(topics: Sequence[SeedTopic]) -> list[dict[str, Any]]:
    """As JSON values."""
    return [{"name": t.name, "words": list(t.words), "strength": t.strength} for t in topics]


def look_up(topics: Sequence[SeedTopic], vocabulary: Vocabulary) -> list[np.ndarray]:
    """Ids of each topic's words, int64, -1 where the vocabulary has neither a word nor its small letters; a word that is
    found twice in a topic counts once."""
    found = []
    for topic in topics:
        ids = vocabulary.find(list(topic.words))
        small = vocabulary.find([w.lower() for w in topic.words])
        ids = np.where(ids < 0, small, ids)
        _, first = np.unique(ids, return_index=True)
        again = np.ones(len(ids), bool)
        again[first] = False
        ids[again & (ids >= 0)] = -1
        found.append(ids)
    return found


def resolve(
    topics: Sequence[SeedTopic],
    vocabulary: Vocabulary,
    n_w: np.ndarray,
    columns: int,
    named: Mapping[str, int] | None = None,
) -> tuple[Constants, list[dict[str, Any]], list[str]]:
    """Constants of a table of ``columns`` topics, the entry of a model's manifest, and what is to be told.

    n_w: float64[W], training tokens of each word; named: name -> topic, where topics have names of their own (labels).
    UsageError where there are more seed topics than topics; InputError for a topic none of whose words is known.
    """
    if named is None:
        if len(topics) > columns:
            raise UsageError(
                f"--seed-words has {len(topics)} topics, the model {columns}; use -K {len(topics)} or more"
            )
        named = {topic.name: k for k, topic in enumerate(topics)}
    if other := [t.name for t in topics if t.name not in named]:
        near = difflib.get_close_matches(other[0], list(named), 1)
        hint = f"did you mean {shown(near[0])}?" if near else "names are spelt as in the documents"
        raise InputError(f"--seed-words: no label is called {shown(other[0])}; {hint}")
    entries, told, unknown = [], [], []
    every: list[tuple[int, int, float]] = []
    for topic, ids in zip(topics, look_up(topics, vocabulary), strict=True):
        k, weights = named[topic.name], list[float]()
        for word, i in zip(topic.words, ids.tolist(), strict=True):
            weight = 0.0 if i < 0 else float(n_w[i]) if topic.strength is None else topic.strength
            weights.append(weight)
            if weight > 0:
                every.append((i, k, weight))
            else:
                unknown.append(f"{shown(word)} ({shown(topic.name)})")
        if not any(weights):
            raise InputError(
                f"--seed-words: no training document has a word of topic {shown(topic.name)}; give it others"
            )
        entries.append({"topic": k, **plain([topic])[0], "weights": weights})
    if unknown:
        more = f" and {len(unknown) - TOLD} more" if len(unknown) > TOLD else ""
        told.append(f"seed words that no training document has: {', '.join(unknown[:TOLD])}{more}")
    return _constants(every, columns), entries, told


def _constants(every: list[tuple[int, int, float]], columns: int) -> Constants:
    words, topics, weights = (np.array([entry[i] for entry in every]) for i in range(3))
    return Constants(words, topics, weights, columns)


def of_manifest(manifest: Mapping[str, Any], vocabulary: Vocabulary, columns: int, where: object) -> Constants | None:
    """What a model's manifest says of its seed words; StoreError where that cannot be."""
    entries = manifest.get("seed_words")
    if entries is None:
        return None
    try:
        topics, numbers = read_seeds(list(entries)), [entry["topic"] for entry in entries]
        weights = [[float(w) for w in entry["weights"]] for entry in entries]
        sound = len(set(numbers)) == len(topics) and all(isinstance(k, int) and 0 <= k < columns for k in numbers)
        sound = sound and all(len(w) == len(t.words) for w, t in zip(weights, topics, strict=True))
        sound = sound and all(0 <= w <= 1e18 and math.isfinite(w) for of in weights for w in of)
    except (InputError, KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise StoreError(f"{where}: seed words that cannot be; the file is damaged, restore it")
    every = [
        (i, k, w)
        for k, ids, of in zip(numbers, look_up(topics, vocabulary), weights, strict=True)
        for i, w in zip(ids.tolist(), of, strict=True)
        if i >= 0 and w > 0
    ]
    return _constants(every, columns) if every else None


def labels_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Topic (by column, as text: a JSON key) -> name."""
    return {str(entry["topic"]): str(entry["name"]) for entry in entries}

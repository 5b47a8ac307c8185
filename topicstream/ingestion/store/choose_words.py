"""The vocabulary of a store, chosen from the counts of its training documents."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.errors import NothingKept, UsageError
from topicstream.base.progress import Progress
from topicstream.base.records import Json, plain
from topicstream.base.relations import Relations
from topicstream.base.text import payload_of
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.config import IngestConfig, Place
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.plan import IngestPlan
from topicstream.ingestion.settings import recipe_of, word_limits
from topicstream.ingestion.store.blocks import words_of_training
from topicstream.ingestion.store.decide import TRAIN, Decision
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import find_missed_language, listed_words
from topicstream.ingestion.tokens.tools import named_tools
from topicstream.ingestion.tokens.vocabulary import (
    TokenVocabulary,
    are_counted_words,
    read_drop_words,
    stream_pruned,
)
from topicstream.ingestion.tokens.word_counts import (
    ChosenWords,
    WordCounts,
    WordLimits,
    ask_for_words,
)
from topicstream.ingestion.tokens.word_lists import (
    LISTED,
    WordList,
    describe_replaced,
    describe_stop_words,
)
from topicstream.ingestion.upkeep.rewrite import Removal


class WordChoice:
    """The choice of a store's words.

    Parameters
    ----------
    base
        The store that is appended to, or None for a new one.
    options
        The lists of words and limits.
    working, plan, removal, progress
        Working folder, plan, removed documents and progress listener of the ingest.
    width
        Numbers of a dense row, all of which stay; 0: documents.

    Attributes
    ----------
    language
        The language whose stop words the vocabulary still has, if any; for the summary.
    """

    def __init__(
        self,
        base: Corpus | None,
        options: IngestConfig,
        working: WorkingFolder,
        plan: IngestPlan,
        removal: Removal,
        width: int,
        progress: Progress,
    ) -> None:
        self._base = base
        self._options = options
        self._recipe = recipe_of(options)
        self._text = working.state.text
        self._working = working
        self._plan = plan
        self._removal = removal
        self._width = width
        self._progress = progress
        self._lists: dict[str, dict[str, Json]] = {}
        self.language: dict[str, Any] | None = None
        if width and (options.vocab or options.drop_words or options.drop_top):
            raise UsageError(
                f"--vocab, --drop-words and --drop-top choose words, but these documents are "
                f"{payload_of(width)}; leave them out"
            )

    def choose(
        self, decision: Decision, relations: Relations, vocabulary_path: Path, pruned_path: Path
    ) -> tuple[ChosenWords, dict[str, Json]]:
        """Choose the words, and write the vocabulary and the words left out.

        Parameters
        ----------
        decision
            The parts that documents belong to.
        relations
            Query engine without tables.
        vocabulary_path, pruned_path
            Files of the words chosen and left out.

        Returns
        -------
        chosen, record
            Figures of the words, and the manifest's record of the choice.

        Raises
        ------
        NothingKept
            If there is no training document, or no word.
        """
        options = self._options
        old = {} if self._base is None else self._base.manifest.vocabulary
        fixed = self._fixed_words()
        dropped = set(old.get("dropped", []))
        documents = decision.documents(TRAIN) + self._removal.training
        if self._base is None and not documents:
            raise NothingKept(self._why_no_documents())
        self._progress.step("choosing the vocabulary")
        counts = self._count(decision, relations)
        if fixed is not None and self._base is None:
            fixed = self._as_counted(fixed, counts)
        if options.drop_words is not None:
            stored = fixed or TokenVocabulary.from_words([])
            dropped |= self._words_to_drop(options.drop_words, counts, stored)
        if self._width:  # every coordinate of dense rows stays
            limits = WordLimits(min_count=0)
        else:
            limits = word_limits(options, documents, self._text)
        choice = counts.choose(
            limits,
            documents=documents,
            fixed=fixed,
            grow=options.grow_vocab,
            dropped=dropped,
            drop_top=options.drop_top,
            room=self._plan.words,
        )
        counts.save_chosen(vocabulary_path)
        counts.save_pruned(pruned_path)
        if self._base is None and self._text:
            self.language = find_missed_language(
                relations, choice.tokens, self._recipe.stopwords_from
            )
        if self._base is None and not self._width and choice.pruned == choice.distinct:
            raise NothingKept(self._why_no_words())
        dropped |= set(choice.top)
        record: dict[str, Json] = dict(plain(limits))
        drop_top = old.get("drop_top", options.drop_top)
        if drop_top:
            record["drop_top"] = drop_top
        if dropped:
            record["dropped"] = sorted(dropped)
        record["training_documents"] = documents
        record["fixed"] = old.get("fixed", options.vocab and os.path.basename(options.vocab))
        return choice, record

    def describe_lists(self) -> dict[str, Json]:
        """Say for the summary how the words of the user's lists occur in the corpus."""
        if self._base is None and self._text:
            recipe = self._recipe
            our_lists = chain.from_iterable(map(listed_words, recipe.stopwords_from.split("+")))
            lists = {
                "stopwords": describe_stop_words(recipe, set(our_lists)),
                "replace": describe_replaced(recipe),
            }
            for name, description in lists.items():
                if description["parted"] or description["unusable"]:
                    self._lists[name] = description
        return {"word_lists": self._lists} if self._lists else {}

    def _fixed_words(self) -> TokenVocabulary | None:
        """Return the words of the store, or those of --vocab."""
        if self._base is not None:
            return self._removal.subtract(TokenVocabulary.read(self._base.file("vocab")))
        if self._options.vocab is None:
            return None
        return TokenVocabulary.from_file(
            self._options.vocab,
            lambda n: ask_for_words(n, self._plan.words),
            self._options.encoding,
        )

    def _count(self, decision: Decision, relations: Relations) -> WordCounts:
        """Count the words of the training documents.

        Words that the store left out keep their counts: 4 occurrences then and 4 now make 8.
        """
        counts = WordCounts(relations)
        for words in words_of_training(self._working, decision):
            counts.add(words)
        if self._base is not None:
            for words in stream_pruned(self._base.file("pruned")):
                counts.add(words)
        return counts

    def _as_counted(self, listed: TokenVocabulary, counts: WordCounts) -> TokenVocabulary:
        """Return the words of --vocab as the text counts them, and note which ones occur."""
        recipe = self._list_recipe(str(self._options.vocab))
        matched = WordList.tokenize(listed.words, recipe, self._tools).as_in_corpus(counts.occur)
        self._lists["vocab"] = matched.summary()
        words = matched.words.unique()
        return listed if words.equals(listed.words) else TokenVocabulary.from_words(words)

    def _words_to_drop(self, path: Place, counts: WordCounts, stored: TokenVocabulary) -> set[str]:
        """Return the words of --drop-words as the text counts them, and note which ones occur."""
        entries = pa.array(sorted(read_drop_words(path, self._options.encoding)), pa.large_string())
        listed = WordList.tokenize(entries, self._list_recipe(path), self._tools)

        def occur(words: pa.Array) -> np.ndarray:
            """Mark the words that the new documents or the store have."""
            in_text = counts.occur(words)
            return in_text if self._base is None else in_text | (stored.lookup(words) >= 0)

        matched = listed.as_in_corpus(occur)
        self._lists["drop_words"] = matched.summary()
        if self._base is not None:  # the words of a store stay
            in_store = pa.array(stored.lookup(matched.words) >= 0)
            staying = matched.words.filter(in_store).unique()
            self._lists["drop_words"]["kept"] = staying.slice(0, LISTED).to_pylist()
        return set(matched.words.to_pylist())

    def _list_recipe(self, path: Place) -> Recipe | None:
        """Return the recipe that makes words of the corpus from those of a list.

        It is None if the list has words of the corpus already.
        """
        return self._recipe if self._text and not are_counted_words(path) else None

    @property
    def _tools(self) -> tuple[str, ...]:
        """Return the lemmatizer and segmenter that the command names."""
        return named_tools(self._options)

    def _why_no_documents(self) -> str:
        """Explain that no training document was read."""
        first = self._working.first_reject()
        rejected = f", the first was rejected: {first}" if first else ""
        return f"{self._options.out}: no training documents were read{rejected}; nothing was stored"

    def _why_no_words(self) -> str:
        """Explain that no word of the vocabulary occurs."""
        options = self._options
        if self._text or options.vocab is None:
            return (
                f"{options.out}: none of the words of --vocab occurs in the documents; nothing "
                f"was stored"
            )
        reason = "their words are only numbers"
        if options.words is not None:
            reason = f"their words are those of {options.words}"
        return (
            f"{options.out}: none of the words of --vocab {options.vocab} occurs in these counts "
            f"({reason}); nothing was stored.  The file that names the words of a bag-of-words "
            f"file, a line for each, is given as --words"
        )

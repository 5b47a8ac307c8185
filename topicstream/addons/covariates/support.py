"""The number of documents that the coefficients of a formula compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from topicstream.addons.covariates.influence import FEW
from topicstream.model.formula import Covariate, Design, Factor, Term

OTHER = 1
"""Code of a number that is not the most frequent one; that one has code 0."""


class Support:
    """Counts of documents by cell of the covariates.

    A cell is a level of a category, or all numbers but the most frequent one, or a combination of
    these: red documents are compared with blue ones; a number that is 0 in most documents says
    something where it is not 0. Parts of one document count once.
    """

    def __init__(self, design: Design) -> None:
        self._design = design
        self._covariates = {c.column: c for c in design.covariates.values()}
        self._modes = {
            column: max(covariate.counts, key=lambda value: covariate.counts[value])
            for column, covariate in self._covariates.items()
        }
        combined: list[tuple[str, ...]] = [(column,) for column in self._covariates]
        combined += [_columns_of(term) for term in design.terms]
        self._counts = {
            columns: np.zeros(
                [len(c.levels) or OTHER + 1 for c in self._find_covariates(columns)], np.int64
            )
            for columns in combined
        }
        self._last = ""
        self._last_cells = {columns: np.zeros(0, np.int64) for columns in combined}

    def _find_covariates(self, columns: Sequence[str]) -> list[Covariate]:
        """Return the covariates of some columns."""
        return [self._covariates[column] for column in columns]

    def add(self, values: Mapping[str, Sequence[str]], wholes: Sequence[str]) -> None:
        """Count documents.

        Parameters
        ----------
        values
            Of the covariates, by column.
        wholes
            Names of what the documents are parts of, or their own, one after the other.
        """
        names = np.array([self._last, *wholes], object)
        numbers = np.cumsum(names[1:] != names[:-1])
        self._last = names[-1]
        codes = {column: self._code_values(column, values[column]) for column in self._covariates}
        for columns, counts in self._counts.items():
            cells = np.ravel_multi_index([codes[column] for column in columns], counts.shape)
            # number 0 goes on with the last document, whose cells are counted
            before = self._last_cells[columns]
            pairs = np.union1d(numbers * counts.size + cells, before)
            fresh = np.setdiff1d(pairs, before) % counts.size
            counts += np.bincount(fresh, minlength=counts.size).reshape(counts.shape)
            of_last = pairs // counts.size == numbers[-1]
            self._last_cells[columns] = pairs[of_last] % counts.size

    def _code_values(self, column: str, values: Sequence[str]) -> np.ndarray:
        """Code values as places of levels, or a number by whether it is the most frequent."""
        levels = self._covariates[column].levels
        if not levels:
            mode = self._modes[column]
            return np.array([value != mode for value in values], np.int64)
        places = {level: place for place, level in enumerate(levels)}
        return np.array([places[value] for value in values], np.int64)

    def reasons(self) -> list[str | None]:
        """Explain for each column of the design why it has no interval, else None."""
        reasons = [self._fewest({c.column: [0] for c in self._covariates.values() if c.levels})]
        for term in self._design.terms:
            for places in product(*(self._places(factor) for factor in term)):
                compared: dict[str, list[int]] = {}
                for factor, place in zip(term, places, strict=True):
                    is_number = not self._covariates[factor.column].levels
                    compared[factor.column] = [OTHER] if is_number else [place, 0]
                reasons.append(self._smallest(compared))
        return reasons

    def _places(self, factor: Factor) -> list[int]:
        """Return the level of each of a factor's columns of the design, in order."""
        covariate = self._design.covariates[factor]
        return [1 + i if covariate.levels else OTHER for i in range(len(covariate.names()))]

    def _fewest(self, compared: Mapping[str, list[int]]) -> str | None:
        """Explain by the smallest level of several columns, each by itself."""
        reasons = (self._smallest({column: places}) for column, places in compared.items())
        return next((reason for reason in reasons if reason), None)

    def _smallest(self, compared: Mapping[str, list[int]]) -> str | None:
        """Explain by the smallest cell of the compared levels, if it has too few documents."""
        columns = tuple(compared)
        counts = self._counts[columns]
        number, cell = min((int(counts[cell]), cell) for cell in product(*compared.values()))
        if number >= FEW:
            return None
        names = (
            self._name_level(column, place) for column, place in zip(columns, cell, strict=True)
        )
        return f"too few documents: {number} ({', '.join(names)})"

    def _name_level(self, column: str, place: int) -> str:
        """Name a level, or all numbers but the most frequent one."""
        levels = self._covariates[column].levels
        return f"{column}={levels[place]}" if levels else f"{column} not {self._modes[column]}"

    def reason(self, fixed: Mapping[str, str | float]) -> str | None:
        """Explain why a prediction at some levels has no interval, else None."""
        compared = {
            column: [self._covariates[column].levels.index(str(value))]
            for column, value in fixed.items()
            if self._covariates[column].levels
        }
        return self._fewest(compared)


def _columns_of(term: Term) -> tuple[str, ...]:
    """Return the distinct columns of a term."""
    return tuple(dict.fromkeys(factor.column for factor in term))

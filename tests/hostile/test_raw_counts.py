"""Files of counts (UCI, Matrix Market, LDA-C, SVMlight), mutated: they are read, or refused in one
line.
"""

from __future__ import annotations

import pytest

from tests.hostile.mutations import check_mutations

CELLS = b"1 1 2\n1 3 1\n2 2 70000\n2 5 1\n3 1 1\n4 4 3\n4 5 9\n"
MTX = b"%%MatrixMarket matrix coordinate integer general\n% made\n4 5 7\n" + CELLS
SVM = b"1 1:2 3:1 # doc\n-1 2:7 5:1\n0 qid:3 1:4\n"
KINDS = {  # file, seeds, words of the format, options
    "docword": (
        "docword.txt",
        [b"4\n5\n7\n" + CELLS],
        [b"\n0 0 0\n", b"1 1 1\n"],
        {"format": "docword"},
    ),
    "mtx": (
        "f.mtx",
        [MTX, MTX.replace(b"integer", b"real")],
        [b"pattern", b"real", b"symmetric", b"array"],
        {"format": "mtx"},
    ),
    "ldac": (
        "f.ldac",
        [b"2 0:2 2:1\n2 1:7 4:1\n0\n1 0:1\n"],
        [b"1 0:1\n", b":"],
        {"format": "ldac"},
    ),
    "svmlight": ("f.svm", [SVM], [b"qid:1", b"#", b"1:1e400"], {"format": "svmlight"}),
    "weighted": (
        "f.svm",
        [SVM.replace(b"1:4", b"1:0.5")],
        [b"1:1e400"],
        {"format": "svmlight", "weighted": True},
    ),
}


@pytest.mark.quick("svmlight", "docword")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_counts(tmp_path, kind):
    file, seeds, words, options = KINDS[kind]
    (tmp_path / "words.txt").write_text("alpha\nbeta\ngamma\ndelta\nepsilon\n")
    options = {**options, "words": str(tmp_path / "words.txt")}
    check_mutations(tmp_path / file, seeds, words, options)

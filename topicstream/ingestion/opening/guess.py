"""Which format a file is in, from its name and its first bytes."""

from __future__ import annotations

import re

from topicstream import plugins
from topicstream.errors import InputError
from topicstream.ingestion.opening.names import conversion
from topicstream.ingestion.opening.source import HEAD_BYTES, Source, plain_suffix
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.read_options import ReadOptions

BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".mtx": "mtx",
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".mallet": "mallet",
    ".ldac": "ldac",
    ".lda-c": "ldac",
    ".tar": "tar",
}
COUNTS = ("docword", "ldac", "mtx", "npy", "npz", "svmlight", "images", "vectors")
VOCAB_NAME = re.compile(
    r"^((vocab|vocabulary|words|terms|features)([._-].*)?|.*[._-](vocab|vocabulary|words))(\.(txt|tsv|dat))?$"
)
TEXT_SUFFIXES = ("", ".txt", ".text", ".md", ".rst")
_LDAC = re.compile(rb"^(\d{1,9})((?: +\d+:\d+)*)\s*$")
_SVM = re.compile(rb"^[-+]?[\w.,+-]*(?: +(?:qid|\d+):[-+.\deE]+)+\s*(?:#.*)?$")


def is_vocab_name(name: str) -> bool:
    """True for the usual names of a vocabulary file: vocab.txt, vocab.kos.txt, ap.vocab, words.txt …"""
    stem = re.sub(r"\.(gz|bz2|xz|zst)$", "", name.lower())
    return bool(VOCAB_NAME.match(stem))


def guess_content(head: bytes) -> str | None:
    """The format that the first bytes show, None when they could be any text; ``binary`` for what is no text."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[257:262] == b"ustar":
        return "tar"
    if head.startswith(b"%%MatrixMarket"):
        return "mtx"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    start = head.lstrip()
    if start.startswith(b"<"):
        if re.search(rb"<(PubmedArticleSet|MedlineCitationSet|PubmedArticle|MedlineCitation)[\s/>]", head):
            return "pubmed"
        return "xml" if start.startswith((b"<?xml", b"<!DOCTYPE")) else None
    if re.match(rb'\{\s*("|\}|$)', start):
        return "jsonl"
    if re.match(rb"\[\s*\{", start):
        return "json array"
    if b"\0" in head:
        return "binary"
    lines = head.split(b"\n")
    whole = lines[:-1] if len(head) >= HEAD_BYTES or not lines[-1].strip() else lines
    sizes = len(whole) >= 3 and all(re.match(rb"^\s*\d+\s*$", x) for x in whole[:3])
    triples = [bool(re.match(rb"^\s*\d+\s+\d+\s+-?\d+\s*$", x)) for x in whole[3:20] if x.strip()]
    # a header with negative sizes is one too, and its reader says what is wrong with it
    if (sizes or (triples and all(re.match(rb"^\s*-?\d+\s*$", x) for x in whole[:3]))) and all(triples):
        return "docword"
    filled = [x for x in whole[:50] if x.strip()]
    if filled and all(map(_is_ldac, filled)) and any(b":" in x for x in filled):
        return "ldac"
    if filled and all(_SVM.match(x) for x in filled if not x.startswith(b"#")) and not filled[0].startswith(b"#"):
        return "svmlight"
    return None


def _is_ldac(line: bytes) -> bool:
    found = _LDAC.match(line)
    return bool(found) and int(found[1]) == found[2].count(b":")  # type: ignore[index]


def guess(name: str, head: bytes, *, in_folder: bool) -> str:
    """A reader's name.  Text without a format of its own is ``files`` (one document) in a folder, ``lines`` else.

    InputError that names ``--format`` when neither name nor content tell.
    """
    suffix = plain_suffix(name)
    content = guess_content(head)
    if content in ("parquet", "mtx", "npy", "pubmed", "tar"):
        return content
    if (told := conversion(name, head)) is not None:
        raise BadFile(name, 0, told)
    if content == "json array":
        raise BadFile(name, 1, "a JSON array, not JSON lines; write one object a line (jq -c '.[]')")
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    if suffix not in TEXT_SUFFIXES:
        for other, reader in plugins.loaded(plugins.READERS):
            if suffix in getattr(reader, "suffixes", ()):
                return other
    if content == "binary":
        raise BadFile(name, 0, "not text (it holds zero bytes); give --format or --encoding if it is")
    if content in ("jsonl", "docword", "ldac", "svmlight"):
        return content
    if content == "xml" or suffix == ".xml":
        raise BadFile(name, 1, "XML that is neither PubmedArticleSet nor MedlineCitationSet; convert it to JSON lines")
    if in_folder and suffix in (*TEXT_SUFFIXES, ".dat", ".html", ".htm", ".log"):
        return "files"
    if suffix in (".txt", ".text", ".lines"):
        return "lines"
    if in_folder:
        return "files"
    raise InputError(f"{name}: cannot tell its format; give --format (lines for one document a line, csv, jsonl …)")


def as_asked(found: str, options: ReadOptions) -> str:
    """A format that was told from the input, as the options want it read."""
    return "vectors" if found == "parquet" and options.vector_field else found


def guess_source(source: Source, *, in_folder: bool) -> str:
    """``guess`` on an input; the bytes looked at are read again later."""
    return guess(source.name, source.head(), in_folder=in_folder)

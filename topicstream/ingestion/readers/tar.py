"""A tar archive of text files, compressed or not: one document a member, its id the member's name.

Members are read from the stream and never written to disk; links, devices and hidden files are passed over.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from topicstream.ingestion.opening.source import Source, printable, to_utf8
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Reject, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.files import MOST_FILES, documents_of_files
from topicstream.tokens.documents import TextRun


class Tar:
    name = "tar"
    kind = "text"
    about = "a tar archive of text files, one document a file"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        group: list[tuple[str, bytes]] = []
        size = record = 0
        rejects: tuple[Reject, ...] = ()
        try:
            with tarfile.open(fileobj=source.stored_stream(), mode="r|") as archive:
                for member in archive:
                    name = printable(member.name.removeprefix("./"))
                    parts = name.split("/")
                    if not member.isfile() or any(p.startswith(".") and p != ".." for p in parts):
                        continue
                    where = f"{source.name}/{name}"
                    if name.startswith("/") or ".." in parts:
                        rejects += (Reject(where, 0, "a name that leads out of the archive", b""),)
                        continue
                    if member.size > options.record_bytes:
                        reason = f"a document of more than {options.record_bytes >> 20} MiB; raise the limit"
                        rejects += (Reject(where, 0, reason, b""),)
                        continue
                    if group and (size + member.size > options.piece_bytes or len(group) == MOST_FILES):
                        yield Piece(source.name, source.key, group, 0, record, None, rejects, size)
                        record += len(group)
                        group, size, rejects = [], 0, ()
                    content = archive.extractfile(member)
                    data = content.read() if content else b""
                    if len(data) < member.size:
                        raise tarfile.ReadError("unexpected end of data")
                    group.append((name, data))
                    size += member.size
        except (tarfile.TarError, EOFError) as e:
            yield Piece(source.name, source.key, group, 0, record, None, rejects, size)
            raise BadFile(source.name, 0, f"the archive is damaged or truncated ({e}); get it again") from None
        if group or rejects:
            yield Piece(source.name, source.key, group, 0, record, None, rejects, size)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        keys = [name for name, _ in piece.data]
        texts = [to_utf8(data, options.encoding) for _, data in piece.data]
        names, sources = ([f"{where}/{key}" for key in keys] for where in (piece.name, piece.key))
        return documents_of_files(names, keys, sources, texts, rejects, guess=options.encoding is None), rejects


READER = Tar()

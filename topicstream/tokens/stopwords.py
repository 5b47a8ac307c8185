"""English function words: articles, pronouns, prepositions, conjunctions, auxiliaries, and the halves that an apostrophe
leaves behind (the tokenizer splits ``don't`` into ``don`` and ``t``).

Grouped by what they are, so that a reader can see why a word is in the list.  Words that carry a subject (``system``,
``company``, ``found``) are left in: a topic model sets them aside better than a list does.
"""

from __future__ import annotations

from pathlib import Path

from topicstream.errors import InputError

_ARTICLES = "a an the this that these those such same other others another each every either neither both all any some"
_AMOUNTS = """no none nor not only own few fewer less least more most much many several enough lot lots one ones two
first second next last half rather quite very too so just even also still yet almost nearly else"""
_PERSONS = """i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her
hers herself it its itself they them their theirs themselves who whom whose which what whatever whichever whoever someone
somebody something anyone anybody anything everyone everybody everything nobody nothing"""
_PLACES = """about above across after against along among amongst around at before behind below beneath beside besides
between beyond by down during except for from in inside into like near of off on onto out outside over past per since than
through throughout till to toward towards under underneath until unto up upon via with within without apart away
back forth here there where wherever everywhere somewhere anywhere nowhere hence thence whence thereby therein thereof
whereby wherein herein hereby"""
_JOINTS = """and or but if because as while whereas although though unless whether when whenever then thus therefore
however moreover furthermore nevertheless nonetheless otherwise instead meanwhile indeed again once ever never always
often sometimes usually already perhaps maybe why how now soon later ago"""
_AUXILIARIES = """am is are was were be been being do does did doing done have has had having can could may might must
shall should will would ought need let lets get gets got getting goes go going gone went make makes made making become
becomes became seem seems seemed cannot"""
_LIGHT = """say says said see seen saw come comes came take takes took taken give gives gave given put use used uses using
know known called etc eg ie vs yes ok"""
_HALVES = """aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn re shan shouldn ve wasn weren wouldn
ain"""

ENGLISH: tuple[str, ...] = tuple(
    sorted(
        set(
            " ".join(
                (_ARTICLES, _AMOUNTS, _PERSONS, _PLACES, _JOINTS, _AUXILIARIES, _LIGHT, _HALVES, "s t d m")
            ).split()
        )
    )
)


def read_stopwords(choice: str) -> tuple[str, tuple[str, ...]]:
    """(name, words) of ``english``, ``none`` or a UTF-8 file with words parted by white space, ``#`` opening a comment
    line.  InputError when the file cannot be read."""
    if choice == "english":
        return "english", ENGLISH
    if choice == "none":
        return "none", ()
    try:
        lines = Path(choice).read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{choice}: no such file of stop words; give english, none or the path of a file") from None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{choice}: cannot be read as a UTF-8 list of stop words ({e})") from None
    words = {word for line in lines if not line.lstrip().startswith("#") for word in line.split()}
    return "file", tuple(sorted(words))

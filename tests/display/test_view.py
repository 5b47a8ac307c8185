"""A view takes the options that it names, and refuses every other one."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from topicstream.base import plugins
from topicstream.base.errors import UsageError
from topicstream.base.options import flags
from topicstream.display.config import ShowConfig
from topicstream.display.view import HEEDED_BY_ALL, ModelView

OPTIONS = [field for field in fields(ShowConfig) if field.name not in HEEDED_BY_ALL]
VIEWS = sorted(plugins.entries(plugins.VIEWS))


@dataclass(frozen=True)
class Silent(ModelView):
    """A view that names no option."""

    title = "Silent (--silent)"


@dataclass(frozen=True)
class Derived(Silent):
    """A view that derives from it."""


class Naming(Silent, heeds=("words",)):
    """A view that names one."""


class Further(Naming):
    """A view that heeds what its base does."""


@pytest.mark.parametrize("view", [Silent, Derived])
@pytest.mark.parametrize("field", OPTIONS, ids=lambda field: field.name)
def test_a_view_that_names_no_option_refuses_each(view, field):
    with pytest.raises(UsageError, match=f"^{flags(field)[-1]} does not apply to: Silent"):
        view(**{field.name: "other"})


def test_a_view_takes_the_options_it_names():
    assert Naming(words=3).words == Further(words=4).words - 1 == 3
    with pytest.raises(UsageError, match="--docs does not apply"):
        Further(docs=3)
    Silent(model="m", corpus="c", threads=2, mem_limit="1GB")


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_refuses_what_it_does_not_name(name):
    view = plugins.load(plugins.VIEWS, name)
    refused = [field for field in OPTIONS if field.name not in view.heeds]
    assert refused, "no view heeds all options"
    for field in refused:
        with pytest.raises(UsageError, match="does not apply to"):
            view(**{field.name: "other"})


def test_an_option_that_show_does_not_have_cannot_be_named():
    with pytest.raises(TypeError, match="Wrong: heeds 'wrods', which is no option of show"):

        class Wrong(ModelView, heeds=("wrods",)):
            pass

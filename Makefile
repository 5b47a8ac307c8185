# make demo    set up, then ingest, train, score and show topics of Python's own docstrings
# make test    set up, then run the quick tests, which hold each behaviour once; ALL=1: products and slow ones too (every engine by
#              every contract, pairs of options, many seeds, clusters; kills, limits of memory, cold caches, full disks, a browser);
#              byte code is kept, whatever the environment says: else each process compiles the package and the tests once more
# make campaigns  what add-ons repeat at length, by hand before a release (some 20 minutes)
# make bounds  the tests again with every index of a kernel checked (ten minutes more: all kernels are compiled anew)
# make lint    ruff, mypy, and import-linter: who may import whom ([tool.importlinter] in pyproject.toml)
# make docs    build the documentation into build/docs, without a warning
# make package  build wheel and sdist twice (the same bytes), install the wheel without extras into an environment of its own, and
#              run there what README and packaging/plain_install.md show
# make peers   install the programs we compare with into an environment of their own

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .peers

.PHONY: setup demo test campaigns bounds lint docs package peers clean

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("topicstream needs Python 3.11 or later and %s is %d.%d: make PYTHON=python3.11 (or later) setup" % (sys.executable, v[0], v[1]))'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/topics demo demo

test: setup
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal -m '$(if $(ALL),not campaign,not slow)'

campaigns: setup
	$(BIN)/python -m pytest -n auto --maxprocesses 8 -m campaign

bounds: setup
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/bounds $(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy topicstream
	$(BIN)/lint-imports --no-logo --no-cache

$(VENV)/docs-ready: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: $(VENV)/docs-ready
	rm -rf docs/api build/docs  # pages of names that are gone
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

package: setup
	rm -rf build/dist build/again build/clean
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build --outdir build/again . > build/again.log || { cat build/again.log; exit 1; } & again=$$!; \
	$(BIN)/python -m build --outdir build/dist . > build/dist.log || { cat build/dist.log; exit 1; }; wait $$again
	cd build/dist && sha256sum * > ../sums && cd ../again && sha256sum --check --quiet ../sums
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet build/dist/*.whl
	build/clean/bin/python scripts/tools/run_readme.py --installed README.md packaging/plain_install.md

$(PEERS)/ready:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet tomotopy gensim scikit-learn
	-$(PEERS)/bin/python -m pip install --quiet vowpalwabbit bigartm
	touch $@

peers: $(PEERS)/ready

clean:
	rm -rf $(VENV) $(PEERS) demo build *.egg-info

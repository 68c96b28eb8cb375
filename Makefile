# The two commands: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# the versions that the tests ran with, here as in the image
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint docker/constraints.txt

.PHONY: demo test lint bench wheel docs clean

demo: $(VENV)/.installed server
	$(BIN)/freqdp demo

test: $(VENV)/.installed-dev server lint
	$(BIN)/python -m pytest -n 3 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/sql/check_sql.py

# How fast the search and the whole job are here, on a made-up city. Takes minutes.
bench: $(VENV)/.installed server
	$(BIN)/freqdp init
	$(BIN)/freqdp bench search --sizes 200,1000
	$(BIN)/freqdp bench pipeline --sizes 200,500,1000

wheel: | $(BIN)/python
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The documents as a site, in build/site: guide, every command, every SQL function.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m mkdocs build --strict --quiet

# A PostGIS server on this machine: found, or installed where that is allowed.
.PHONY: server
server:
	$(PYTHON) -m freqdp_db.server.provision

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv && $(PYTHON) -m venv --clear $(VENV); }

$(VENV)/.installed: pyproject.toml docker/constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml docker/constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

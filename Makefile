# One virtual environment, made on first use and remade when pyproject.toml changes.
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIBRARY := $(VENV)/.library
DONE := $(VENV)/.installed

.PHONY: demo test test-slow test-floors docs test-pythons lint bench validate chaos clean

demo: $(LIBRARY)
	$(BIN)/gofstream demo --out out/demo.png

test: $(DONE)
	$(BIN)/python -m pytest

# What takes long: whole tutorials, kills, files larger than memory. CI runs both.
test-slow: $(DONE)
	$(BIN)/python -m pytest -m slow

# The oldest versions of all dependencies that pyproject.toml allows.
test-floors:
	.ci/suite $(PY) .venvs/floors lowest-direct

# Every Python from 3.11 on this machine.
test-pythons:
	.ci/pythons

# The site, in docs/_build/html; a warning is an error.
docs: $(DONE)
	rm -rf docs/_build docs/reference/generated
	$(BIN)/sphinx-build -W --keep-going -q -j 2 docs docs/_build/html

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DONE)
	$(BIN)/python -m gofstream_studies.benchmarks

validate: $(DONE)
	$(BIN)/python -m gofstream_studies.validation

chaos: $(DONE)
	$(BIN)/python -m gofstream_studies.chaos
	$(BIN)/python -m gofstream_studies.chaos kills faults --batches 3 --journal DELETE

clean:
	rm -rf $(VENV) .venvs out build dist

# The library alone.
$(LIBRARY): pyproject.toml
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# The library with all that its tests need, and the studies.
$(DONE): $(LIBRARY) studies/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs,parquet,test,test-torch,lint]' \
	    --editable './studies[test]'
	touch $@

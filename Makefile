# Two commands matter: `make lesson` (run the notebooks, print the headline table) and `make test` (check everything).
# Every target sets up .venv itself; once it is there, nothing needs the network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NOTEBOOKS := $(sort $(wildcard notebooks/*.ipynb) $(wildcard notebooks/solutions/*.ipynb))
export RAGFIN_LIVE ?= never

.PHONY: lesson test lint unit notebooks bench corpus book handout llm clean

lesson: $(READY)  ## execute copies of the notebooks in order and print the headline table
	$(BIN)/ragfin lesson

test: lint unit notebooks  ## ruff, mypy, pytest with doctests and hypothesis, then every printed number

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

unit: $(READY)
	$(BIN)/pytest

notebooks: $(READY)
	$(BIN)/pytest --nbval --nbval-cell-timeout=600 -p no:doctest -o addopts="--strict-markers" $(NOTEBOOKS)

bench: $(READY)  ## ratios against the obvious alternative, measured in one run
	$(BIN)/python -m benchmarks

corpus: $(READY)  ## data/source -> documents, passages, questions
	$(BIN)/ragfin corpus build

book: $(READY)  ## render with Quarto, or a plain HTML preview without it
	$(BIN)/python -m book.build

handout: $(READY)  ## a student copy without solutions and outputs in _handout/
	$(BIN)/python -m book.handout

llm: $(READY)  ## add PyTorch and transformers, which only live generation needs
	$(BIN)/pip install --quiet -c constraints.txt -e '.[llm,dev]'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'ragfin needs Python 3.11 or later, this is ' + sys.version.split()[0] + '; name another one: make PYTHON=python3.12')"
	@echo 'Installing into $(VENV); the first time this takes some minutes.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

clean:
	rm -rf $(VENV) _book _preview _handout .quarto build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

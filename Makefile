# Two commands for a fresh machine with Python 3.11 (or newer) and make:
#   make demo    environment, installation, the main job
#   make test    environment, installation, the tests
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test coverage lint docs docs-quick clean

demo: $(VENV)/.installed
	$(BIN)/fedselect compare examples/demo.toml --seeds 0-2 --jobs 2 --out runs --report demo-report

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov=solvers --cov=graphs --cov=fedselect --cov-report=term:skip-covered --cov-report=xml

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html
	@command -v chromium >/dev/null && chromium --headless --no-sandbox --no-pdf-header-footer \
		--print-to-pdf=docs/_build/html/reference/cheat_sheet.pdf docs/_build/html/reference/cheat_sheet.html \
		>/dev/null 2>&1 || true

docs-quick: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -t quick -b html docs docs/_build/quick

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[fl,flower,dev]'
	touch $@

clean:
	rm -rf $(VENV) runs demo-report .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

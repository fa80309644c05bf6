# Nothing but Python 3.11, git and make is needed: every target sets itself up in .venv.
#   make demo             one signed job, end to end, in a temporary home   (AGENT=claude: the real CLI)
#   make test             the tests, with coverage data                     (ARGS="tests/contracts -q")
#                         (WORKERS=0: in one process, as a debugger wants it)
#   make check            the whole gate
#   make soak             two listeners, 500 jobs, copies and kills, at most 10 minutes
#                         (SECONDS=60: a tenth of it; SEED=7: the same dice again)
#   make e2e              four real CLIs from npm, through the whole product on loopback
#                         (needs node and the registry; ARGS="--json", ARGS="--only commits")
#   make bench            what it costs beside what it replaces, into docs/performance.md
#                         (QUICK=1: smaller sizes, on stdout; ARGS="--only enqueue")
#   make format           rewrite the code in the house's format
#   make schemas          write the golden files (schemas, names, service units, vectors) from the code
#   make verdict-table    play every trick of an agent anew and write the table of docs/verdict.md
#   make clean            remove what the other targets made

.POSIX:
.NOTPARALLEL:
.PHONY: demo test soak e2e bench check check-static check-rest check-coverage check-format check-lint check-types \
	check-floors check-wheel format schemas verdict-table clean setup setup-demo help

AGENT =
ARGS =
QUICK =
WORKERS = 3
SECONDS = 600
SEED =
PYTHON =
PY = .venv/bin/python
export PYTHON

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@sh ops/setup.sh dev

setup-demo:
	@sh ops/setup.sh demo

# stdout is the result's JSON and nothing else.
demo: setup-demo
	@$(PY) ops/demo/demo.py $(if $(AGENT),--agent $(AGENT))

# In CI the tests that failed are run once more, alone on the machine, and the first run's summary has
# named them: a machine that stood still for a minute is no verdict on a change, a test that fails
# twice is. A desk sees every failure.
SECOND_LOOK = $(if $(filter true 1,$(CI)),|| { [ $$? = 1 ] && echo "second look at what failed:" && \
	PYTHONSAFEPATH=1 $(PY) -m pytest --last-failed --last-failed-no-failures none -n 0 \
		--cov --cov-append --cov-report= --cov-fail-under=0 $(ARGS); })
test: setup
	@rm -f .coverage .coverage.*
	@PYTHONSAFEPATH=1 $(PY) -m pytest -n $(WORKERS) --dist worksteal \
		--cov --cov-report= --cov-fail-under=0 $(ARGS) $(SECOND_LOOK)
# Prints its seed first and its counts last.
soak: setup
	@PYTHONSAFEPATH= $(PY) -m tests.faults.soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Installs the CLIs into a cache outside of the project. Ends with 77 where node or disk is missing.
e2e: setup
	@PYTHONSAFEPATH= $(PY) -m tests.real $(ARGS)

# Ratios to baselines that run in turns with it; a missed goal is told, and is no failure.
bench: setup
	@PYTHONSAFEPATH= $(PY) -m tests.bench $(if $(QUICK),--quick) $(ARGS)

# Format, lint, types and floors first: they fail in seconds. The tests hold module sizes, names and
# the wheel's contents (tests/house); coverage reads the data that the tests left.
check: check-static test check-coverage
	@echo "check: all of it holds"

check-static: check-format check-lint check-types check-floors

# What is left of `make check` after `make test`.
check-rest: check-static check-coverage

check-format: setup
	@$(PY) -m ruff format --check .

check-lint: setup
	@$(PY) -m ruff check .

check-types: setup
	@$(PY) -m mypy
	@$(PY) -m basedpyright

check-floors: setup
	@.venv/bin/lint-imports

check-coverage: setup
	@$(PY) -m coverage combine --quiet --append 2>/dev/null || true
	@$(PY) -m coverage report
	@$(PY) tests/house/full_coverage.py

# A shorter way to one part of the tests.
check-wheel: setup
	@$(PY) -m pytest tests/house/test_wheel.py

format: setup
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix --quiet . || true

schemas: setup
	@$(PY) tests/golden/write_schemas.py
	@$(PY) tests/golden/write_naming.py
	@$(PY) tests/golden/write_units.py
	@$(PY) tests/golden/write_vectors.py

verdict-table: setup
	@$(PY) tests/golden/write_verdict_table.py

clean:
	rm -rf .venv build dist .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

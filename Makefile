# make demo    sets everything up and shows a cluster at work: load, a killed broker, failover, nothing lost
# make test    sets everything up and passes all tests
# make night   looks for what nobody has seen: simulator, crashes, mutated requests and chaos with fresh seeds
# make compiled-wheel    builds a wheel whose clients have their inner loops in C (docs/compiled-clients.md)
# make test-compiled     the unit tests of protocol and clients on what that wheel has compiled
# make bench   measures this machine: the broker beside the least Python that can serve the same client
# make versus-kafka  does the same work with Apache Kafka 3.9.1, row by row
PYTHON ?= python3
BIN := .venv/bin
LINKED := broker client controller protocol zk_schema

# Bytecode is kept, whatever the shell says: to compile every test and three hundred modules again for each process
# would be a tenth of the tests' time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test pytest unit integration lint format bench versus-kafka night clean compiled-wheel test-compiled

# Bytecode as pip makes it for a wheel: compiling three hundred modules is half of a broker's start where Python may not
# write its cache by itself (PYTHONDONTWRITEBYTECODE, a tree that is read-only to the user).
setup: .venv/ready
	@$(BIN)/python -m compileall -q odradek $(LINKED)
	@$(BIN)/python -m odradek.testing.needs

# Of what is installed most is never imported: what is, is compiled then.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[local,spark,dev]'
	@touch $@

# The tests and what they import, compiled once: otherwise each of the processes that run them would, all at once.
.venv/collected: .venv/ready
	@$(BIN)/python -m pytest -qq --collect-only >$@.log || { cat $@.log; exit 1; }
	@touch $@

demo: setup
	$(BIN)/python -m odradek.demo

# More at a time than there are processors: what starts brokers begins, and mostly waits for sessions to expire; the
# others fill the gaps.
WORKERS ?= 7
test: setup
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

pytest: setup .venv/collected
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder --durations 15 --processor 15

unit: setup
	$(BIN)/python -m pytest -q -n 2 -m 'not zookeeper and not cluster and not docker'

integration: setup
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m 'zookeeper or cluster or docker' --durations 15 --processor 15

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p odradek -p tests
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# each part for so many minutes; a seed that fails goes to tests/seeds/, which `make test` replays
MINUTES ?= 30
night: setup
	$(BIN)/python bench/night.py --minutes $(MINUTES)

bench: setup
	$(BIN)/python bench/run.py
	$(BIN)/python bench/start_and_size.py
	$(BIN)/python bench/log.py
	$(BIN)/python bench/log_chores.py
	$(BIN)/python bench/failover.py
	$(BIN)/python bench/clients.py
	$(BIN)/python bench/client_memory.py

# the same work for Apache Kafka 3.9.1, which Maven brings, row by row
versus-kafka: setup
	$(BIN)/python bench/versus_kafka.py

# Never in place: what is compiled would hide the source beside it. The tree is a copy of the files that git knows.
COMPILED := build/compiled
compiled-wheel: setup
	rm -rf $(COMPILED) build/wheel
	mkdir -p $(COMPILED)
	git ls-files -z | tar --null --files-from=- --create | tar --extract --directory $(COMPILED)
	cd $(COMPILED) && HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(CURDIR)/$(BIN)/pip wheel -q --no-deps --wheel-dir ../wheel .

test-compiled: compiled-wheel
	cd $(COMPILED) && ODRADEK_COMPILED=1 PYTHONPATH=$(CURDIR)/$(COMPILED) $(CURDIR)/$(BIN)/python -m pytest -q -n 2 \
		-m 'not zookeeper and not cluster and not docker' tests/client tests/protocol

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis odradek-data

# `make demo` and `make test` set up everything they need in .venv; `make help` lists the rest.
VENV := .venv
PYTHON := $(VENV)/bin/python
STEP := sh .ci/step
COMPILE := $(STEP) "compile the kernels that changed" $(PYTHON) setup.py -q build_ext --inplace

.PHONY: help setup build demo test lint audit lock crash damage fuzz fuzz-mutants fuzz-sanitize oracle clients object-server goldens bench bench-spark dist dist-test release-check docs docs-site clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/ready ## make .venv with everything that development needs, kernels compiled

$(VENV)/demo-ready: pyproject.toml setup.py .ci/setup .ci/packages .ci/step
	@sh .ci/setup
	@touch $@

$(VENV)/ready: pyproject.toml setup.py .ci/setup .ci/packages .ci/step constraints.txt
	@sh .ci/setup dev
	@touch $(VENV)/demo-ready $@

build: setup ## compile the kernels again if they were edited
	@$(COMPILE)

demo: $(VENV)/demo-ready ## damage a partition of a real broker's log dir, and recover it (needs no more than pip install .)
	@$(COMPILE)
	@sh tests/demo.sh

test: build lint ## the whole suite; then the tests of the kernels once more, with bounds checks and sanitizers
	@$(STEP) -v "the whole suite" $(PYTHON) -m pytest -n auto --dist loadgroup
	@$(STEP) -v "the tests of the kernels, with bounds checks and sanitizers" $(PYTHON) -m tests.fuzz.sanitize --tests

lint: build ## ruff, mypy, import layers
	@$(STEP) "ruff" $(VENV)/bin/ruff check .
	@$(STEP) "mypy" $(VENV)/bin/mypy
	@$(STEP) "import layers" $(VENV)/bin/lint-imports --no-cache
	@$(STEP) "import layers inside engine.log" $(VENV)/bin/lint-imports --no-cache --config .ci/log-layers.toml

oracle: build clients ## compare with real Kafka, and let all clients read from kafkalog serve (Java, Maven, Go, npm)
	KAFKALOG_BROKER=all $(PYTHON) -m pytest tests/oracle tests/serve -m "oracle or clients"

clients: setup ## build the clients in Go and JavaScript that tests/serve runs (Go, npm, the network)
	$(PYTHON) -m tests.serve.other_clients

object-server: setup ## build the servers for S3, Google Cloud Storage and Azure that tests/s3 run against (Go, npm, the network)
	$(PYTHON) -m tests.s3.others

audit: setup ## look for licences that are not allowed, and for known vulnerabilities of the versions in constraints.txt (network; fails for what it cannot look up)
	@$(STEP) -v "licences" sh -c '$(VENV)/bin/pip-licenses --format=json --from=mixed | $(PYTHON) packaging/licences.py'
	@mkdir -p build
	@$(STEP) -v "known vulnerabilities" sh -c '$(VENV)/bin/pip-audit --format=json --progress-spinner=off --disable-pip --require-hashes \
		-r constraints.txt 2> build/audit.log | $(PYTHON) packaging/vulnerabilities.py'

lock: setup ## bring constraints.txt up to date with pyproject.toml; LOCK=--upgrade for the newest versions
	$(VENV)/bin/uv pip compile pyproject.toml -q --extra dev --extra spark --universal --python-version 3.11 --generate-hashes \
		--no-annotate --custom-compile-command 'make lock' $(LOCK) -o constraints.txt
	$(VENV)/bin/uv pip compile packaging/tools.in -q --universal --python-version 3.11 --generate-hashes \
		--no-annotate --custom-compile-command 'make lock' $(LOCK) -c constraints.txt -o packaging/tools.txt

goldens: build ## store again what real Kafka and kafkalog print, then read the diff
	$(PYTHON) -m pytest tests/oracle/test_golden.py tests/oracle/test_batches.py -k "golden or stored" --rewrite
	$(PYTHON) -m pytest tests/golden --rewrite

bench: build ## measure against real Kafka (Java, Maven); BENCH="--quick" for less
	$(PYTHON) -m tests.bench $(BENCH)

bench-spark: build ## measure Spark jobs against Parquet, two cores (Java, Maven); BENCH="--only reading" for less
	$(PYTHON) -m tests.bench.spark $(BENCH)

build/dist-tools/ready: packaging/tools.txt
	@$(STEP) "install the tools that build packages" sh -c '$(PYTHON) -m venv build/dist-tools && \
		build/dist-tools/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r packaging/tools.txt'
	@touch $@

dist: setup build/dist-tools/ready ## build what is published into dist/: sources, wheels, kafkalog.pyz, a Debian package (network; dpkg-deb)
	@$(STEP) -v "build dist/" build/dist-tools/bin/python packaging/dist.py

dist-test: build/dist-tools/ready ## run what is in dist/ where users would (as root: also a Debian in a directory, another user, ARM; mmdebstrap, lintian, qemu-user-static, podman)
	@build/dist-tools/bin/python -m pytest -v -rs packaging

release-check: ## all that must hold before a release (docs/releasing.md): tests, known vulnerabilities, packages
	@sh .ci/release-check

docs: build ## make man pages, completions and the tables in docs/ again
	$(PYTHON) -m kafkalog_cli.manual

docs-site: setup ## build the documentation as a site into build/site; a link that leads nowhere is an error (mandoc)
	@$(STEP) "build the site" env NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict -q

clean: ## remove what was built
	rm -rf build .venv dist *.egg-info
	find engine -name '*.so' -delete

crash: build ## stop and fail every operation at every place, as kills, power cuts, errors of the disk; kill commands (about twenty minutes on two processors; Java, Maven)
	KAFKALOG_CRASH=full $(PYTHON) -m pytest -n auto -m crash tests

damage: build ## recover, salvage and verify 84 damaged partitions and 14 damaged log dirs, by laws and beside what a real broker did; pairs of damages, random logs (SEED)
	KAFKALOG_DAMAGE=full $(if $(SEED),KAFKALOG_DAMAGE_SEED=$(SEED)) $(PYTHON) -m pytest -n auto tests/damage

fuzz: fuzz-mutants fuzz-sanitize ## a million mutants of real files and of requests to serve, then more under sanitizers (COUNT, SEED, JOBS for both)

fuzz-mutants: build ## only the first part: dump a million mutants (COUNT, SEED, JOBS)
	$(PYTHON) -m tests.fuzz --count $(or $(COUNT),1000000) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

fuzz-sanitize: setup ## only the second: kernels with AddressSanitizer and UBSan, once more with bounds checks, then all examples of their tests (COUNT, SEED, JOBS)
	$(PYTHON) -m tests.fuzz.sanitize --count $(or $(COUNT),100000) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))
	KAFKALOG_EXAMPLES=100 $(PYTHON) -m tests.fuzz.sanitize --tests

# Every target sets up what it needs: a virtual environment in .venv, made with Python 3.11 or later.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Of the tests, which wait for processes half of their time; the longest begin (tests/kit/durations.py). With two
# workers more than cores, a fifth of the cores' time was left over.
WORKERS ?= $(shell echo $$(($$(nproc) + 4)))
STAMP  := $(VENV)/.installed
TORCH  := $(VENV)/.torch-installed
SITE   := $(VENV)/.site-installed
LINTED := $(VENV)/lint.log
PACKAGES := compiler rpc_server tracker tuner tunefarm webui

.PHONY: help setup test pytest durations browser emulators lint lint-beside ruff mypy contracts shortest demo fuzz attack \
        conformance soak bench gpu gpu-pack models test-models tutorial docs clean
help:                    ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)          ## make the virtual environment and install tunefarm in it
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info[:2] <= (3, 13), "tunefarm needs Python 3.11 to 3.13; set PYTHON=/path/to/python3.11"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true  # by every core; pip would use one
	@touch $@

lint: ruff mypy contracts  ## ruff, mypy, import contracts
ruff: $(STAMP)
	$(BIN)/ruff check .
mypy: $(STAMP)
	$(BIN)/mypy
contracts: $(STAMP)
	$(BIN)/lint-imports

# Lint has its say while the tests run, and once more in the end if it found something. Everything has the priority of
# build workers, the lowest: beside busy tests of a higher one, those get no core for minutes.
test: $(STAMP) browser emulators   ## everything a change must pass
	@rm -f $(LINTED)
	@nice -n 19 $(MAKE) --no-print-directory --keep-going -j2 lint-beside pytest || { cat $(LINTED) 2>&-; exit 1; }

lint-beside:
	@$(MAKE) --no-print-directory --keep-going lint >$(LINTED) 2>&1 || { cat $(LINTED); exit 1; }
	@cat $(LINTED); rm $(LINTED)

# Compiled once, not by every process that the tests start: not everywhere is Python told to keep what it compiled.
# In a clean clone pytest compiles the tests in its own way first, or each of its workers would compile all of them.
pytest: export PYTHONDONTWRITEBYTECODE =
pytest: $(STAMP)
	@$(BIN)/python -m compileall -q -j 0 $(PACKAGES) tests/kit migrations
	@[ -d tests/unit/docs/__pycache__ ] || $(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	$(BIN)/pytest -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=25

durations: $(STAMP)      ## keep what the test files took on this machine as what a clean clone takes them for (CHECK=1: only look)
	@$(BIN)/python -m tests.kit.durations $(if $(CHECK),--check)

shortest: $(STAMP)       ## every other target in its shortest form, so that none breaks unseen
	@nice -n 19 $(BIN)/python .ci/shortest.py

browser:                 # the dashboard's tests drive Chromium; without one they are skipped with the reason
	@command -v chromium >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Debian's chromium for the dashboard's tests"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	fi || echo "no chromium could be installed: the dashboard's tests will be skipped"

emulators:               # tests run kernels for Arm and RISC-V under qemu; without it they are skipped with the reason
	@(command -v qemu-aarch64 && command -v ld.lld) >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Debian's qemu-user and lld for the tests of other machines' code"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user lld >/dev/null; \
	fi || echo "no qemu-user could be installed: the tests that run other machines' code will be skipped"

clean:                   ## remove what the targets above made
	rm -rf $(VENV) build webui/site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

fuzz: $(STAMP)           ## random schedules and inputs, CASES=10000 of them; FRAMES=30000 damaged messages at each kind of process, from SEED; STEPS=1000000 of hostile peers with sessions
	FUZZ_CASES=$(or $(CASES),10000) $(BIN)/pytest -n auto --timeout 0 tests/property
	FUZZ_CASES=$(or $(FRAMES),30000) FUZZ_SEED=$(or $(SEED),$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')) \
	  $(BIN)/pytest -n 2 --dist loadfile --timeout 0 tests/e2e/rpc/test_wire_fuzz.py tests/e2e/relay/test_fuzz.py
	FUZZ_STEPS=$(or $(STEPS),1000000) $(BIN)/pytest -n 2 --dist load --timeout 0 -s tests/attack/test_sessions_fuzz.py tests/attack/test_clients_fuzz.py \
	  tests/attack/test_false_box.py

attack: $(STAMP)         ## every attack on the services, the long ones too, on loopback; then the table of docs/security.md with what held (QUICK=1: the table's short ones)
	$(BIN)/python -m tests.attack.table $(if $(QUICK),--quick)

$(TORCH): $(STAMP)
	$(BIN)/python .ci/add_torch.py
	@touch $@

models: $(TORCH)         ## export ONNX models with random weights to build/models (ONLY=resnet50)
	$(BIN)/python -m tests.kit.torch.onnx_models $(if $(ONLY),--only $(ONLY))

test-models: export PYTHONDONTWRITEBYTECODE =
test-models: $(TORCH)    ## models of PyTorch and ONNX against eager and onnxruntime, interpreted, as machine code and from C; adds torch's CPU build (LARGE=1: ONNX models above 30 million parameters, too)
	@$(BIN)/python -m compileall -q -j 0 $(PACKAGES) tests/kit migrations
	@nice -n 19 $(BIN)/pytest -m "slow or not slow" -n $$(nproc) --dist load --durations=10 -o tmp_path_retention_policy=none tests/torch tests/models $(if $(ONLY),-k '$(ONLY)')

conformance: $(STAMP)    ## ONNX's node suite through the backend, and its page in docs (SHARE=50: one case in so many, compared with the page)
	$(BIN)/python -m tests.conformance --share $(or $(SHARE),1)

soak: $(STAMP)           ## random faults on a farm of this machine, TIME=120 seconds of them (300 at most); KILLS=100 of what writes records; ATTACK=1: attackers too
	$(BIN)/python -m tests.e2e.soak $(or $(TIME),120) $(SEED)
	$(BIN)/python -m tests.e2e.kill_writers $(or $(KILLS),100)
	$(if $(ATTACK),$(BIN)/python -m tests.e2e.soak_attack $(or $(TIME),120) $(SEED))

afternoons: $(STAMP)     ## a kernel engineer, a lab owner and the author of a build job at a terminal; TRIALS=20 of each run
	@$(BIN)/python -m tests.e2e.afternoons $(TRIALS)

$(SITE): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(SITE)            ## the documentation as a site in webui/site, which the web app serves under /docs; links checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean
	@$(BIN)/python .ci/site_check.py webui/site

tutorial: $(STAMP)       ## the commands of docs/tutorial.md, typed with TRIALS=4 for each kernel
	@$(BIN)/python -m tests.e2e.afternoons.tutorial $(TRIALS)

bench: $(STAMP)          ## every benchmark, one after the other (QUICK=1: the shortest form of each); PEER=/path/to/python with apache-tvm adds its numbers
	@$(BIN)/python .ci/bench.py $(if $(QUICK),--quick) $(if $(PEER),--peer $(PEER)) $(ONLY)

# No virtual environment of the Makefile: on the GPU's machine there is no package index to make one from.
gpu:                     ## all that needs a GPU: tests, benchmarks/gpu.py; results in OUT=benchmarks/results/gpu; installs from gpu-pack's folder
	@$(PYTHON) .ci/gpu.py $(if $(SHORTEST),--check) $(if $(OUT),--out $(OUT)) $(if $(TRIALS),--trials $(TRIALS)) $(if $(ONLY),--only $(ONLY))

gpu-pack: $(STAMP)       ## what make gpu needs without a package index, in build/gpu-pack: PACK_PYTHON=3.12, PYCUDA_WHEEL=/path/to/wheel
	@$(BIN)/python .ci/gpu_pack.py $(if $(PACK_PYTHON),--python $(PACK_PYTHON)) \
	  $(if $(PYCUDA_WHEEL),--pycuda $(PYCUDA_WHEEL)) $(if $(QUICK),--quick)

demo: $(STAMP)           ## a whole farm on this machine; SERVE=1 leaves the dashboard up
	@$(BIN)/tunefarm demo $(if $(SERVE),--serve) $(if $(TRIALS),--trials $(TRIALS))

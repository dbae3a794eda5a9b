# A thin front for meson and ninja, and for the scripts in tools/. `make help` lists what there is.
BUILD ?= build
MODE ?= user
MESON ?= meson
PYTHON ?= python3
KIT ?=
MUST_RUN ?=
export SANDGLASS_BUILD := $(abspath $(BUILD))
export KIT MUST_RUN

.PHONY: all setup demo check check-quick check-api bench fuzz format lint clean help

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)
	@tools/stage $(BUILD)

$(BUILD)/build.ninja:
	@command -v $(MESON) >/dev/null || { echo "meson is missing: run 'make setup'" >&2; exit 1; }
	$(MESON) setup $(BUILD) -Dmode=$(MODE)

setup:
	@tools/setup build
	@tools/setup templates

demo:
	@tools/setup build
	@tools/setup templates
	@$(MAKE) --no-print-directory all
	@tools/demo

check:
	@tools/setup build check
	@tools/setup templates
	@$(PYTHON) tools/check

check-quick:
	@tools/setup build check
	@tools/setup templates
	@$(PYTHON) tools/check --quick

check-api:
	@tools/setup build check
	@tools/setup templates
	@$(PYTHON) tools/check --only api

fuzz:
	@tools/setup build check
	@$(PYTHON) tools/check --only fuzz --fuzz-seconds $(or $(SECONDS_EACH),60)

bench:
	@tools/setup build bench
	@tools/setup templates
	@$(MAKE) --no-print-directory all
	@$(PYTHON) bench/run.py
	@$(PYTHON) bench/traffic.py

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint:
	@tools/setup build check
	@$(PYTHON) tools/check --only layers,errors-page,format,tidy

clean:
	rm -rf build build-asan build-fuzz

help:
	@echo 'make              build into build/'
	@echo 'make setup        install missing Debian packages, build the templates; nothing to do: a moment'
	@echo 'make demo         a LlamaIndex agent in a conversation, against a daemon of its own'
	@echo 'make check        everything: unit, end to end, acceptance kit, fuzz, sanitizers, leftovers'
	@echo '                    KIT=DIR     where the acceptance kit lies (default ../shared/acceptance)'
	@echo '                    MUST_RUN=1  a skipped test fails, unless this kernel lacks what it needs'
	@echo 'make check-quick  the same without what takes long: below two minutes'
	@echo 'make check-api    every operation of openapi.json against the server, by schemathesis: four minutes'
	@echo 'make bench        speed and memory beside ipykernel and bubblewrap, into build/bench/'
	@echo 'make fuzz         each fuzzer for a minute (SECONDS_EACH=60)'
	@echo 'make lint         layers, generated pages, format, clang-tidy'
	@echo 'make format       clang-format over the C sources'
	@echo 'make clean        remove what was built; the templates stay in their cache'

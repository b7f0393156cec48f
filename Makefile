# The usual targets are `run` and `test`. Both install missing packages.

CARGO ?= cargo
AGENT := target/release/crane-agent
SAMPLE := target/sample.pcap
# The prefix of `install`. The package has /usr.
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
LIB = $(DESTDIR)$(PREFIX)/lib
# The directory of units: that for packages if PREFIX is /usr, otherwise that of the administrator.
UNITS = $(DESTDIR)$(if $(filter /usr,$(PREFIX)),/usr/lib,/etc)/systemd/system
# Completions for bash, zsh and fish.
COMPLETIONS = $(SHARE)/bash-completion/completions/crane-agent \
  $(SHARE)/zsh/site-functions/_crane-agent \
  $(SHARE)/fish/vendor_completions.d/crane-agent.fish
# Tests that could not run write their names to this file.
SKIPPED := target/tmp/skipped

STAGE := target/stage
CARGO_DEB := target/tools/bin/cargo-deb
CARGO_DEB_VERSION := 3.8.0

.PHONY: run demo test test-extra test-dashboards test-lines test-alerts test-top test-page test-package test-boot bench check-cuda setup setup-test install uninstall deb

## run: build the agent and run it on all interfaces that are up
run: $(AGENT)
	$(AGENT) run $(ARGS)

## demo: the same agent on a generated capture, paced and looped
demo: $(AGENT) $(SAMPLE)
	$(AGENT) replay $(SAMPLE) --serve --loop --speed 1 --window 60s $(ARGS)

$(SAMPLE): $(AGENT)
	$(AGENT) sample $(SAMPLE)

$(AGENT): setup
	$(CARGO) build --release --locked -p crane-agent

## test: format, lints and all tests, to be run before a commit
test: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	@rm -f $(SKIPPED)
	@CARGO="$(CARGO)" .ci/test; code=$$?; \
	  [ ! -e $(SKIPPED) ] || echo "SKIPPED: $$(sort -u $(SKIPPED) | wc -l) tests need root:" $$(sort -u $(SKIPPED)); \
	  exit $$code

## test-extra: tests with other programs, which take minutes and need PyPI, npm and a Debian mirror
test-extra: test-dashboards test-lines test-alerts test-top test-page test-package test-boot

## test-dashboards: Grafana's library reads every dashboard without loss
test-dashboards:
	.ci/test-dashboards

## test-lines: DuckDB and jq read the lines of windows
test-lines: $(AGENT)
	@sh .ci/need jq jq curl curl
	AGENT=$(AGENT) .ci/test-lines

## test-alerts: a scan reaches a webhook through Prometheus and Alertmanager
test-alerts: $(AGENT)
	@sh .ci/need promtool prometheus prometheus-alertmanager prometheus-alertmanager
	AGENT=$(AGENT) .ci/test-alerts

## test-package: the package is installed, upgraded and purged in a Debian root
test-package: deb
	@sh .ci/need debootstrap debootstrap
	.ci/test-package

## test-boot: a virtual machine boots systemd and runs the package as a service
test-boot: deb
	@sh .ci/need debootstrap debootstrap cpio cpio
	.ci/test-boot

## test-top: the live view in a terminal of tmux
test-top: $(AGENT)
	@sh .ci/need tmux tmux
	AGENT=$(AGENT) .ci/test-top

## test-page: the page in Chromium (IMAGES=docs/images also renews the pictures of the README)
test-page: $(AGENT)
	@sh .ci/need chromium chromium node nodejs npm npm ip iproute2 ping iputils-ping
	.ci/test-page

## bench: store and query on one core, then replay and live capture compared with other programs
bench: setup
	@sh .ci/need tcpdump tcpdump nfpcapd nfdump softflowd softflowd taskset util-linux \
	  ip iproute2 tcpreplay tcpreplay trafgen netsniff-ng
	RAYON_NUM_THREADS=1 $(CARGO) bench --locked -p crane-lab --benches
	$(CARGO) bench --locked -p crane-agent --bench speed --bench growth --bench live --bench load --bench exposition

## check-cuda: compile and link the CUDA build, without a GPU (10 to 20 minutes)
check-cuda: setup
	.ci/check-cuda

## setup: install what the build needs
setup:
	@sh .ci/need /usr/include/pcap/pcap.h libpcap-dev
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: install it from https://rustup.rs" >&2; exit 1; }

## setup-test: install what the tests need in addition
setup-test: setup
	@sh .ci/need ip iproute2 promtool prometheus systemd-analyze systemd ping iputils-ping tshark tshark tcpreplay tcpreplay \
	  faketime faketime jq jq groff groff-base openssl openssl curl curl tcpdump tcpdump bash bash zsh zsh fish fish script bsdutils

## install: install the agent, its manual, completions, unit and configuration
install: $(AGENT)
	install -D -m 755 $(AGENT) $(DESTDIR)$(PREFIX)/bin/crane-agent
	install -D -m 755 systemd/restart-delay $(LIB)/crane-agent/restart-delay
	install -d $(SHARE)/man/man1 $(dir $(COMPLETIONS))
	$(AGENT) man --dir $(SHARE)/man/man1
	$(AGENT) completions bash > $(word 1,$(COMPLETIONS))
	$(AGENT) completions zsh > $(word 2,$(COMPLETIONS))
	$(AGENT) completions fish > $(word 3,$(COMPLETIONS))
	install -D -m 644 -t $(SHARE)/crane-agent systemd/cuda.conf
	rm -rf $(SHARE)/crane-agent/dashboards
	cp -r dashboards $(SHARE)/crane-agent/
	install -d $(UNITS)
	sed 's,/usr/\(bin\|lib\)/,$(PREFIX)/\1/,' systemd/crane-agent.service > $(UNITS)/crane-agent.service
	install -D -m 644 systemd/crane-agent.sysusers $(LIB)/sysusers.d/crane-agent.conf
	[ -e $(DESTDIR)/etc/crane-agent/crane-agent.toml ] || \
	  install -D -m 644 agent/crane-agent.toml $(DESTDIR)/etc/crane-agent/crane-agent.toml
	[ -n "$(DESTDIR)" ] || ! command -v systemd-sysusers >/dev/null || systemd-sysusers crane-agent.conf

## uninstall: remove what `install` has installed, except the configuration
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/crane-agent $(UNITS)/crane-agent.service $(LIB)/sysusers.d/crane-agent.conf
	rm -rf $(LIB)/crane-agent $(SHARE)/crane-agent
	rm -f $(SHARE)/man/man1/crane-agent.1 $(SHARE)/man/man1/crane-agent-*.1 $(COMPLETIONS)

## deb: build a Debian package in target/debian (DEB_FLAGS for cargo-deb)
deb: $(AGENT) $(CARGO_DEB)
	@sh .ci/need dpkg-shlibdeps dpkg-dev
	rm -rf $(STAGE)
	$(MAKE) --silent install PREFIX=/usr DESTDIR=$(STAGE)
	$(CARGO_DEB) --package crane-agent --no-build --no-strip --quiet $(DEB_FLAGS)

$(CARGO_DEB):
	$(CARGO) install cargo-deb --version $(CARGO_DEB_VERSION) --locked --quiet --root target/tools

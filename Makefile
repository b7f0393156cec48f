# `make run` and `make test` are all one needs; both install what is missing.

CARGO ?= cargo
AGENT := target/release/crane-agent
SAMPLE := target/sample.pcap
SHARE = $(DESTDIR)/usr/local/share
# For bash, zsh and fish.
COMPLETIONS = $(SHARE)/bash-completion/completions/crane-agent \
  $(SHARE)/zsh/site-functions/_crane-agent \
  $(SHARE)/fish/vendor_completions.d/crane-agent.fish
# Tests write their names here that could not run.
SKIPPED := target/tmp/skipped

.PHONY: run demo test bench check-cuda setup setup-test install uninstall

## run: build the agent and run it on all interfaces that are up
run: $(AGENT)
	$(AGENT) run $(ARGS)

## demo: the same agent on a generated capture, paced and looped
demo: $(AGENT) $(SAMPLE)
	$(AGENT) replay $(SAMPLE) --serve --loop --speed 1 --window 60s $(ARGS)

$(SAMPLE): $(AGENT)
	$(AGENT) sample $(SAMPLE)

$(AGENT): setup
	$(CARGO) build --release --locked

## test: everything that has to hold before a commit
test: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	@rm -f $(SKIPPED)
	@$(CARGO) test --locked --workspace; code=$$?; \
	  [ ! -e $(SKIPPED) ] || echo "SKIPPED: $$(sort -u $(SKIPPED) | wc -l) tests need root:" $$(sort -u $(SKIPPED)); \
	  exit $$code

## bench: store and query on one core, then replay and live capture beside others
bench: setup
	@sh .ci/need tcpdump tcpdump nfpcapd nfdump softflowd softflowd taskset util-linux \
	  ip iproute2 tcpreplay tcpreplay trafgen netsniff-ng
	RAYON_NUM_THREADS=1 $(CARGO) bench --locked -p crane-model
	$(CARGO) bench --locked -p crane-agent --bench speed --bench growth --bench live

## check-cuda: compile and link the CUDA build, without a GPU (10 to 20 minutes)
check-cuda: setup
	.ci/check-cuda

## setup: what building needs
setup:
	@sh .ci/need /usr/include/pcap/pcap.h libpcap-dev
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: install it from https://rustup.rs" >&2; exit 1; }

## setup-test: what the tests need besides
setup-test: setup
	@sh .ci/need ip iproute2 promtool prometheus systemd-analyze systemd ping iputils-ping tshark tshark tcpreplay tcpreplay \
	  faketime faketime groff groff-base openssl openssl curl curl

## install: the agent, its manual, completions, its unit and its configuration
install: $(AGENT)
	install -D -m 755 $(AGENT) $(DESTDIR)/usr/local/bin/crane-agent
	install -d $(SHARE)/man/man1 $(dir $(COMPLETIONS))
	$(AGENT) man --dir $(SHARE)/man/man1
	$(AGENT) completions bash > $(word 1,$(COMPLETIONS))
	$(AGENT) completions zsh > $(word 2,$(COMPLETIONS))
	$(AGENT) completions fish > $(word 3,$(COMPLETIONS))
	install -D -m 644 systemd/crane-agent.service $(DESTDIR)/etc/systemd/system/crane-agent.service
	[ -e $(DESTDIR)/etc/crane-agent/crane-agent.toml ] || \
	  install -D -m 644 agent/crane-agent.toml $(DESTDIR)/etc/crane-agent/crane-agent.toml

## uninstall: what `install` put there, except the configuration
uninstall:
	rm -f $(DESTDIR)/usr/local/bin/crane-agent $(DESTDIR)/etc/systemd/system/crane-agent.service
	rm -f $(SHARE)/man/man1/crane-agent.1 $(SHARE)/man/man1/crane-agent-*.1 $(COMPLETIONS)

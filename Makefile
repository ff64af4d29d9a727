# What CI runs is `make check`; `make bench` prints the table of bench/. BENCH
# takes its flags: make -s bench BENCH=-markdown >bench/RESULTS.md

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: check format vet staticcheck test tidy bench

check: format vet staticcheck tidy test

format:
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofumpt -w mends it):"; echo "$$unformatted"; exit 1; fi

vet:
	$(GO) vet ./...

staticcheck:
	$(TOOL) staticcheck ./...

tidy:
	$(GO) mod tidy -diff

# The README's test command, and the same again under the race detector. Some
# tests build and run the commands, which the cache of results does not know of.
test:
	$(GO) test -count=1 ./...
	$(GO) test -count=1 -race ./...

bench:
	$(GO) run ./bench $(BENCH)

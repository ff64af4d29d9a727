# CI runs `make check`. `make fuzz` searches for new inputs; `make bench` prints the table
# of bench/. BENCH takes its flags: make -s bench BENCH=-markdown >bench/RESULTS.md
# FUZZ takes those of fuzz: make fuzz FUZZ='-time 10m -only weblink'

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod
PROGRAMS = hub notifier destination

# What makes the same bytes of the same source, wherever it is built: no paths, no
# times, nothing of the repository's state, no C. The Dockerfile has it too.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags="-s -w -buildid="

.PHONY: check format prose vet staticcheck test tidy verify fuzz build reproducible sbom vuln bench

check: format prose vet staticcheck tidy verify test

format:
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofumpt -w mends it):"; echo "$$unformatted"; exit 1; fi

# Plain English, as far as rules can see it (tools/prose), in Go comments and Markdown.
prose:
	@$(TOOL) vale --output=line .

vet:
	$(GO) vet ./...
	$(GO) -C tools vet ./...

staticcheck:
	$(TOOL) staticcheck ./...
	$(GO) -C tools tool staticcheck ./...

tidy:
	$(GO) mod tidy -diff

# What is built with is what go.sum says.
verify:
	$(GO) mod verify
	$(GO) -C tools mod verify

# The longest rooms begin first, so that none of them is still running alone when the others
# are done. Most of them wait for processes and for timers: one room more runs at a time than
# there are processors.
LONGEST = ./cmd/hub ./store/redisstore ./cmd/destination ./bench ./store/pebblestore ./delivery/dispatch ./notifier/... ./subscription
TEST = $(GO) test -count=1 -p $$(($$(getconf _NPROCESSORS_ONLN) + 1))

# The README's test command, and the same again under the race detector, but for the
# packages that have no code of the programs in them: they are for tests, or theirs read files or run
# programs that are built without it. Some tests build and run the commands, which the
# cache of results does not know of. What `vet` has looked at is not looked at again; the second
# run looks at what is only built under the race detector.
test: vet
	$(TEST) -vet=off $(LONGEST) ./...
	$(TEST) -race $$($(GO) list $(LONGEST) ./... | grep -v -x -e carillon -e carillon/docs -e carillon/bench -e carillon/internal/faults -e carillon/internal/redistest)
	$(GO) -C tools test ./...

# Every fuzz target of the module for 30 s, with inputs drawn at random: run by hand, not
# by CI (docs/decisions/0025-what-is-fuzzed.md). `make test` runs the stored inputs.
fuzz:
	@$(GO) -C tools run ./fuzz -root .. $(FUZZ)

build:
	$(BUILD) -o bin/ $(PROGRAMS:%=./cmd/%)

# The programs built twice, in directories of different names and the second time
# with nothing kept of the first, are the same to the byte.
reproducible:
	@set -eu; dir=$$(mktemp -d); trap 'chmod -R u+w "$$dir"; rm -rf "$$dir"' EXIT; \
	for copy in a another-place/b; do \
		mkdir -p "$$dir/$$copy"; git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -xf - -C "$$dir/$$copy"; done; \
	(cd "$$dir/a" && $(BUILD) -o bin/ $(PROGRAMS:%=./cmd/%)); \
	(cd "$$dir/another-place/b" && GOCACHE="$$dir/cache" $(BUILD) -o bin/ $(PROGRAMS:%=./cmd/%)); \
	for program in $(PROGRAMS); do cmp "$$dir/a/bin/$$program" "$$dir/another-place/b/bin/$$program"; done; \
	cd "$$dir/a/bin" && sha256sum $(PROGRAMS)

# What each program is made of, as bin/PROGRAM.cdx.json (CycloneDX).
sbom: build
	@$(GO) -C tools run ./sbom -version "$$(sed -n 's/^const Version = "\(.*\)"$$/\1/p' internal/release/release.go)" -out ../bin $(PROGRAMS:%=../bin/%)

# Known weaknesses in what the programs call. It asks the database at
# vuln.go.dev, so it is not a part of check.
vuln:
	$(TOOL) govulncheck ./...

bench:
	$(GO) run ./bench $(BENCH)

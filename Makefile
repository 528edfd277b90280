# The product's own make targets; `make help` lists them.
# Tools are pinned in tools.mod, so that go.mod holds only what the product needs.

SHELL    := /bin/sh
GO       ?= go
BIN      := bin/strandline
TOOL     := $(GO) tool -modfile=tools.mod
VERSION  ?= dev
FUZZTIME ?= 20000x

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: build ## the whole loop on the embedded world: no root, no network
	$(BIN) demo

.PHONY: build
build: ## static binary in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN) ./cmd/strandline

.PHONY: test
test: ## every test (kernel tests where privileges allow)
	$(GO) test ./...

.PHONY: race
race: ## the tests under the race detector, without the long simulations (needs gcc)
	CGO_ENABLED=1 $(GO) test -race -short ./...

.PHONY: check
check: ## formatting, vet, staticcheck, tidiness, laws
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt these files:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) fix -diff ./...
	$(GO) test ./internal/lawtest

.PHONY: bench
bench: ## side by side with peers, one table per area
	$(GO) run ./internal/bench

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; done; done

.PHONY: cover
cover: ## coverage by package
	$(GO) test -coverprofile=coverage.out ./... && $(GO) tool cover -func=coverage.out | tail -1

.PHONY: lab
lab: ## the tests that need a real kernel, in network namespaces (root)
	$(GO) test -count=1 -v -run 'Kernel' ./...

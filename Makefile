# SPDX-FileCopyrightText: The Evenkeel authors
# SPDX-License-Identifier: MIT

SHELL := /bin/bash
GO ?= go
BIN := $(CURDIR)/bin
export PATH := $(BIN):$(PATH)

# Runs of each benchmark and seconds for each fuzz target.
COUNT ?= 10
FUZZTIME ?= 20s

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## Build everything, and the command as bin/evenkeel
	$(GO) build ./...
	if [ -d cmd/evenkeel ]; then $(GO) build -o $(BIN)/evenkeel ./cmd/evenkeel; fi

.PHONY: test
test: ## Run the tests
	$(GO) test ./...

.PHONY: race
race: ## Run the tests with the race detector, in random order, on one and on four processors
	$(GO) test -race -shuffle=on -cpu 1,4 ./...

.PHONY: vet
vet: ## Run go vet
	$(GO) vet ./...

.PHONY: lint
lint: bin/golangci-lint ## Check style and look for mistakes
	bin/golangci-lint run

.PHONY: format
format: bin/golangci-lint ## Format all Go files
	bin/golangci-lint fmt

.PHONY: tidy
tidy: ## Check that go.mod and go.sum say what the code needs
	$(GO) mod tidy -diff

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	GO="$(GO)" .ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## Run every benchmark COUNT (10) times into bench.out; compare two such files with bin/benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bench.out

.PHONY: generate
generate: ## Generate the code in contract from the .proto files
	$(GO) generate ./...

.PHONY: checkgenerate
checkgenerate: ## Check that the generated code is what the .proto files say
	GO="$(GO)" .ci/checkgenerate

.PHONY: ci
ci: ## Do everything that is done for a commit
	.ci/run

.PHONY: tools
tools: ## Build all pinned tools into bin
	cd tools && GOBIN="$(BIN)" $(GO) install tool

bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && GOBIN="$(BIN)" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	touch $@

bin/grpcurl: tools/go.mod tools/go.sum
	cd tools && GOBIN="$(BIN)" $(GO) install github.com/fullstorydev/grpcurl/cmd/grpcurl
	touch $@

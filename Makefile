# Everything that a developer, CI or a packager does here. `make` alone lists it.
# Nothing below needs root, a cluster or a network beyond loopback, except e2e-boot, e2e-hostile, e2e-kube, faults and sweep, and that modules are downloaded once.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO      ?= go
VERSION ?= $(shell tools/version.sh)
LDFLAGS := -s -w -X main.version=$(VERSION)
# grpcnotrace: gRPC without its tracing pages, which nothing serves.
TAGS    := grpcnotrace
LINT    := $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint
VULN    := $(GO) tool -modfile=$(CURDIR)/tools/vuln/go.mod govulncheck

# The modules of this repository that are built with it: the program, the generator of its tables, and what vendors of
# detectors import and copy.
MODULES := . tools/kubetables plugins examples/detector-template

# How long `make fuzz` stays with each target, and how often `make bench` runs each program.
T ?= 30s
N ?= 15
FAIL_ABOVE ?= 0

# Where the components of Kubernetes are kept once they are built: 0.5 GB.
KUBE_CACHE := $(or $(PRELET_KUBE_CACHE),$(CURDIR)/test/kube/.cache)
# As test/kube/build.sh compiles them: the tests import 1300 of the same packages, which otherwise cost four minutes a second time.
AS_KUBE := CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" $(GO)

DESTDIR ?=
PREFIX  ?= /usr

##@ Every day

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z0-9-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## the programs of cmd/, static, into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags "$(TAGS)" -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: demo
demo: build ## plan, run, explain and run again on a recorded GPU machine: no cluster, no root
	$(GO) run ./internal/demo/tour

.PHONY: machines
machines: ## recorded machines for --hardware, from testdata/hardware/spec: bin/machines/NAME
	$(GO) run ./tools/machines testdata/hardware/spec bin/machines

.PHONY: test
test: ## every test that needs nothing but Go
	@for m in $(MODULES); do (cd $$m && $(GO) test ./...); done

.PHONY: lint
lint: ## the walls of the house, and what a reviewer should not have to say
	@for m in $(MODULES); do (cd $$m && $(LINT) run); done

.PHONY: generate
generate: ## write again what is made from code: the reference pages
	@for m in $(MODULES); do (cd $$m && $(GO) generate ./...); done

.PHONY: proto
proto: ## write again the Go code of the protocol of detectors
	tools/proto.sh write

.PHONY: check-proto
check-proto: ## fail when that code is stale, or the protocol breaks what it promised
	tools/proto.sh check

.PHONY: detectors
detectors: ## the detectors that ship, and the program that checks any, into bin/detectors/
	cd plugins && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "$(LDFLAGS)" -o ../bin/detectors/ ./cmd/...
	@# NVML is opened by a C library's dlopen; what it has not, is found out when it is called, so never -z now.
	@if printf '#include <dlfcn.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1; then \
		cd plugins && CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -tags nvml,grpcnotrace -ldflags "$(LDFLAGS) -extldflags=-Wl,-z,lazy" -o ../bin/detectors/nvidia ./cmd/nvidia; \
	else echo "nvidia is built without NVML: there is no C compiler" >&2; fi

.PHONY: e2e-detectors
e2e-detectors: build packages ## detectors with what they need beside Go: a C compiler, ovsdb-server, python3-grpcio, Node.js; and their packages
	tools/detectors.sh

.PHONY: kubetables
kubetables: ## write again what is known of the kubelet of each version, from Kubernetes' own modules (700 MB, once)
	cd tools/kubetables && $(GO) run . -o $(CURDIR)/internal/kubelet/known/tables.txt

.PHONY: kubetables-check
kubetables-check: ## fail when that differs from what is committed, and hold rules against that source (the same modules)
	cd tools/kubetables && $(GO) run . | cmp - $(CURDIR)/internal/kubelet/known/tables.txt && $(GO) test -count=1 .

.PHONY: check-docs
check-docs: ## fail when a reference page is stale, or a link in a page leads nowhere
	tools/check-docs.sh

##@ Before a release

.PHONY: race
race: ## the tests once more, with the race detector (needs a C compiler)
	@for m in $(MODULES); do (cd $$m && CGO_ENABLED=1 $(GO) test -race -vet=off ./...); done

.PHONY: vulnerabilities
vulnerabilities: ## known vulnerabilities in what the programs link, the vendors' template included (asks vuln.go.dev)
	@for m in $(MODULES); do (cd $$m && $(VULN) -tags "$(TAGS)" ./...); done

.PHONY: fuzz-seeds
fuzz-seeds: ## each fuzz target on its seeds and on what was ever found
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/tools/fuzz.sh seeds); done

.PHONY: fuzz
fuzz: ## each fuzz target for T=30s with new inputs
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/tools/fuzz.sh $(T)); done

.PHONY: bench
bench: build ## prelet against the least that any program would need, N=15 rounds; FAIL_ABOVE=1.5 fails above 1.5 times a budget
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/bench/ ./bench/...
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w" -o bin/bench/ ./bench/vendor
	bin/bench/run -n $(N) -fail-above $(FAIL_ABOVE)

.PHONY: size
size: build ## fail when the binary has outgrown its bound
	@tools/size.sh bin/prelet

.PHONY: image
image: ## what the machines of e2e-boot boot from, but for what is installed there, as root
	test/boot/image.sh --base

.PHONY: kubernetes
kubernetes: ## the components of Kubernetes that e2e-kube starts (minutes, once)
	test/kube/build.sh "$(KUBE_CACHE)"

.PHONY: e2e-boot
e2e-boot: build packages ## boots of a real systemd in containers, as root: RUN=TestName for some of them (makes an image once; with a real kubelet where e2e-kube has built it)
	test/boot/image.sh
	cd test/boot && PRELET_BOOT_CACHE=$(CURDIR)/test/boot/.cache $(if $(wildcard $(KUBE_CACHE)/helpers),PRELET_KUBE_CACHE="$(KUBE_CACHE)") $(GO) test -count=1 -v -timeout 45m -parallel 4 -run '$(RUN)' .

.PHONY: e2e-hostile
e2e-hostile: build packages ## detectors that crash, hang, flood, lie and break out, under the hardened unit of a booted systemd, as root: RUN=TestName
	test/boot/image.sh
	cd test/detectors && PRELET_BOOT_CACHE=$(CURDIR)/test/boot/.cache $(GO) test -count=1 -v -timeout 15m -run '$(RUN)' .

.PHONY: e2e-kube
e2e-kube: build machines ## real Kubernetes and a real kubelet, as root: RUN=TestName for some of them (builds Kubernetes once)
	test/kube/build.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_KUBE) test -count=1 -v -timeout 30m -parallel 3 -run '$(RUN)' .

.PHONY: kubelet-agreement
kubelet-agreement: build ## N=100 random inputs of each kind to the real kubelet and to plan, as root; SEED= for the same ones again
	test/kube/build.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_AGREEMENT_CASES=$(if $(filter file,$(origin N)),100,$(N)) PRELET_KUBE_AGREEMENT_SEED=$(or $(SEED),random) PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		$(AS_KUBE) test -count=1 -v -timeout 40m -run '^TestAgreement$$' .

.PHONY: storm
storm: build ## N=1000 boots in the same instant against one real API server that is slow and dies in the middle, as root
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/bench/ ./bench/...
	test/kube/build.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_STORM=$(if $(filter file,$(origin N)),1000,$(N)) PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_KUBE) test -count=1 -v -timeout 20m -run TestStorm .

.PHONY: e2e-kube-old
e2e-kube-old: build ## the same with an older kubelet at an older API server (builds these once more)
	test/kube/build.sh "$(KUBE_CACHE)"
	test/kube/build.sh "$(KUBE_CACHE)" old
	cd test/kube && PRELET_KUBE_OLD=1 PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_KUBE) test -count=1 -v -timeout 30m -run TestOlderMinor .

.PHONY: faults
faults: ## kills, power cuts and broken disks, the quick part, as root: RUN=TestName for some of them
	cd test/faults && $(GO) test -count=1 -v -timeout 20m -parallel 2 -run '$(RUN)' .

.PHONY: sweep
sweep: ## the same at every system call, on every file system, recoveries included (an hour)
	cd test/faults && PRELET_FAULTS_SWEEP=full $(GO) test -count=1 -v -timeout 5h -parallel 2 -run '$(RUN)' .

##@ Packaging

.PHONY: packages
packages: detectors ## deb and rpm of each detector that ships, with its lock, into dist/ (needs a C compiler, for nvidia)
	tools/packages.sh "$(VERSION)"

.PHONY: install
install: build ## DESTDIR= PREFIX=/usr: programs, units, completions, manual pages, documentation
	tools/install.sh "$(DESTDIR)" "$(PREFIX)"

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

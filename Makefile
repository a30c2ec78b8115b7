# The commands of developers, CI and packagers. `make` lists them.
# Modules are downloaded once. Root is needed by bench-peers, check-newcomer, e2e-boot, e2e-hostile, e2e-image, e2e-kube,
# e2e-nfd, e2e-packages, e2e-recipes, e2e-runtime, e2e-selinux, faults, sweep, storm, kubelet-agreement, kubelet-upgrades,
# golden-image and nightly; all others need neither root nor a cluster nor a network.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO ?= go
# A service or a container may have no HOME, which Go needs for its caches: as a login, take that of the user.
ifeq ($(HOME),)
export HOME := $(shell getent passwd "$$(id -u)" | cut -d : -f 6)
endif
# A Go before 1.21 calls go.mod invalid, and not itself too old.
ifneq ($(filter-out help clean install-doc,$(or $(MAKECMDGOALS),help)),)
go_wanted := $(shell sed -n 's/^go //p' go.mod)
go_found  := $(patsubst go%,%,$(shell $(GO) env GOVERSION || GOTOOLCHAIN=local $(GO) env GOVERSION))
ifneq ($(shell printf '%s\n' '$(go_wanted)' '$(go_found)' | sort -VC || echo older),)
$(error prelet needs Go $(go_wanted) or newer, and $(GO) is $(or $(go_found),missing or fails). \
	Install one from https://go.dev/dl, then: make GO=/usr/local/go/bin/go $(MAKECMDGOALS))
endif
endif

VERSION ?= $(shell tools/version.sh)
LDFLAGS := -s -w -X main.version=$(VERSION)
# grpcnotrace: gRPC without its tracing pages, which prelet does not serve.
TAGS    := grpcnotrace
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags "$(TAGS)" -ldflags "$(LDFLAGS)"
# The programs are stripped, so no debug information is compiled. GOFLAGS: what the targets start compiles alike.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -gcflags=all=-dwarf=false)
LINT    := $(GO) tool "-modfile=$(CURDIR)/tools/lint/go.mod" golangci-lint
VULN    := $(GO) tool "-modfile=$(CURDIR)/tools/vuln/go.mod" govulncheck

# The modules that are built and tested together: the program, the generator of the kubelet's tables, the SDK for
# detectors, the template that vendors copy, and the language server. The libraries of one must not be in another.
MODULES := . tools/kubetables plugins examples/detector-template editors/prelet-ls

KUBETABLES := $(CURDIR)/internal/model/kubelet/known/tables.txt

# What `make test` tests in each module.
PACKAGES ?= ./...

# How long `make fuzz` stays with each target, and how often `make bench` runs each program.
T ?= 30s
N ?= 15
FAIL_ABOVE ?= 0

# The built components of Kubernetes: 0.5 GB.
KUBE_CACHE := $(or $(PRELET_KUBE_CACHE),$(CURDIR)/test/kube/.cache)
# Compiles like `make build` and test/kube/build.sh, so that no package is compiled twice: four minutes for test/kube.
AS_BUILT := CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath" $(GO)
# The tests, and what they build, compile like `make build`, too, with the writer of manual pages in addition. -vet=off:
# `make lint` runs go vet. -s: a hundred programs are linked, each in three quarters of the time.
TEST     := CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS),man" $(GO) test -vet=off -ldflags='-s -w'

# The suite of Debian that machines boot, bookworm unless this is another: its image is in a folder of that name.
SUITE      ?= bookworm
BOOT_CACHE := $(CURDIR)/test/boot/.cache$(if $(filter-out bookworm,$(SUITE)),/$(SUITE))
# Those that debs are installed in; rpms and releases are tested in these two.
SUITES     ?= bookworm trixie

DESTDIR ?=
PREFIX  ?= /usr
# Where `build` puts programs, and `install` takes them from. GOARCH in the environment selects another architecture.
BIN     ?= bin

##@ For every change

.PHONY: help
help: ## print this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z0-9-]*:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build the programs of cmd/, static, into bin/
	$(BUILD) -o "$(BIN)/" ./cmd/...

.PHONY: language-server
language-server: ## build the language server for editors, bin/prelet-ls
	cd editors/prelet-ls && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o ../../bin/ .

.PHONY: demo
demo: ## plan, run, run again and explain on a recorded GPU machine
	$(BUILD) -o bin/bench/ ./cmd/prelet ./bench/serve
	ln -f bin/bench/prelet bin/prelet
	internal/testing/demo/tour.sh

.PHONY: machines
machines: ## write recorded machines for --hardware into bin/machines
	$(GO) run ./tools/machines testdata/hardware/spec bin/machines

.PHONY: check
check: build test-all lint check-docs ## run before each commit: build, test, lint, generated files (10 minutes)

# GOGC: no collections below GOMEMLIMIT, which saves a tenth of the time of compilers. 500 MiB of garbage are not enough
# for the limit of an evaluation, 512 MiB.
# TMPDIR: the tests make and remove many small files, and in memory that takes a third less time. -p 4: some packages
# mostly wait. The folder is the same each time, or go would cache no result. tools/kubetables: make test-kubetables.
# umask: tests make files that, on a node, every user may read.
.PHONY: test
test: export PRELET_SWEEP ?= quick
test: ## run the tests that need only Go, of the longest a quarter
	@umask 022; fast=$$(tools/fast.sh); dir=$$fast/prelet-test-$$(id -u)-$$(echo "$$PWD" | cksum | cut -d' ' -f1); \
	rm -rf "$$dir"; mkdir -m 755 "$$dir"; \
	trap 'rm -rf "$$dir"' EXIT; \
	for m in $(filter-out tools/kubetables,$(MODULES)); do \
		workspace=; [ "$$m" != editors/prelet-ls ] || workspace="$(CURDIR)/editors/test.work"; \
		(cd $$m && GOWORK=$$workspace TMPDIR=$$dir GOGC=off GOMEMLIMIT=500MiB $(TEST) -p 4 -timeout $(or $(TIMEOUT),20m) \
			$(PACKAGES)); \
	done

.PHONY: test-all
test-all: ## run the tests that need only Go, with the samples of make check
	@PRELET_SWEEP= $(MAKE) --no-print-directory test

.PHONY: tiers
tiers: ## measure what the tiers of tests cost, and write that into docs/develop/testing.md (15 minutes)
	tools/tiers.sh

.PHONY: test-kubetables
test-kubetables: ## run the tests of the generator of the kubelet's tables, which is in no program
	cd tools/kubetables && $(TEST) ./...

.PHONY: test-root
test-root: ## run those tests that need root, of owners and of folders that other users write
	@$(TEST) -count=1 ./internal/plan/lang ./internal/platform/atomicfile ./internal/platform/nodefile \
		./internal/machine/generation ./internal/model/functions ./internal/machine/detector

.PHONY: lint
lint: ## run golangci-lint: style, line length, complexity
	@for m in $(MODULES); do (cd $$m && $(LINT) run); done

.PHONY: generate
generate: ## regenerate the files that are made from code, such as the reference pages
	@for m in $(MODULES); do (cd $$m && $(GO) generate ./...); done

.PHONY: proto
proto: ## regenerate the Go code of the detector protocol
	tools/proto.sh write

.PHONY: check-proto
check-proto: ## fail if that code is stale or the protocol has a breaking change
	tools/proto.sh check

.PHONY: detectors
detectors: build ## build the shipped detectors and detector-check into bin/detectors/
	cd plugins && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "$(LDFLAGS)" \
		-o ../bin/detectors/ ./cmd/...
	@# NVML is opened with dlopen, and missing functions are detected when they are called, so never -z now.
	@if printf '#include <dlfcn.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1; then \
		cd plugins && CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -tags nvml,grpcnotrace \
			-ldflags "$(LDFLAGS) -extldflags=-Wl,-z,lazy" -o ../bin/detectors/nvidia ./cmd/nvidia; \
	else echo "nvidia is built without NVML, because no C compiler was found" >&2; fi

.PHONY: e2e-detectors
e2e-detectors: build packages ## test detectors and their packages (C compiler, ovsdb-server, python3-grpcio, Node.js)
	tools/detectors.sh

.PHONY: e2e-nfd
e2e-nfd: ## give a feature file to the real worker of Node Feature Discovery, as root
	cd tools/peers/nfd && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' \
		-o "$(CURDIR)/bin/nfd-worker" tool
	PRELET_NFD_WORKER="$(CURDIR)/bin/nfd-worker" $(GO) test -count=1 -v -run '^TestFeatures$$' ./internal/model/functions

.PHONY: e2e-registry
e2e-registry: build ## push and pull sites with the registry of the distribution project, with TLS and a password
	cd test/registry && $(GO) test -count=1 .

.PHONY: e2e-autoscalers
e2e-autoscalers: build machines ## read `plan -o capacity` and recipes by the types of Cluster API and Karpenter
	cd test/autoscalers && PRELET_AUTOSCALERS="$(CURDIR)/bin/prelet" $(GO) test -count=1 .

.PHONY: e2e-arm64
e2e-arm64: ## compare the plans of all recorded machines on amd64 and arm64 (on amd64, with qemu-user-static by binfmt_misc)
	PRELET_ARM64=1 $(GO) test -vet=off -count=1 -v ./test/arm64

# qemu-user has neither Landlock, seccomp nor the reaping of orphans, and its own memory counts as that of a detector.
# There, packages and tests that start detectors, or ask a kubelet, are left out; `make e2e-image ARCH=arm64` does both.
NOT_EMULATED := internal/machine/detector|internal/machine/probe/kubeletbin|plugins/conformance
SKIPPED      := TestConforms|TestDetector/conforms|TestRuntimeAnswer
.PHONY: test-arm64
test-arm64: ## run the tests of `make test` as programs of arm64 (natively, or qemu-user-static by binfmt_misc: hours)
	@if [ "$$($(GO) env GOHOSTARCH)" = arm64 ]; then exec $(MAKE) test; fi; \
	echo 'left out, because qemu-user lacks what they need: $(NOT_EMULATED), $(SKIPPED), TestBombs, kubelet_program'; \
	PRELET_EMULATED=1 GOARCH=arm64 $(MAKE) test TIMEOUT=3h PACKAGES='-skip "$(SKIPPED)" \
		$$$$($(GO) list $(PACKAGES) | grep -vxE "github.com/prelet/prelet/($(NOT_EMULATED))")'

.PHONY: e2e-monitoring
e2e-monitoring: ## scrape metrics with a real Prometheus, check its alerts and the dashboard (Debian packages)
	PRELET_MONITORING=1 $(GO) test -count=1 ./test/monitoring

.PHONY: e2e-browser
e2e-browser: build machines ## open the pages of `report --html` in a headless Chromium (Debian package)
	cd test/browser && PRELET_BROWSER=1 $(GO) test -count=1 .

.PHONY: e2e-packages
e2e-packages: build ## lint, install, upgrade and remove deb and rpm in SUITES="bookworm trixie", as root; RUN=TestName
	test/packages/roots.sh $(SUITES)
	PRELET_PACKAGES="$(SUITES)" $(AS_BUILT) test -count=1 -v -timeout 60m -run '$(RUN)' ./test/packages

.PHONY: check-krew
check-krew: ## build the archive of the plugin for kubectl, and check its manifest for krew
	PRELET_PACKAGES=1 $(TEST) -count=1 -run TestKrewManifest ./cmd/kubectl-prelet

.PHONY: check-action
check-action: ## run the step of the action for GitHub that builds prelet
	PRELET_ACTION=1 $(TEST) -count=1 -run TestActionBuilds ./cmd/prelet

.PHONY: check-install
check-install: ## tag a copy of this tree, and install the programs with `go install` from its modules, offline
	PRELET_INSTALL=1 $(TEST) -count=1 -run TestInstall ./internal/deptest

.PHONY: e2e-recipes
e2e-recipes: build ## make machines by mkosi, cloud-init, Ansible and others, which join a real cluster, as root; RUN=TestName
	test/kube/build.sh "$(KUBE_CACHE)"
	test/recipes/prepare.sh "$(KUBE_CACHE)"
	PRELET_RECIPES=1 PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_BUILT) test -count=1 -v -timeout 30m \
		-run '$(RUN)' ./test/recipes

.PHONY: check-newcomer
check-newcomer: ## build and test as newcomers do, as root: folder, home, user, Go; ROWS="user old" selects, WHOLE=1 tests all
	tools/newcomer.sh $(ROWS)

.PHONY: check-vscode
check-vscode: ## test the extension and the grammar for VS Code (Node.js, packages of npm)
	cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund && npm test

.PHONY: kubetables
kubetables: ## add RELEASE=1.38.0-rc.0 to the tables of kubelet versions; without it read all again (700 MB, once)
	cd tools/kubetables && $(GO) run . "$(KUBETABLES)" $(RELEASE)

.PHONY: kubediff
kubediff: ## list what a person has to judge between two releases of the kubelet, OLD=1.36.3 NEW=1.37.1, with the rules
	@cd tools/kubetables && $(GO) run . diff "$(CURDIR)/internal/model/kubelet/rules/rules.txt" $(OLD) $(NEW)

.PHONY: kubetables-check
kubetables-check: kubetables ## fail if these tables are stale, and compare the rules with that source
	git diff --exit-code "$(KUBETABLES)"
	cd tools/kubetables && $(GO) test -count=1 .

.PHONY: check-docs
check-docs: ## fail if a reference page is stale or a link is broken (Node.js for the links)
	tools/check-docs.sh

.PHONY: site
site: ## write the documentation as a web site into bin/site, and search it (Node.js, npm once); SITE_URL=https://…
	cd tools/site && { [ node_modules/.package-lock.json -nt package-lock.json ] || \
		npm ci --ignore-scripts --no-audit --no-fund; }
	cd tools/site && VERSION="$(VERSION)" npm run --silent build

.PHONY: picture
picture: build machines ## make docs/images/report.png again, the picture in README.md (Chromium)
	cd test/browser && PRELET_BROWSER=1 PRELET_PICTURE=1 $(GO) test -count=1 -run '^TestPicture$$' .
	chmod 644 docs/images/report.png test/browser/testdata/picture.txt

##@ Longer checks

# The packages with a go statement, and internal/machine/probe, which several goroutines ask; race-all takes all. Most scenarios
# start one goroutine; those that ask clusters, detectors and fleets are run also for every change.
.PHONY: race
race: ## run the tests of what starts goroutines with the race detector (C compiler)
	@for m in . plugins; do (cd $$m; \
		with_go=$$($(GO) list -f '{{$$d := .Dir}}{{range .GoFiles}}{{$$d}}/{{.}}{{"\n"}}{{end}}' ./... | \
			xargs grep -lE '^\s+go |\.Go\(' | xargs -n 1 dirname | sort -u || true); \
		CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout 20m $$with_go $$([ $$m != . ] || echo ./internal/machine/probe/...)); done
	PRELET_SWEEP= CGO_ENABLED=1 $(GO) test -race -vet=off -run 'TestScenarios/(net|detect|wait|fleet|test)' ./cmd/prelet

# TestBombs measures memory, of which the detector takes several times as much.
.PHONY: race-all
race-all: ## run all tests with the race detector (20 minutes, C compiler)
	@for m in $(MODULES); do (cd $$m && CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 90m -skip '^Test(Bombs|Asserts)$$' ./...); done

.PHONY: vulnerabilities
vulnerabilities: ## list known vulnerabilities in linked packages (needs vuln.go.dev)
	@for m in $(MODULES); do (cd $$m && $(VULN) -tags "$(TAGS)" ./...); done
	cd plugins && CGO_ENABLED=1 $(VULN) -tags "nvml $(TAGS)" ./detectors/nvidia
	for os in darwin windows; do GOOS=$$os $(VULN) ./cmd/kubectl-prelet; done

.PHONY: secrets
secrets: ## fail if a secret is in the history or in the work tree, and if the scanner finds no made-up one
	tools/secrets.sh

.PHONY: fuzz-seeds
fuzz-seeds: ## run each fuzz target on its seeds and on earlier findings
	@for m in $(MODULES); do (cd $$m && "$(CURDIR)/tools/fuzz.sh" seeds); done

.PHONY: fuzz
fuzz: ## run each fuzz target for T=30s with new inputs
	@failed=0; for m in $(MODULES); do (cd $$m && "$(CURDIR)/tools/fuzz.sh" $(T)) || failed=1; done; exit $$failed

.PHONY: bench
bench: build ## compare prelet with the floor by hyperfine, N=15 rounds; FAIL_ABOVE=1.5 fails above 1.5 times a budget
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/bench/ ./bench/...
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w" -o bin/bench/ ./bench/vendor
	bench/bench.sh $(N) $(FAIL_ABOVE)

# DOCS: rewrite bench/README.md; DOCS= only prints. NODEADM: a newer program than the newest that Go's module proxy has.
DOCS ?= 1
.PHONY: bench-peers
bench-peers: build ## measure prelet and its peers by hyperfine, N=15 rounds, as root; rewrites bench/README.md unless DOCS=
	test/kube/build.sh "$(KUBE_CACHE)"
	tools/peers/build.sh tools/peers/.cache
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/bench/ ./bench/... ./tools/machines
	cd test/kube && $(AS_BUILT) build -buildvcs=false -o ../../bin/bench/ ./cmd/cluster
	NODEADM="$(NODEADM)" bench/peers.sh $(N) "$(KUBE_CACHE)" tools/peers/.cache
	bench/page.sh bin/peers.jsonl $(if $(DOCS),docs)

.PHONY: size
size: build ## fail if the program is larger than its limit
	@tools/size.sh bin/prelet

.PHONY: image
image: ## build the Debian image that e2e-boot boots, as root
	test/boot/image.sh --base "$(BOOT_CACHE)"

.PHONY: kubernetes
kubernetes: ## build the Kubernetes components that e2e-kube starts (minutes, once)
	test/kube/build.sh "$(KUBE_CACHE)"

.PHONY: e2e-boot
e2e-boot: check-suite build packages ## boot a real systemd in containers, as root; SUITE=trixie, SAMPLE=4: one script in 4, RUN=TestName
	rm -rf bin/boot
	CGO_ENABLED=0 tools/package.sh "$(VERSION)" bin/boot
	test/boot/image.sh "$(BOOT_CACHE)"
	cd test/boot && PRELET_BOOT_CACHE="$(BOOT_CACHE)" PRELET_BOOT_SAMPLE=$(SAMPLE) \
		$(if $(shell ls -d "$(KUBE_CACHE)/helpers" 2>/dev/null),PRELET_KUBE_CACHE="$(KUBE_CACHE)") \
		$(GO) test -count=1 -v -timeout 45m -parallel 4 -run '$(RUN)' .

.PHONY: check-suite
check-suite:
	@case "$(SUITE)" in bullseye | bookworm | trixie | forky | sid) ;; \
	*) echo 'SUITE=$(SUITE) is none of bullseye, bookworm, trixie, forky, sid' >&2; exit 64 ;; esac

.PHONY: e2e-runtime
e2e-runtime: build ## restart a real containerd 2, under a real systemd and kubelet; start 3 old versions, as root (builds them once)
	test/kube/build.sh "$(KUBE_CACHE)"
	test/boot/containerd/build.sh test/boot/.cache
	test/boot/image.sh
	cd test/boot && PRELET_BOOT_CACHE="$(CURDIR)/test/boot/.cache" PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		PRELET_CONTAINERD="$(CURDIR)/test/boot/.cache/containerd" $(AS_BUILT) test -count=1 -v -timeout 30m \
		-run '^(TestContainerd|TestRuntimes|TestRuntimeJudge)$$' .

.PHONY: e2e-hostile
e2e-hostile: build packages ## run hostile detectors under the hardened unit, booted, as root; RUN=TestName selects
	test/boot/image.sh "$(BOOT_CACHE)"
	cd test/detectors && PRELET_BOOT_CACHE="$(BOOT_CACHE)" $(GO) test -count=1 -v -timeout 15m -run '$(RUN)' .

.PHONY: e2e-kube
e2e-kube: build machines ## join a real cluster with a real kubelet, as root; RUN=TestName selects
	$(BUILD) -o bin/bench/ ./test/effective
	test/kube/build.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_BUILT) test -count=1 -v -timeout 30m -parallel 3 -run '$(RUN)' .

# ARCH=arm64: needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, and qemu-user-static in binfmt_misc, which runs its
# programs while packages and image are built. Its machine is emulated. KEEP=1: the image that is there.
FOR_arm64 := CC=aarch64-linux-gnu-gcc QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
GOLDEN := bin/golden$(ARCH:%=-%)
.PHONY: e2e-image
e2e-image: build ## boot a golden image in QEMU and join a real cluster with it, as root; ARCH=arm64, RUN=TestName selects
	test/kube/build.sh "$(KUBE_CACHE)"
ifeq ($(KEEP),)
	rm -rf $(GOLDEN)
	GOARCH=$(ARCH) $(FOR_$(ARCH)) $(MAKE) detectors BIN=$(GOLDEN)/bin
	GOARCH=$(ARCH) $(FOR_$(ARCH)) tools/packages.sh "$(VERSION)" $(GOLDEN)
	GOARCH=$(ARCH) BIN=$(GOLDEN)/bin CGO_ENABLED=0 tools/package.sh "$(VERSION)" $(GOLDEN)
	GOARCH=$(ARCH) test/kube/image/build.sh $(GOLDEN)/disk.raw "$(KUBE_CACHE)" $(GOLDEN)/prelet_*.deb
endif
	cd test/kube/image && PRELET_IMAGE="$(CURDIR)/$(GOLDEN)/disk.raw" PRELET_IMAGE_ARCH=$(ARCH) \
		PRELET_KUBE_CACHE="$(KUBE_CACHE)" $(AS_BUILT) test -count=1 -json -timeout 180m -skip '^TestSELinux$$' \
		-run '$(RUN)' . | (cd "$(CURDIR)" && $(GO) run ./tools/matrix -record image \
		$(if $(RUN)$(KEEP),,test/kube/image/.cache/$(or $(ARCH),$(shell $(GO) env GOARCH)).json))

# The journals of these boots are in bin/selinux/journal.txt.
.PHONY: e2e-selinux
e2e-selinux: build packages ## boot a golden image with SELinux enforcing in QEMU, and change it, as root
	test/kube/build.sh "$(KUBE_CACHE)"
	rm -rf bin/selinux
	CGO_ENABLED=0 tools/package.sh "$(VERSION)" bin/selinux
	PACKAGES="selinux-policy-default policycoreutils selinux-utils" CMDLINE="security=selinux selinux=1 enforcing=1" \
		test/kube/image/build.sh bin/selinux/disk.raw "$(KUBE_CACHE)" bin/selinux/prelet_*.deb dist/prelet-detector-lldp_*.deb
	cd test/kube/image && PRELET_SELINUX_IMAGE="$(CURDIR)/bin/selinux/disk.raw" PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		$(AS_BUILT) test -count=1 -v -timeout 60m -run '^TestSELinux$$' .

.PHONY: kubelet-agreement
kubelet-agreement: build ## compare plan with the real kubelet on N=100 random inputs of each kind, as root; SEED= OLD=1 UNITS=1
	$(BUILD) -o bin/bench/ ./test/effective
	test/kube/build.sh "$(KUBE_CACHE)"
	$(if $(OLD),test/kube/build.sh "$(KUBE_CACHE)" old)
	cd test/kube && PRELET_KUBE_AGREEMENT_CASES=$(if $(filter file,$(origin N)),100,$(N)) \
		PRELET_KUBE_AGREEMENT_SEED=$(or $(SEED),random) PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		PRELET_KUBE_AGREEMENT_KIND=$(if $(UNITS),unit) \
		PRELET_KUBE_OLD=$(OLD) $(AS_BUILT) test -count=1 -v -timeout 90m -run '^TestAgreement$$' .

.PHONY: kubelet-upgrades
kubelet-upgrades: build ## compare upgrade with real kubelets of six minor versions on N=40 random nodes, as root; SEED=
	test/kube/build.sh "$(KUBE_CACHE)"
	test/kube/minors.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_NEWER_CASES=$(if $(filter file,$(origin N)),40,$(N)) \
		PRELET_KUBE_AGREEMENT_SEED=$(or $(SEED),random) PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		$(AS_BUILT) test -count=1 -v -timeout 90m -run '^(TestNewerKubelets|TestDryRunsOfMinors)$$' .

.PHONY: storm
storm: build ## boot N=1000 nodes at once against one slow API server that is killed and restarted, as root
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/bench/ ./bench/...
	test/kube/build.sh "$(KUBE_CACHE)"
	cd test/kube && PRELET_KUBE_STORM=$(if $(filter file,$(origin N)),1000,$(N)) PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		$(AS_BUILT) test -count=1 -v -timeout 20m -run TestStorm .

.PHONY: e2e-kube-old
e2e-kube-old: build ## join a cluster of an older version, as root (builds it once)
	test/kube/build.sh "$(KUBE_CACHE)"
	test/kube/build.sh "$(KUBE_CACHE)" old
	cd test/kube && PRELET_KUBE_OLD=1 PRELET_KUBE_CACHE="$(KUBE_CACHE)" \
		$(AS_BUILT) test -count=1 -v -timeout 30m -run TestOlderMinor .

MUTATED := ./internal/machine/commit ./internal/plan/... ./internal/machine/detector
.PHONY: mutants
mutants: ## count N=300 small changes of the code that no test of their package fails on; SEED=, MUTATED= selects packages
	PRELET_SWEEP= tools/mutants.sh -n $(if $(filter file,$(origin N)),300,$(N)) -seed $(or $(SEED),1) -o bin/mutants.txt $(MUTATED)

.PHONY: faults
faults: ## kill the writer, cut the power and break the disk at selected points, as root; RUN=TestName selects
	cd test/faults && $(GO) test -count=1 -v -timeout 20m -parallel 2 -run '$(RUN)' .

.PHONY: sweep
sweep: ## the same at every system call on every file system, also in the recovery, as root (hours, before a release)
	cd test/faults && PRELET_FAULTS_SWEEP=$(or $(SWEEP),full) \
		$(GO) test -count=1 -v -timeout 5h -parallel 2 -run '$(RUN)' .

.PHONY: matrix
matrix: ## print which suites of tests have passed on which Debian, by their last results, and update docs/develop/testing.md
	@$(GO) run ./tools/matrix -w

.PHONY: nightly
nightly: ## run what is too long for .ci/run and print a table of times, as root (hours); PARTS="boot kube" selects
	tools/nightly.sh $(PARTS)

##@ Packaging

.PHONY: packages
packages: detectors ## build deb and rpm packages of the shipped detectors into dist/ (needs a C compiler)
	tools/packages.sh "$(VERSION)"

.PHONY: package
package: build ## build deb and rpm packages of prelet and its documentation into dist/
	CGO_ENABLED=0 tools/package.sh "$(VERSION)"

.PHONY: release
release: ## build all files of a release into dist/release/ (C compiler, mksquashfs); RELEASE_KEY_FILE and others sign
	tools/release.sh "$(VERSION)"

AIRGAP  ?= dist/airgap
RELEASE ?= dist/release
.PHONY: airgap
airgap: build ## pack the signed SITE=folder and the files of RELEASE=dist/release into one OCI layout, AIRGAP=dist/airgap
	tools/airgap.sh "$(AIRGAP)" "$(SITE)" "$(RELEASE)"

.PHONY: golden-kubelet
golden-kubelet: ## collect a kubelet for golden-image into kubelet/, from Kubernetes' Debian packages; DEBS="*.deb"
	packaging/image/mmdebstrap/kubelet.sh kubelet $(DEBS)

.PHONY: golden-image
golden-image: package ## build a disk of Debian 12 in dist/golden.raw, as root; KUBELET_VERSION=1.37.1 PARTS="kubelet/ site/"
	ARCH=$$($(GO) env GOARCH) packaging/image/mmdebstrap/build.sh dist/golden.raw $(KUBELET_VERSION) "dist/prelet_$$(tools/version.sh package "$(VERSION)")_$$($(GO) env GOARCH).deb" \
		packaging/image/node $(PARTS)

.PHONY: install
install: build ## install programs, units, completions and man pages; DESTDIR= PREFIX=/usr
	BIN="$(BIN)" VERSION="$(VERSION)" tools/install.sh "$(DESTDIR)" "$(PREFIX)"

.PHONY: install-doc
install-doc: ## install README.md and the pages of docs/ for users; DESTDIR= PREFIX=/usr
	tools/install-doc.sh "$(DESTDIR)$(PREFIX)/share/doc/prelet-doc"

.PHONY: clean
clean: ## remove build output
	rm -rf bin dist

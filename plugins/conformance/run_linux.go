package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sdk"
)

// What is checked, in order.
var titles = [...][2]string{
	{"handshake", "It starts, and prints one line"},
	{"by-hand", "Started by hand it ends"},
	{"description", "Its description is usable"},
	{"stable-description", "Its description is always the same"},
	{"interpreter", "What it needs to run is declared"},
	{"config", "A complete configuration is accepted"},
	{"config-refused", "A wrong configuration is refused, politely"},
	{"detect", "It answers on a machine without its device, and with it"},
	{"deterministic", "The same machine gives the same answer"},
	{"odd", "It survives files that hold what they should not"},
	{"wants", "It answers without what it only wants"},
	{"stuck", "One that waits for ever keeps the others from nothing"},
	{"later-version", "Methods of a later version are refused, and nothing else"},
	{"quiet", "It says little"},
	{"shutdown", "It ends when it is told to"},
	{"no-writes", "It writes nothing"},
	{"no-network", "It uses no network"},
	{"declared", "It asks for nothing that it does not declare"},
}

func title(id string) string {
	for _, t := range titles {
		if t[0] == id {
			return t[1]
		}
	}
	panic("conformance: no title for " + id)
}

func (k *kit) pass(id string) { k.check(id, title(id), Passed, "", "") }

func (k *kit) fail(id string, found error, mend string) {
	k.check(id, title(id), Failed, found.Error(), mend)
}

// run does all checks. What could not be reached is skipped, so that a report always has the same lines.
func (k *kit) run() {
	defer func() {
		if !slices.ContainsFunc(k.report.Checks, func(c Check) bool { return c.ID == "declared" }) {
			k.watched() // it may be why it did not get further
		}
		for _, t := range titles {
			if !slices.ContainsFunc(k.report.Checks, func(c Check) bool { return c.ID == t[0] }) {
				k.check(t[0], t[1], Skipped, "an earlier check failed", "")
			}
		}
		slices.SortStableFunc(k.report.Checks, func(a, b Check) int { return place(a.ID) - place(b.ID) })
	}()
	k.wants = true
	p, client, ok := k.handshake()
	if !ok {
		return
	}
	usable := k.describe(client)
	p.kill()
	k.forgive(k.grants())
	if !usable {
		return
	}
	plain, odd, stuck, err := k.machines(k.report.Description)
	if err != nil {
		k.fail("detect", err, "This is of the machine that checks, not of the detector.")
		return
	}
	p, client, err = k.another()
	if err != nil {
		k.fail("detect", err, "It started once, and not again.")
		return
	}
	defer p.kill()
	k.byHand()
	k.interpreter()
	config := k.config(client)
	if config != nil {
		k.refused(client, config, plain[0])
		if !k.detects(client, config, plain) {
			return
		}
		k.odd(p, client, config, odd)
		k.withoutWants(config, plain)
		k.stuck(config, stuck, plain[0])
		k.dials(config, plain)
	}
	k.laterVersion(p, client)
	k.quiet(p)
	how, err := p.shutdown(k.ctx)
	switch {
	case err != nil:
		k.fail("shutdown", err, "End the program on SIGTERM, or implement plugin.GRPCController. prelet kills it anyway, but who runs it by hand cannot.")
	case p.alive():
		k.fail("shutdown", fmt.Errorf("after %s the detector ended, and something that it started is still there", how), "End what was started before the detector ends.")
	default:
		k.pass("shutdown")
	}
	p.kill()
	k.watched()
}

func place(id string) int {
	return slices.IndexFunc(titles[:], func(t [2]string) bool { return t[0] == id })
}

// another starts one more process and connects to it.
func (k *kit) another() (*process, protocol.Client, error) {
	p, err := k.start(true)
	if err != nil {
		return nil, protocol.Client{}, err
	}
	address, err := p.address()
	if err == nil {
		var c protocol.Client
		if c, err = p.dial(address); err == nil {
			return p, c, nil
		}
	}
	p.kill()
	return nil, protocol.Client{}, err
}

func (k *kit) handshake() (*process, protocol.Client, bool) {
	p, client, err := k.another()
	if err != nil {
		k.fail("handshake", err, "Listen on a Unix socket in $PLUGIN_UNIX_SOCKET_DIR, then print 1|1|unix|PATH|grpc and a newline on standard output, and flush it; say on standard error why you cannot. Nothing is granted before it has described itself, here and where a node locks it.")
		return nil, protocol.Client{}, false
	}
	if p.took > 500*time.Millisecond {
		k.check("handshake", title("handshake"), Note, fmt.Sprintf("it took %v", p.took.Round(time.Millisecond)), "A boot waits for it: do at start only what the handshake needs.")
	} else {
		k.pass("handshake")
	}
	return p, client, true
}

// byHand starts it without the cookie.
func (k *kit) byHand() {
	p, err := k.start(false)
	if err != nil {
		k.fail("by-hand", err, "")
		return
	}
	defer p.kill()
	if !p.ended(2 * time.Second) {
		k.fail("by-hand", errors.New("without "+protocol.CookieKey+" in its environment it waits for something"), "Check "+protocol.CookieKey+"="+protocol.CookieValue+" first; without it, print a help and end.")
		return
	}
	k.pass("by-hand")
}

func (k *kit) describe(client protocol.Client) bool {
	ctx, cancel := context.WithTimeout(k.ctx, 2*time.Second)
	defer cancel()
	d, err := client.Describe(ctx)
	k.report.Description = d
	if err != nil {
		err = explain("Describe", err)
	} else if problems := d.Check(); len(problems) > 0 {
		err = fmt.Errorf("the description is not usable:\n%w", problems)
	}
	if err != nil {
		k.fail("description", err, "Describe looks at nothing, answers at once, and holds to the rules in detector.proto.")
		return false
	}
	k.pass("description")
	again, err := client.Describe(ctx)
	if err == nil && text(again) != text(d) {
		err = errors.New("the second time it is another one:\n" + text(again) + "\ninstead of\n" + text(d))
	}
	if err == nil {
		var p *process
		var other protocol.Client
		if p, other, err = k.another(); err == nil {
			defer p.kill()
			if again, err = other.Describe(ctx); err == nil && text(again) != text(d) {
				err = errors.New("another process gives another one:\n" + text(again) + "\ninstead of\n" + text(d))
			}
		}
	}
	if err != nil {
		k.fail("stable-description", err, "It stands in a lock file: no time, no host name, no order of a map, nothing that was read from the machine.")
		return false
	}
	k.pass("stable-description")
	return true
}

// interpreter looks at a script's first line: its interpreter is a program that the site must grant.
func (k *kit) interpreter() {
	var missing []string
	words := interpreter(k.program)
	if len(words) > 0 && !matches(k.report.Description.Needs.Execute, words[0]) {
		missing = append(missing, words[0]+", of the first line, is not in needs.execute")
	}
	if len(words) > 1 && strings.HasSuffix(words[0], "/env") {
		missing = append(missing, "the first line searches "+words[1]+" in PATH: name it by its path")
	}
	k.judge("interpreter", title("interpreter"), Failed, missing, "Describe needs.execute with the interpreter's path; the site grants it.")
}

// config finds a complete configuration that the detector accepts.
func (k *kit) config(client protocol.Client) map[string]any {
	complete, problems := contract.Config(k.report.Description.Config, k.options.Config)
	if len(problems) > 0 {
		k.fail("config", problems, "Give the check a configuration that fits the description: --config '{…}'.")
		return nil
	}
	ctx, cancel := context.WithTimeout(k.ctx, 2*time.Second)
	defer cancel()
	found, err := client.Validate(ctx, complete)
	if err == nil && len(found) > 0 {
		err = found
	}
	if err != nil {
		k.fail("config", err, "What fits the description is accepted, unless it breaks a rule that the description cannot say. Give the check a right one: --config '{…}'.")
		return nil
	}
	k.pass("config")
	return complete
}

// refused sends what prelet would have refused itself: a lock may be older than the program.
func (k *kit) refused(client protocol.Client, config map[string]any, m machine) {
	var findings []string
	try := func(what, path string, change func(map[string]any)) {
		c := contract.Clone(config).(map[string]any)
		change(c)
		ctx, cancel := context.WithTimeout(k.ctx, 5*time.Second)
		defer cancel()
		r, err := client.DetectorServiceClient.Detect(ctx, &detectorv1.DetectRequest{Config: protocol.StructToProto(c), Root: m.dir})
		switch {
		case status.Code(err) == codes.InvalidArgument:
		case err != nil:
			findings = append(findings, what+": "+short(err.Error()))
		case len(r.GetProblems()) == 0:
			findings = append(findings, what+": it was taken")
		case !slices.ContainsFunc(r.GetProblems(), func(p *detectorv1.Problem) bool { return strings.HasPrefix(p.GetPath(), path) }):
			findings = append(findings, what+": refused, but no problem has the path "+path)
		}
	}
	try("an attribute that is not described", "conformance_unknown", func(c map[string]any) { c["conformance_unknown"] = true })
	for _, a := range k.report.Description.Config {
		var wrong any = []any{map[string]any{"x": 1.0}}
		if a.Type.Kind == contract.List {
			wrong = "x"
		}
		try(a.Name+" of another type", a.Name, func(c map[string]any) { c[a.Name] = wrong })
	}
	if len(findings) > 0 {
		if _, err := client.Describe(k.ctx); err != nil {
			findings = append(findings, "and then it answers no more: "+short(err.Error()))
		}
	}
	k.judge("config-refused", title("config-refused"), Failed, findings, "Answer with problems, each with the path of the attribute, or with the status INVALID_ARGUMENT.")
}

func (k *kit) detect(client protocol.Client, config map[string]any, m machine) (contract.Answer, time.Duration, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.options.Timeout)
	defer cancel()
	began := time.Now()
	a, err := client.Detect(ctx, protocol.Request{Config: config, Devices: m.devices, Root: m.dir})
	took := time.Since(began)
	if err != nil {
		return a, took, explain("Detect", err)
	}
	if problems := k.report.Description.CheckAnswer(a, m.devices); len(problems) > 0 {
		size := proto.Size(protocol.AnswerToProto(a))
		return a, took, fmt.Errorf("the answer breaks the detector's own description (%d bytes):\n%w", size, problems)
	}
	return a, took, contract.Problems(a.Problems).Err()
}

// explain turns a gRPC error into words that a vendor can use. The status stays inside.
func explain(method string, err error) error {
	switch status.Code(err) {
	case codes.Unimplemented:
		return fmt.Errorf("the detector has no method %s of detector.v1.DetectorService: %w", method, err)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s did not end inside its deadline: %w", method, err)
	case codes.ResourceExhausted:
		return fmt.Errorf("%s says more than is allowed: %w", method, err)
	case codes.Unavailable:
		return fmt.Errorf("the detector ended, or closed its connection, during %s: %w", method, err)
	}
	return fmt.Errorf("%s failed: %w", method, err)
}

func (k *kit) detects(client protocol.Client, config map[string]any, machines []machine) bool {
	k.reached = true
	var findings, slow, differ []string
	said := make([]string, len(machines))
	for i, m := range machines {
		a, took, err := k.detect(client, config, m)
		if err != nil {
			findings = append(findings, m.name+": "+err.Error())
			continue
		}
		if took > time.Second {
			slow = append(slow, fmt.Sprintf("%s: it took %v", m.name, took.Round(time.Millisecond)))
		}
		said[i] = text(a)
		if again, _, err := k.detect(client, config, m); err != nil || text(again) != said[i] {
			differ = append(differ, different(m.name+", the second time", said[i], text(again), err))
		}
	}
	if len(findings) > 0 {
		k.judge("detect", title("detect"), Failed, findings, "A machine without the device is an empty answer; a device of which nothing can be read is one with little. Read below the root of the request. Keep to the description.")
		return false
	}
	k.judge("detect", title("detect"), Note, slow, "A boot waits for it.")
	p, other, err := k.another()
	if err != nil {
		differ = append(differ, err.Error())
	} else {
		defer p.kill()
		for i := len(machines) - 1; i >= 0; i-- {
			if again, _, err := k.detect(other, config, machines[i]); err != nil || text(again) != said[i] {
				differ = append(differ, different(machines[i].name+", in another process", said[i], text(again), err))
			}
		}
	}
	k.judge("deterministic", title("deterministic"), Failed, differ, "Sort what comes out of maps and folders; leave out counters, times and temperatures: the plan of a node is compared byte for byte.")
	return true
}

func different(where, a, b string, err error) string {
	if err != nil {
		return where + ": " + err.Error()
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	at := func(s string) string { return short(s[min(len(s), max(0, n-20)):]) }
	return fmt.Sprintf("%s: …%s… and then …%s…", where, at(a), at(b))
}

// odd may end in an answer or in an error, but not in the end of the process, and not in an answer that breaks the rules.
func (k *kit) odd(p *process, client protocol.Client, config map[string]any, m machine) {
	_, _, err := k.detect(client, config, m)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
	default:
		var broken contract.Problems
		if !errors.As(err, &broken) {
			err = nil
		}
	}
	if err == nil && p.ended(0) {
		err = errors.New("the process ended")
	}
	if err != nil {
		k.fail("odd", err, "sysfs holds empty files, \"Unknown!\" and bytes that are no text; drivers and firmware write them. Take what cannot be read for unknown.")
		return
	}
	k.pass("odd")
}

// withoutWants asks a process to which only its needs are granted.
func (k *kit) withoutWants(config map[string]any, machines []machine) {
	if k.report.Description.Wants.Empty() {
		k.check("wants", title("wants"), Passed, "", "")
		return
	}
	k.wants = false
	defer func() { k.wants = true }()
	before := k.tried // what is refused now is declared
	defer func() { k.tried = before }()
	p, client, err := k.another()
	if err != nil {
		k.fail("wants", err, "What it cannot start without belongs into needs.")
		return
	}
	defer p.kill()
	var findings []string
	for _, m := range machines {
		if _, _, err := k.detect(client, config, m); err != nil {
			findings = append(findings, m.name+": "+err.Error())
		}
	}
	k.judge("wants", title("wants"), Failed, findings, "Answer with less, and a warning. What it cannot answer without belongs into needs.")
}

// stuck asks about a machine whose files never end to be read, and then about another one.
func (k *kit) stuck(config map[string]any, m, next machine) {
	p, client, err := k.another()
	if err != nil {
		k.fail("stuck", err, "")
		return
	}
	defer p.kill()
	ctx, cancel := context.WithTimeout(k.ctx, 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = client.DetectorServiceClient.Detect(ctx, protocol.RequestToProto(protocol.Request{Config: config, Devices: m.devices, Root: m.dir}))
	if status.Code(err) == codes.Unavailable {
		k.fail("stuck", fmt.Errorf("the process ended: %w", err), "A file that cannot be read is no reason to die.")
		return
	}
	if took := time.Since(began); took > 2*time.Second {
		k.fail("stuck", fmt.Errorf("a deadline of 300 ms ended after %v", took.Round(time.Millisecond)), "")
		return
	}
	if _, _, err := k.detect(client, config, next); err != nil {
		k.fail("stuck", fmt.Errorf("after a call that ran out of time, the next one: %w", err), "Answer calls in threads of their own, and keep the deadline of each.")
		return
	}
	k.pass("stuck")
}

// dials lets a process make sockets and looks where they go. What it answers does not matter here.
func (k *kit) dials(config map[string]any, machines []machine) {
	k.sockets = true
	defer func() { k.sockets = false }()
	p, client, err := k.another()
	if err != nil {
		return // it started before, without sockets
	}
	defer p.kill()
	for _, m := range machines {
		_, _, _ = k.detect(client, config, m)
	}
}

func (k *kit) laterVersion(p *process, client protocol.Client) {
	ctx, cancel := context.WithTimeout(k.ctx, 2*time.Second)
	defer cancel()
	err := p.unknownMethod(ctx)
	if status.Code(err) != codes.Unimplemented {
		k.fail("later-version", fmt.Errorf("want the status UNIMPLEMENTED, got %v", err), "Leave methods that you do not know to the gRPC library.")
		return
	}
	if _, err := client.Describe(ctx); err != nil {
		k.fail("later-version", err, "")
		return
	}
	k.pass("later-version")
}

func (k *kit) quiet(p *process) {
	var findings []string
	if said, n := p.stdout.text(); n > int64(len(p.line))+1 {
		rest, _ := strings.CutPrefix(said, p.line)
		findings = append(findings, "on standard output, after the handshake: "+short(rest))
	}
	if said, n := p.stderr.text(); n > 2048 {
		findings = append(findings, fmt.Sprintf("%d bytes on standard error: %s", n, short(said)))
	}
	k.judge("quiet", title("quiet"), Note, findings, "prelet keeps the first 16 KiB of standard error, and shows them when the detector fails: what stands there should say why.")
}

func scan(dir string) []contract.PCIDevice {
	r, err := sdk.NewRoot(dir)
	if err != nil {
		return nil
	}
	return r.PCIDevices()
}

// text is for comparing, and deterministic.
func text(v any) string {
	if m, ok := v.(proto.Message); ok {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // a message that came over the wire
		return string(b)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "?" + err.Error()
	}
	return b.String()
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// callTimeout limits Describe and Validate, which read nothing.
const callTimeout = 2 * time.Second

// runChecks runs the checks until one fails that the others depend on.
func (k *kit) runChecks() {
	if !k.checkDescription() {
		return
	}

	// The first process was started without grants, because its description was not known. All later ones have grants
	// and would repeat its attempts.
	k.attempts = nil
	k.grants = mergeNeeds(k.description.Needs, k.description.Wants)

	plain, odd, stuck, err := k.makeMachines()
	if err != nil {
		k.recordError("detect", err, "This error is about the machine that runs the check, not about the detector.")
		return
	}
	p, client, err := k.connect()
	if err != nil {
		k.recordError("detect", err, "The program started once and could not be started again.")
		return
	}
	defer p.kill()

	k.checkByHand()
	k.checkInterpreter()
	if config := k.checkConfig(client); config != nil {
		k.checkConfigRefused(client, config, plain[0])
		if !k.checkDetect(client, config, plain) {
			return
		}
		k.checkZeros(client, config, plain)
		k.checkOdd(p, client, config, odd)
		k.checkWants(config, plain)
		k.checkStuck(config, stuck, plain[0])
	}
	k.checkShutdown(p)
}

// mergeNeeds returns the union of two lists of needs.
func mergeNeeds(a, b contract.Needs) contract.Needs {
	return contract.Needs{
		Devices: slices.Concat(a.Devices, b.Devices),
		Read:    slices.Concat(a.Read, b.Read),
		Execute: slices.Concat(a.Execute, b.Execute),
		Sockets: slices.Concat(a.Sockets, b.Sockets),
	}
}

// checkDescription runs the checks of the first process, and reports whether the description is usable.
func (k *kit) checkDescription() bool {
	p, client, err := k.connect()
	const fixHandshake = "Listen on a Unix socket in $PLUGIN_UNIX_SOCKET_DIR, then print 1|1|unix|PATH|grpc " +
		"and a newline to standard output and flush it. If you cannot start, write the reason to standard error. " +
		"Nothing is granted until the description is known, here and when a node locks the program."
	if !k.recordError("handshake", err, fixHandshake) {
		return false
	}
	defer p.kill()
	if p.startup > k.patient(500*time.Millisecond) {
		slow := []string{fmt.Sprintf("it took %v", p.startup.Round(time.Millisecond))}
		k.record("handshake", Note, slow, "A boot waits for it. Do only the handshake at start.")
	}

	d, err := k.describe(client)
	k.description = d
	const fixDescription = "Describe reads nothing, returns at once and follows the rules in detector.proto."
	if !k.recordError("description", err, fixDescription) {
		return false
	}

	const fixStable = "The description is kept in a lock file. It must not depend on time, host name, map order or " +
		"the machine."
	return k.recordError("stable-description", k.compareDescriptions(client), fixStable)
}

// describe returns the detector's description, checked.
func (k *kit) describe(client protocol.Client) (contract.Description, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.patient(callTimeout))
	defer cancel()

	d, err := client.Describe(ctx)
	if err != nil {
		return d, fmt.Errorf("calling Describe: %w", err)
	}
	if problems := d.Check(); len(problems) > 0 {
		return d, fmt.Errorf("invalid description:\n%w", problems)
	}

	return d, nil
}

// compareDescriptions describes again in the same process and in another one.
func (k *kit) compareDescriptions(client protocol.Client) error {
	p, other, err := k.connect()
	if err != nil {
		return err
	}
	defer p.kill()

	want := toJSON(k.description)
	for _, c := range []struct {
		where  string
		client protocol.Client
	}{{"second call", client}, {"another process", other}} {
		d, err := k.describe(c.client)
		if err != nil {
			return fmt.Errorf("%s: %w", c.where, err)
		}
		if got := toJSON(d); got != want {
			const text = "%s returned a different description:\n%s\ninstead of\n%s"
			return fmt.Errorf(text, c.where, got, want)
		}
	}

	return nil
}

// checkByHand starts the program without the cookie.
func (k *kit) checkByHand() {
	p, err := k.start(false)
	if err == nil {
		defer p.kill()
		if !p.waitForExit(k.patient(2 * time.Second)) {
			err = errors.New("without " + protocol.CookieKey + " in its environment it does not end")
		}
	}
	const fix = "At start check " + protocol.CookieKey + "=" + protocol.CookieValue +
		". Without it, print a help text and exit."
	k.recordError("by-hand", err, fix)
}

// checkInterpreter looks at a script's first line: the site must grant the interpreter.
func (k *kit) checkInterpreter() {
	var findings []string
	words, _ := contract.Interpreter(k.program)
	needs := k.description.Needs
	if len(words) > 0 && !matchesAny(needs.Execute, words[0]) {
		findings = append(findings, words[0]+" in its first line is missing in needs.execute")
	}
	if len(words) > 1 && strings.HasSuffix(words[0], "/env") {
		findings = append(findings, "its first line searches "+words[1]+" in PATH: write the full path instead")
	}
	const fix = "Describe needs.execute with the interpreter's path, so that a site can grant it."
	k.record("interpreter", Failed, findings, fix)
}

// checkConfig returns a complete configuration that the detector accepts, or nil.
func (k *kit) checkConfig(client protocol.Client) map[string]any {
	complete, problems := contract.Config(k.description.Config, k.options.Config)
	if len(problems) > 0 {
		const fix = "Run the check with a configuration that fits the description: --detector-config '{…}'."
		k.recordError("config", problems, fix)
		return nil
	}

	ctx, cancel := context.WithTimeout(k.ctx, k.patient(callTimeout))
	defer cancel()
	problems, err := client.Validate(ctx, complete)
	if err == nil {
		err = problems.Err()
	}
	const fix = "Accept a configuration that fits the description, unless it breaks a rule that the " +
		"description cannot express. Then run the check with a valid one: --detector-config '{…}'."
	if !k.recordError("config", err, fix) {
		return nil
	}

	return complete
}

// checkConfigRefused sends configurations that prelet itself would reject: a lock may be older than the program.
func (k *kit) checkConfigRefused(client protocol.Client, config map[string]any, m machine) {
	var findings []string
	try := func(what, attribute string, value any) {
		invalid := contract.Clone(config).(map[string]any)
		invalid[attribute] = value
		if finding := k.sendInvalid(client, invalid, attribute, m); finding != "" {
			findings = append(findings, what+": "+finding)
		}
	}

	const unknown = "conformance_unknown"
	try("an attribute that is not described", unknown, true)
	for _, a := range k.description.Config {
		var wrong any = []any{map[string]any{"x": 1.0}}
		if a.Type.Kind == contract.List {
			wrong = "x"
		}
		try(a.Name+" of another type", a.Name, wrong)
	}
	const fix = "Answer with problems, each with the path of the attribute, or with the status INVALID_ARGUMENT."
	k.record("config-refused", Failed, findings, fix)
}

// sendInvalid asks with an invalid attribute and returns the fault of the response, if any.
func (k *kit) sendInvalid(
	client protocol.Client,
	config map[string]any,
	attribute string,
	m machine,
) string {
	ctx, cancel := context.WithTimeout(k.ctx, k.patient(5*time.Second))
	defer cancel()

	request, err := protocol.ToProto[detectorv1.DetectRequest](contract.Request{Config: config, Root: m.dir})
	if err != nil {
		return err.Error()
	}
	r, err := client.DetectorServiceClient.Detect(ctx, request)
	namesAttribute := func(p *detectorv1.Problem) bool {
		return strings.HasPrefix(p.GetPath(), attribute)
	}
	switch {
	case status.Code(err) == codes.InvalidArgument:
		return ""
	case err != nil:
		return shorten(err.Error())
	case len(r.GetProblems()) == 0:
		return "accepted, want a problem"
	case !slices.ContainsFunc(r.GetProblems(), namesAttribute):
		return "no problem has the path " + attribute
	}

	return ""
}

// detect asks about a machine and checks the answer.
func (k *kit) detect(
	client protocol.Client, config map[string]any, m machine,
) (contract.Answer, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.options.Timeout)
	defer cancel()

	request := contract.Request{
		Config:  config,
		Devices: m.devices,
		Root:    m.dir,
	}
	a, err := client.Detect(ctx, request)
	if err != nil {
		return a, fmt.Errorf("calling Detect: %w", err)
	}
	if problems := k.description.CheckAnswer(a, m.devices); len(problems) > 0 {
		return a, fmt.Errorf("the answer breaks the detector's own description:\n%w", problems)
	}

	return a, contract.Problems(a.Problems).Err()
}

// checkDetect asks about each machine twice, and then in another process in reverse order. It reports whether all
// answers are valid.
func (k *kit) checkDetect(
	client protocol.Client,
	config map[string]any,
	machines []machine,
) bool {
	k.isAsked = true
	answers := make([]string, len(machines))
	var invalid, notes, different []string

	for i, m := range machines {
		began := time.Now()
		a, err := k.detect(client, config, m)
		if err != nil {
			invalid = append(invalid, m.name+": "+err.Error())
			continue
		}
		took := time.Since(began).Round(time.Millisecond)
		if took > k.patient(time.Second) {
			notes = append(notes, fmt.Sprintf("%s: it took %v", m.name, took))
		}
		for _, l := range a.Labels {
			if l.Value == "" {
				notes = append(notes, m.name+": label "+l.Key+" has no value")
			}
		}

		answers[i] = toJSON(a)
		difference := k.compareAnswer(client, config, m, answers[i])
		if difference != "" {
			different = append(different, m.name+", second call: "+difference)
		}
	}
	if len(invalid) > 0 {
		const fix = "Without the device return an empty answer; leave out what cannot be read. " +
			"Read below the root of the request. Follow the description."
		k.record("detect", Failed, invalid, fix)
		return false
	}
	k.record("detect", Note, notes, "A boot waits for the answer. Recommend no label without a value.")

	p, other, err := k.connect()
	if err != nil {
		different = append(different, err.Error())
	} else {
		defer p.kill()
		for i, m := range slices.Backward(machines) {
			difference := k.compareAnswer(other, config, m, answers[i])
			if difference != "" {
				different = append(different, m.name+", another process: "+difference)
			}
		}
	}
	const fix = "Sort the content of maps and folders; leave out counters, times and temperatures. " +
		"Plans of a node are compared byte by byte."
	k.record("deterministic", Failed, different, fix)

	return true
}

// compareAnswer asks again and returns how the answer differs, if it does.
func (k *kit) compareAnswer(
	client protocol.Client,
	config map[string]any,
	m machine,
	want string,
) string {
	a, err := k.detect(client, config, m)
	if err != nil {
		return err.Error()
	}

	got := toJSON(a)
	if got == want {
		return ""
	}

	n := 0
	shorter := min(len(got), len(want))
	for n < shorter && got[n] == want[n] {
		n++
	}
	start := max(0, n-20)
	first := shorten(want[start:])
	second := shorten(got[start:])

	return fmt.Sprintf("first …%s…, then …%s…", first, second)
}

// checkOdd asks about a machine with spoilt files. An error is a valid response; the end of the process and an answer
// that breaks the description are not.
func (k *kit) checkOdd(
	p *process,
	client protocol.Client,
	config map[string]any,
	m machine,
) {
	_, err := k.detect(client, config, m)
	var problems contract.Problems
	code := status.Code(err)
	isInvalid := errors.As(err, &problems)
	switch {
	case code == codes.Unavailable:
		err = fmt.Errorf("the process ended: %w", err)
	case !isInvalid && code != codes.DeadlineExceeded:
		err = nil
	}
	if err == nil && p.waitForExit(0) {
		err = errors.New("the process ended")
	}
	const fix = "Drivers and firmware write empty files, \"Unknown!\" and bytes that are not UTF-8 to sysfs. " +
		"Leave out what cannot be read."
	k.recordError("odd", err, fix)
}

// checkWants asks a process that has no more than its needs.
func (k *kit) checkWants(config map[string]any, machines []machine) {
	if k.description.Wants.Empty() {
		k.record("wants", Failed, nil, "")
		return
	}

	if _, err := sandbox.LandlockABI(); err != nil {
		k.checks["wants"] = Finding{State: Skipped, Found: err.Error()}
		return
	}

	grants, attempts := k.grants, k.attempts
	k.grants = k.description.Needs
	defer func() {
		k.grants = grants
		k.attempts = attempts // all refused access was declared
	}()

	p, client, err := k.connect()
	if err != nil {
		k.recordError("wants", err, "Describe in needs what the detector cannot start without.")
		return
	}
	defer p.kill()

	var findings []string
	for _, m := range machines {
		_, err = k.detect(client, config, m)
		if err != nil {
			findings = append(findings, m.name+": "+err.Error())
		}
	}
	const fix = "Answer with less, and a warning. Describe in needs what the detector cannot answer without."
	k.record("wants", Failed, findings, fix)
}

// checkStuck asks about a machine whose files block every reader, and then about another one.
func (k *kit) checkStuck(config map[string]any, stuck, next machine) {
	p, client, err := k.connect()
	if err != nil {
		k.recordError("stuck", err, "The program started once and could not be started again.")
		return
	}
	defer p.kill()

	ctx, cancel := context.WithTimeout(k.ctx, 300*time.Millisecond)
	defer cancel()
	request := contract.Request{
		Config:  config,
		Devices: stuck.devices,
		Root:    stuck.dir,
	}
	_, err = client.Detect(ctx, request)
	if status.Code(err) == codes.Unavailable {
		err = fmt.Errorf("the process ended: %w", err)
		k.recordError("stuck", err, "Keep running when a file cannot be read.")
		return
	}

	if _, err = k.detect(client, config, next); err != nil {
		err = fmt.Errorf("after a call that exceeded its deadline: %w", err)
	}
	k.recordError("stuck", err, "Handle each call in its own thread and observe its deadline.")
}

// checkShutdown asks the program to end.
func (k *kit) checkShutdown(p *process) {
	err := p.shutdown(k.ctx)
	fix := "End the program on SIGTERM, or implement plugin.GRPCController."
	hasGroup := unix.Kill(-p.cmd.Process.Pid, 0) == nil
	if err == nil && hasGroup {
		err = errors.New("the detector ended, but a process that it started is still there")
		fix = "End everything that was started before the detector ends."
	}
	k.recordError("shutdown", err, fix)
}

package systemd

import (
	"context"
	"fmt"
	"path"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// logindTimeout limits the request to logind. A running one responds within a millisecond.
const logindTimeout = 2 * time.Second

// InhibitDelay returns how long the running logind delays a shutdown for a program that asks for it, its
// InhibitDelayMaxSec=. It does not start logind.
func InhibitDelay(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, logindTimeout)
	defer cancel()

	type reply struct {
		delay time.Duration
		err   error
	}
	replies := make(chan reply, 1)
	go func() { // a bus that accepts connections and is not up yet keeps the library waiting
		delay, err := askInhibitDelay(ctx)
		replies <- reply{delay, err}
	}()

	select {
	case r := <-replies:
		return r.delay, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("logind does not answer: %w", context.Cause(ctx))
	}
}

func askInhibitDelay(ctx context.Context) (time.Duration, error) {
	bus, err := godbus.ConnectSystemBus(godbus.WithContext(ctx))
	if err != nil {
		return 0, fmt.Errorf("the system bus does not answer: %w", err)
	}
	defer bus.Close()

	var micros uint64
	err = bus.Object("org.freedesktop.login1", "/org/freedesktop/login1").CallWithContext(
		ctx,
		"org.freedesktop.DBus.Properties.Get",
		godbus.FlagNoAutoStart,
		"org.freedesktop.login1.Manager",
		"InhibitDelayMaxUSec",
	).Store(&micros)
	if err != nil {
		return 0, fmt.Errorf("logind does not answer: %w", err)
	}

	return limitedDuration(micros), nil
}

// LogindFolders are the folders of drop-ins of logind.conf, highest precedence first.
func LogindFolders() []string {
	return []string{
		"/etc/systemd/logind.conf.d",
		"/run/systemd/logind.conf.d",
		"/usr/local/lib/systemd/logind.conf.d",
		"/usr/lib/systemd/logind.conf.d",
	}
}

// LogindDropIn is a drop-in that sets InhibitDelayMaxSec=, and the value as it is written.
type LogindDropIn struct{ Path, Value string }

// ReadLogindDropIns returns the drop-ins below a root that set InhibitDelayMaxSec=, in the order in which logind reads
// them: by name, and of two with one name that of the first folder. A drop-in that cannot be read is left out.
func ReadLogindDropIns(root nodefile.Root) (out []LogindDropIn) {
	var files []string
	for _, folder := range LogindFolders() {
		for _, name := range listNames(root, folder) {
			files = append(files, path.Join(folder, name))
		}
	}

	for _, file := range unitfile.MergeDropIns(LogindFolders(), files) {
		text, _, err := readUnitText(root, file, nil)
		value, isSet := unitfile.Last(string(text), "Login", "InhibitDelayMaxSec")
		if err == nil && isSet {
			out = append(out, LogindDropIn{file, value})
		}
	}

	return out
}

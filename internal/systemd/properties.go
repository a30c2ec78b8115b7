package systemd

import (
	"fmt"
	"time"
)

// decode reads a unit's properties as D-Bus types them. A property that is missing leaves its field zero, because a unit that
// is not found or is no service lacks most; one of another type than systemd documents is an error, because guessing here would
// judge a kubelet by a wrong number.
func decode(name string, properties map[string]any) (Unit, error) {
	r := reader{properties: properties}
	state := Unit{
		Name:     name,
		Load:     read[string](&r, "LoadState"),
		File:     read[string](&r, "UnitFileState"),
		Active:   read[string](&r, "ActiveState"),
		Sub:      read[string](&r, "SubState"),
		Result:   read[string](&r, "Result"),
		MainPID:  read[uint32](&r, "MainPID"),
		Restarts: read[uint32](&r, "NRestarts"),
		Started:  time.Duration(read[uint64](&r, "ExecMainStartTimestampMonotonic")) * time.Microsecond,
	}
	if job := read[[]any](&r, "Job"); len(job) > 0 { // (uo): id and path; id 0 is none
		id, ok := job[0].(uint32)
		if !ok {
			r.fail("Job", job)
		}
		state.Job = id
	}
	for _, file := range read[[][]any](&r, "EnvironmentFiles") { // a(sb): path, and whether it may be missing
		if len(file) != 2 {
			r.fail("EnvironmentFiles", file)
			break
		}
		path, okPath := file[0].(string)
		optional, okOptional := file[1].(bool)
		if !okPath || !okOptional {
			r.fail("EnvironmentFiles", file)
			break
		}
		state.EnvironmentFiles = append(state.EnvironmentFiles, struct {
			Path     string
			Optional bool
		}{path, optional})
	}
	if state.Load == "" && r.err == nil {
		r.err = fmt.Errorf("LoadState is missing")
	}
	return state, r.err
}

type reader struct {
	properties map[string]any
	err        error
}

func (r *reader) fail(name string, value any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is a %T, which systemd does not document", name, value)
	}
}

func read[T any](r *reader, name string) T {
	value, present := r.properties[name]
	typed, ok := value.(T)
	if present && !ok {
		r.fail(name, value)
	}
	return typed
}

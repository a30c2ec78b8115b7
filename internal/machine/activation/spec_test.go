package activation

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestPlanComesBack stores a plan with a value in every field, by reflection, so that a new field is in the test. The
// stored text is compared with testdata/plan.json, so that an earlier or later prelet reads what this one writes.
func TestPlanComesBack(t *testing.T) {
	var spec Spec

	fill(reflect.ValueOf(&spec).Elem())
	spec.Retire = []string{"y"} // a retired file is not one of Files

	text, err := spec.Encode()
	if err != nil {
		t.Fatalf("got error %v, want the stored plan", err)
	}

	stored, err := os.ReadFile("testdata/plan.json")
	must(t, err)

	if want := bytes.TrimSpace(stored); !bytes.Equal(text, want) {
		t.Errorf("got the stored plan\n%s\nwant that of testdata/plan.json\n%s", text, want)
	}

	back, err := DecodeSpec(text)
	if err != nil || !reflect.DeepEqual(back, spec) {
		t.Errorf("got plan %+v and error %v after decoding\nwant %+v", back, err, spec)
	}
}

func TestPlanDefaults(t *testing.T) {
	text, err := Spec{}.Encode()
	must(t, err)

	back, err := DecodeSpec(text)
	if err != nil || back.Unit != "kubelet.service" || back.settle() != 10*time.Second ||
		back.Timeout() != 2*time.Minute {
		t.Errorf("got plan %+v and error %v; want the default unit, settle and timeout and no error", back, err)
	}
}

func TestPlanThatContradictsItself(t *testing.T) {
	_, err := Spec{KubeletState: KubeletState{Files: map[string]string{"/b": ""}, Retire: []string{"/b"}}}.Encode()
	if err == nil || !strings.Contains(err.Error(), "/b") {
		t.Errorf("got error %v, want one that names /b, which is both expected and retired",
			err)
	}
}

func TestDecodePlanRefuses(t *testing.T) {
	good := `{"format_version":1,"unit":"kubelet.service","settle_ms":1,"timeout_ms":1,"rollback":true}`
	if _, err := DecodeSpec([]byte(good)); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"nothing":       ``,
		"newer":         strings.Replace(good, `:1,"unit"`, `:3,"unit"`, 1),
		"unknown field": strings.Replace(good, `"rollback"`, `"require_gpu"`, 1),
		"no unit":       strings.Replace(good, `kubelet.service`, ``, 1),
		"no settle":     strings.Replace(good, `"settle_ms":1`, `"settle_ms":0`, 1),
		"no bound":      strings.Replace(good, `"rollback"`, `"bound_ms":-1,"rollback"`, 1),
		"endless":       strings.Replace(good, `"timeout_ms":1`, `"timeout_ms":9223372036854775807`, 1),
	} {
		if spec, err := DecodeSpec([]byte(text)); fault.CodeOf(err) != fault.NeedsPerson {
			t.Errorf("%s: got plan %+v and error %v; want code %s", name, spec, err, fault.NeedsPerson)
		}
	}
}

func FuzzDecodePlan(f *testing.F) {
	f.Add(
		[]byte(
			`{"format_version":1,"unit":"kubelet.service","settle_ms":1,"timeout_ms":1,"rollback":true,"files":{"/a":"b"}}`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := DecodeSpec(text)
		if err != nil {
			return
		}

		again, err := spec.Encode()
		if err != nil {
			return // a file that is both checked and retired
		}

		back, err := DecodeSpec(again)
		if err != nil || back.SettleMillis <= 0 || back.TimeoutMillis <= 0 || back.Unit != spec.Unit {
			t.Errorf("%q → %+v, %v; want the unit and times above 0", text, back, err)
		}
	})
}

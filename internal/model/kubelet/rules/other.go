package rules

import (
	"fmt"

	"github.com/prelet/prelet/internal/model/kubelet"
)

const logSize = "containerLogMaxSize"

func (v value) taint() (taint kubelet.Taint, isObject bool) {
	object, isObject := v.raw.(map[string]any)

	return kubelet.TaintOf(object), isObject
}

func isBadTaint(v value) bool {
	taint, isObject := v.taint()

	return isObject && v.fails(taint.Check())
}

func isRepeatedTaint(v value) bool {
	taint, isObject := v.taint()
	v.why = taint.String()

	return isObject && v.isRepeated("registerWithTaints.*", func(v value) string {
		taint, _ := v.taint()

		return taint.Key + ":" + taint.Effect
	})
}

// isBadLogSize reports a size that the kubelet cannot parse. A negative one disables rotation.
func isBadLogSize(v value) bool {
	size, err := kubelet.ParseQuantity(v.text())
	if _, isInteger := size.AsInt64(); err == nil && !isInteger {
		err = fmt.Errorf("invalid max log size")
	}
	isUnset := v.text() == "" && v.isZeroUnset(logSize)

	return !isUnset && err != nil &&
		v.because(quantityHint, `failed to parse container log max size "{value}": %s`, err)
}

func hasAmount(v value) bool {
	amount, err := v.amount()

	return err == nil && !amount.IsZero()
}

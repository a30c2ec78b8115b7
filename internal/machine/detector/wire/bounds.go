package wire

import (
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// ReplyBounds are the limits of a reply's JSON, higher than those of any valid answer.
var ReplyBounds = tape.Bounds{
	Members:  contract.MaxValues,
	Elements: contract.MaxAnswer / 4,
	Depth:    4 * contract.MaxDepth,
}

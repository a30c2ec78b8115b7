package protocol

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
)

// Explain returns a gRPC status with a message for a detector's developer. It returns other errors as they are. The
// limit is the limit of the call, in bytes. Unavailable means that the connection could not be made or broke.
func Explain(ctx context.Context, err error, limit int) error {
	s, isStatus := status.FromError(err)
	if !isStatus {
		return err
	}

	text := strings.TrimSuffix(s.Message(), ".")
	text, isNotDecoded := strings.CutPrefix(text, "grpc: failed to unmarshal the received message: ")

	// grpc-go wraps errors of the connection in words that do not help.
	for _, wrapped := range []string{"error reading server preface: ", "error reading from server: "} {
		if _, cause, found := strings.Cut(text, wrapped); found {
			text = strings.TrimSuffix(cause, `"`)
		}
	}
	text = contract.Shorten(text, contract.MaxText)
	has := func(part string) bool {
		return strings.Contains(text, part)
	}
	code := s.Code()
	isTooLarge := code == codes.ResourceExhausted && has("larger than max")
	isCompressed := has("Decompressor is not installed") || has("compressed flag")
	isHTTP := has("unexpected HTTP status code") || has("unexpected content-type")
	isNotHTTP2 := has("http2") || has("PROTOCOL_ERROR")

	switch {
	case ctx.Err() != nil || code == codes.DeadlineExceeded:
		return status.Error(codes.DeadlineExceeded, "it exceeded its deadline")
	case isTooLarge:
		text = fmt.Sprintf("its answer is larger than %d KiB", limit>>10)
	case isNotDecoded:
		text = "its answer cannot be read: " + text
	case isCompressed:
		text = "its answer is compressed, which prelet does not accept: " + text
	case isHTTP:
		text = "it speaks HTTP and not gRPC: " + text
	case code == codes.Unimplemented:
		text = "it does not implement the method: " + text
	case code == codes.Unavailable && isNotHTTP2:
		return status.Error(codes.Internal, "it does not speak HTTP/2: "+text)
	case code == codes.Unavailable:
		text = "its socket does not answer: " + text
	case code != codes.Unknown: // which is the error of the detector's own function
		text = fmt.Sprintf("%s (%s)", text, code)
	}

	return status.Error(code, text)
}

package protocol

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// ToProto returns the message with the content of a Request, or of a value of package contract. It fails for numbers
// that a message cannot have. The contract's checks find those before.
func ToProto[Message any](from any) (*Message, error) {
	m := new(Message)

	return m, convert(m, from)
}

// FromProto returns the content of a message, which may be nil. It fails for numbers that are not finite, and checks
// nothing else: contract.Description.Check and CheckAnswer do.
func FromProto[T any](m proto.Message) (out T, err error) {
	err = convert(&out, m)

	return out, err
}

// convert sets a message to the corresponding Go value, or the other way round. Fields correspond if they have the same
// name in JSON, which the generated messages have too. This is not protobuf's own mapping to JSON.
func convert(to, from any) error {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", explainJSON(err))
	}

	return nil
}

// explainJSON returns an error of package json in words of the protocol, without the types of Go.
func explainJSON(err error) error {
	var number *json.UnsupportedValueError
	var message *json.MarshalerError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &number):
		return fmt.Errorf("its number %s is not finite", number.Str)
	case errors.As(err, &message):
		return message.Err
	case errors.As(err, &wrong):
		return fmt.Errorf("its field %s cannot be the %s", wrong.Field, wrong.Value)
	}

	return err
}

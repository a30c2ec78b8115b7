package detectorv1

import "strings"

const kindPrefix = "KIND_"

// MarshalText returns the kind as package contract writes it: "string".
func (k Type_Kind) MarshalText() ([]byte, error) {
	return []byte(strings.ToLower(strings.TrimPrefix(k.String(), kindPrefix))), nil
}

// UnmarshalText sets the kind to one of package contract. An unknown one is not specified.
func (k *Type_Kind) UnmarshalText(text []byte) error {
	*k = Type_Kind(Type_Kind_value[kindPrefix+strings.ToUpper(string(text))])

	return nil
}

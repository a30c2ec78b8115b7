// Package signature verifies texts that were signed by `ssh-keygen -Y sign`.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/prelet/prelet/internal/model/texts"
)

// Verify returns an error unless one of keys has signed text. keys has a public key of OpenSSH on each line; empty
// lines and comments (#) are skipped. sig is the output of `ssh-keygen -Y sign -n NAMESPACE`.
func Verify(keys, text, sig []byte, namespace string) error {
	trusted, err := parseKeys(keys)
	if err != nil {
		return err
	}

	parsed, err := sshsig.Unarmor(sig)
	if err != nil {
		return fmt.Errorf("this is not a signature of ssh-keygen: %w", err)
	}

	fingerprint := ssh.FingerprintSHA256(parsed.PublicKey)
	isSigner := func(key ssh.PublicKey) bool {
		return ssh.FingerprintSHA256(key) == fingerprint
	}

	at := slices.IndexFunc(trusted, isSigner)
	switch {
	case at < 0:
		return fmt.Errorf("it was signed with the key %s, which is not one of the %d trusted keys",
			fingerprint, len(trusted))
	case parsed.Namespace != namespace:
		return fmt.Errorf("it was signed with -n %q; sign it with -n %s", parsed.Namespace, namespace)
	}

	err = sshsig.Verify(
		bytes.NewReader(text),
		parsed,
		trusted[at],
		parsed.HashAlgorithm,
		namespace,
	)
	if err != nil {
		return fmt.Errorf("the signature is not valid for this text, which may have been changed later: %w", err)
	}

	return nil
}

// SignerOf returns the public key of a signature, as a line of a .pub file, and its fingerprint.
func SignerOf(sig []byte) (key []byte, fingerprint string, err error) {
	parsed, err := sshsig.Unarmor(sig)
	if err != nil {
		return nil, "", fmt.Errorf("this is not a signature of ssh-keygen: %w", err)
	}

	return ssh.MarshalAuthorizedKey(parsed.PublicKey), ssh.FingerprintSHA256(parsed.PublicKey), nil
}

// parseKeys parses one public key a line. Options before a key are refused, because they would restrict its use, and
// nothing here would respect that.
func parseKeys(text []byte) ([]ssh.PublicKey, error) {
	var keys []ssh.PublicKey

	for number, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		switch {
		case texts.KindOf([]byte(line)) == "a private key":
			return nil, fmt.Errorf("line %d of the trusted keys begins a private key; write that of its .pub file, "+
				"and make a new pair: the private key must not be on nodes", number+1)
		case err != nil:
			return nil, fmt.Errorf("line %d of the trusted keys: %w; write the line of a .pub file", number+1, err)
		case len(options) > 0:
			return nil, fmt.Errorf("line %d of the trusted keys has the option %q; write a line without options",
				number+1, options[0])
		}
		if _, ok := key.(*ssh.Certificate); ok {
			return nil, fmt.Errorf("line %d of the trusted keys is a certificate; write the public key", number+1)
		}

		keys = append(keys, key)
	}

	if len(keys) == 0 {
		return nil, errors.New("there is no trusted key")
	}

	return keys, nil
}

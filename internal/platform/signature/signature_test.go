package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

const (
	namespace = "prelet-site"
	text      = "# counter: 3\n"
)

func newKey(t *testing.T, key crypto.Signer, err error) ssh.Signer {
	t.Helper()
	must(t, err)
	s, err := ssh.NewSignerFromSigner(key)
	must(t, err)

	return s
}

func newEd25519(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)

	return newKey(t, key, err)
}

func newRSA(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)

	return newKey(t, key, err)
}

func sign(t *testing.T, key ssh.Signer, namespace string) *sshsig.Signature {
	t.Helper()
	sig, err := sshsig.Sign(strings.NewReader(text), key, sshsig.HashSHA512, namespace)
	must(t, err)

	return sig
}

// public returns the lines of .pub files.
func public(keys ...ssh.Signer) string {
	var out strings.Builder
	for _, k := range keys {
		out.Write(ssh.MarshalAuthorizedKey(k.PublicKey()))
	}

	return out.String()
}

// TestVerifyKeys accepts each kind of key that ssh-keygen makes, and any key of the list.
func TestVerifyKeys(t *testing.T) {
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)

	for name, key := range map[string]ssh.Signer{
		"ed25519": newEd25519(t),
		"ecdsa":   newKey(t, ecKey, err),
		"rsa":     newRSA(t),
	} {
		t.Run(name, func(t *testing.T) {
			keys := "# the keys of our sites\n\n" + public(newEd25519(t), key)
			sig := sshsig.Armor(sign(t, key, namespace))

			if err := Verify([]byte(keys), []byte(text), sig, namespace); err != nil {
				t.Errorf("Verify: got %v, want no error", err)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	key, other, old := newEd25519(t), newEd25519(t), newRSA(t)
	valid := string(sshsig.Armor(sign(t, key, namespace)))
	forAnotherPurpose := string(sshsig.Armor(sign(t, key, "file")))

	certificate := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert}
	must(t, certificate.SignCert(rand.Reader, other))

	sha1 := sign(t, old, namespace)
	sha1.Signature.Format = ssh.KeyAlgoRSA

	// A signature of another key that names a trusted key as its own.
	forged := sign(t, other, namespace)
	forged.PublicKey = key.PublicKey()

	for name, test := range map[string]struct {
		keys, text, sig string
		want            string
	}{
		"another key":     {public(other), text, valid, "not one of the 1 trusted keys"},
		"forged":          {public(key), text, string(sshsig.Armor(forged)), "not valid for this text"},
		"changed text":    {public(key), text + "\n", valid, "not valid for this text"},
		"another purpose": {public(key), text, forAnotherPurpose, `signed with -n "file"`},
		"no signature":    {public(key), text, "nothing", "not a signature of ssh-keygen"},
		"cut":             {public(key), text, valid[:len(valid)/2], "not a signature of ssh-keygen"},
		"no key":          {"# none\n", text, valid, "there is no trusted key"},
		"not a key":       {"nothing", text, valid, "line 1 of the trusted keys"},
		"key, then junk":  {public(key) + "junk", text, valid, "line 2 of the trusted keys"},
		"options":         {"restrict " + public(key), text, valid, `option "restrict"`},
		"certificate":     {string(ssh.MarshalAuthorizedKey(certificate)), text, valid, "is a certificate"},
		"SHA-1":           {public(old), text, string(sshsig.Armor(sha1)), `invalid signature format "ssh-rsa"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Verify([]byte(test.keys), []byte(test.text), []byte(test.sig), namespace)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Verify: got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// FuzzVerify accepts no text but the signed one, whatever the signature is, and ends for any keys.
func FuzzVerify(f *testing.F) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	key, err := ssh.NewSignerFromSigner(private)
	must(f, err)

	sig, err := sshsig.Sign(strings.NewReader(text), key, sshsig.HashSHA256, namespace)
	must(f, err)
	f.Add([]byte(public(key)), []byte(text), sshsig.Armor(sig))
	f.Add([]byte("ssh-ed25519 AAAA"), []byte("# counter: 1"), []byte("-----BEGIN SSH SIGNATURE-----"))

	f.Fuzz(func(t *testing.T, keys, signed, sig []byte) {
		_ = Verify(keys, signed, sig, namespace)

		err := Verify([]byte(public(key)), signed, sig, namespace)
		if err == nil && string(signed) != text {
			t.Errorf("Verify: got no error for %q, want one: only %q was signed", signed, text)
		}
	})
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

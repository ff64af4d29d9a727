package destination

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// newSecret returns 256 random bits as 43 characters that fit in a URL and a form. The limit is 200
// bytes (WebSub §5.1).
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// signed reports whether one of the secrets made the signature, by the method that it names (WebSub
// §7.1.2). The comparison takes constant time.
func signed(signature string, body []byte, secrets []string) bool {
	method, digest, _ := strings.Cut(strings.TrimSpace(signature), "=")
	newHash := hashOf(strings.ToLower(method))
	want, err := hex.DecodeString(digest)
	if newHash == nil || err != nil {
		return false
	}
	ok := false
	for _, secret := range secrets {
		mac := hmac.New(newHash, []byte(secret))
		mac.Write(body)
		ok = hmac.Equal(mac.Sum(nil), want) || ok
	}
	return ok
}

// hashOf returns the hash of a method of WebSub §8.3; nil for others.
func hashOf(method string) func() hash.Hash {
	switch method {
	case "sha1":
		return sha1.New
	case "sha256":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	}
	return nil
}

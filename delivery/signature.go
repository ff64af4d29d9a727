package delivery

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // WebSub §7.1 lists it; the operator chooses
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
)

// signer makes the X-Hub-Signature of deliveries (WebSub §7.1).
type signer struct {
	method string
	hash   func() hash.Hash
}

// newSigner knows the methods of WebSub §7.1 by their names.
func newSigner(method string) (signer, error) {
	switch method {
	case "sha1":
		return signer{method, sha1.New}, nil
	case "sha256":
		return signer{method, sha256.New}, nil
	case "sha384":
		return signer{method, sha512.New384}, nil
	case "sha512":
		return signer{method, sha512.New}, nil
	}
	return signer{}, fmt.Errorf("field Signature is %q: it must be sha1, sha256, sha384 or sha512 (WebSub §7.1)", method)
}

// header returns the header's value: the method, and the HMAC over exactly the
// body with the secret as its key.
func (s signer) header(secret string, body []byte) string {
	mac := hmac.New(s.hash, []byte(secret))
	mac.Write(body)
	return s.method + "=" + hex.EncodeToString(mac.Sum(nil))
}

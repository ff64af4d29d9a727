package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Files of an authority's directory.
const (
	rootFile         = "root.pem"         // the certificate that clients trust
	intermediateFile = "intermediate.pem" // the certificate that signs for hosts, and its key
)

// authority signs the certificates of hosts. It is an intermediate certificate below a
// root, as on the web: a host sends its own certificate and the intermediate one.
type authority struct{ tls.Certificate }

// newAuthority makes a root and an intermediate certificate, and writes them to a directory.
func newAuthority(dir string) error {
	rootKey, err := newKey()
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	root, err := sign(template(1, "Bench Root"), template(1, "Bench Root"), rootKey, rootKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, rootFile), block("CERTIFICATE", root), 0o600); err != nil {
		return err
	}
	parent, err := x509.ParseCertificate(root)
	if err != nil {
		return err
	}
	der, err := sign(template(2, "Bench Intermediate"), parent, key, rootKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, intermediateFile), append(block("CERTIFICATE", der), block("PRIVATE KEY", private)...), 0o600)
}

// readAuthority reads the files that newAuthority wrote.
func readAuthority(dir string) (authority, error) {
	file := filepath.Join(dir, intermediateFile)
	cert, err := tls.LoadX509KeyPair(file, file)
	return authority{cert}, err
}

// host makes the certificate of the host with that address.
func (a authority) host(serial int, ip netip.Addr, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	t := template(serial, ip.String())
	t.IsCA, t.MaxPathLenZero, t.KeyUsage = false, false, x509.KeyUsageDigitalSignature
	t.ExtKeyUsage, t.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{ip.AsSlice()}
	der, err := sign(t, a.Leaf, key, a.PrivateKey.(*ecdsa.PrivateKey))
	return &tls.Certificate{Certificate: [][]byte{der, a.Certificate.Certificate[0]}, PrivateKey: key}, err
}

// template makes the unsigned certificate of an authority.
func template(serial int, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(int64(serial)), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

func sign(t, parent *x509.Certificate, of, by *ecdsa.PrivateKey) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, t, parent, of.Public(), by)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// Files of an authority's directory. As on the web, a host sends its own certificate and an
// intermediate one below the root.
const (
	rootFile         = "root.pem"         // the certificate that clients trust
	intermediateFile = "intermediate.pem" // the certificate that signs for hosts, and its key
)

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
	parent := template(1, "Bench Root")
	root, err := x509.CreateCertificate(rand.Reader, parent, parent, rootKey.Public(), rootKey)
	if err != nil {
		return err
	}
	unsigned := template(2, "Bench Intermediate")
	der, err := x509.CreateCertificate(rand.Reader, unsigned, parent, key.Public(), rootKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	both := append(block("CERTIFICATE", der), block("PRIVATE KEY", private)...)
	if err := os.WriteFile(filepath.Join(dir, intermediateFile), both, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, rootFile), block("CERTIFICATE", root), 0o600)
}

// certificatesOf makes the certificates of so many hosts. They share one key, to start sooner.
func certificatesOf(dir string, hosts int) (map[netip.Addr]*tls.Certificate, error) {
	file := filepath.Join(dir, intermediateFile)
	signer, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	made := make([]*tls.Certificate, hosts)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range made {
		group.Go(func() (err error) {
			made[i], err = certificate(signer, i, key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := make(map[netip.Addr]*tls.Certificate, len(made))
	for i, cert := range made {
		all[netip.MustParseAddr(hostIP(i))] = cert
	}
	return all, nil
}

// certificate makes the certificate of the i-th host.
func certificate(signer tls.Certificate, i int, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	t := template(i+1, fmt.Sprint("host ", i))
	t.IsCA, t.KeyUsage = false, x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses = []net.IP{net.ParseIP(hostIP(i))}
	der, err := x509.CreateCertificate(rand.Reader, t, signer.Leaf, key.Public(), signer.PrivateKey)
	return &tls.Certificate{Certificate: [][]byte{der, signer.Certificate[0]}, PrivateKey: key}, err
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

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

package program

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"carillon/internal/machine"
)

// TLS are the flags of a listener's certificate. Embed it in a struct of flags, with
//
//	embed:"" set:"listener=public listener"
//
// for the listener of --listen, and for any other with the prefix that is the name of
// its flag and a dash.
type TLS struct {
	Cert string `name:"tls-cert" placeholder:"FILE" help:"For https on the ${listener}: PEM file of its certificate and those above it. Changed files are taken without a restart." reload:""`
	Key  string `name:"tls-key" placeholder:"FILE" help:"PEM file of the key of the ${listener}'s certificate." reload:""`
}

const (
	// lookAtFilesEvery is how often handshakes look whether the files have changed.
	lookAtFilesEvery = 2 * time.Second
	// maxPEM bounds what is read of a file.
	maxPEM = 1 << 20
	// expiresSoon is when the operator is warned, or when a third of the
	// certificate's time is left if that is later.
	expiresSoon = 14 * 24 * time.Hour
)

// keeper has the certificate of a listener, and takes a new one when the files have
// changed. They are read together, at a handshake and once in lookAtFilesEvery at
// most. A mismatch, as of a certificate that was renewed before its key, is not used, and the
// files are read again. It follows symbolic links, however they
// are changed. While the new files are bad the old certificate is used.
type keeper struct {
	prefix  string // of the names of both flags
	files   atomic.Pointer[TLS]
	logger  *slog.Logger
	current atomic.Pointer[pair]
	problem atomic.Pointer[string] // why the files are not taken; nil: they are

	looking sync.Mutex // held by the one who looks
	looked  time.Time  // under looking
}

// pair is a certificate with its key.
type pair struct {
	tls.Certificate
	sum [sha256.Size]byte // of the files
}

// newKeeper reads the certificate of an endpoint; nil, nil: it has none. Its error names
// the flags.
func newKeeper(e Endpoint) (*keeper, error) {
	prefix := ""
	if e.Flag != "listen" {
		prefix = e.Flag + "-"
	}
	if (e.TLS == TLS{}) {
		return nil, nil
	}
	k := &keeper{prefix: "--" + prefix, logger: e.Logger, looked: time.Now()}
	first, err := k.readFrom(e.TLS)
	if err != nil {
		return nil, err
	}
	k.files.Store(&e.TLS)
	k.current.Store(first)
	if open, err := machine.OpenToOthers(e.TLS.Key); err == nil && open {
		k.logger.Warn(
			"every user of this machine can read the key of the certificate: take that right away (chmod o-r)",
			"file", e.TLS.Key,
		)
	}
	for _, warning := range k.warnings() {
		k.logger.Warn(warning)
	}
	return k, nil
}

// readFrom reads files that are to be taken. Its error names the flags.
func (k *keeper) readFrom(files TLS) (*pair, error) {
	cert, key := k.prefix+"tls-cert", k.prefix+"tls-key"
	switch {
	case files.Key == "":
		return nil, fmt.Errorf("%s is given without %s: both are needed, or none", cert, key)
	case files.Cert == "":
		return nil, fmt.Errorf("%s is given without %s: both are needed, or none", key, cert)
	}
	both, err := files.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.named(files), err)
	}
	return both, nil
}

// named names both flags with their files.
func (k *keeper) named(files TLS) string {
	return fmt.Sprintf("%stls-cert %s, %stls-key %s", k.prefix, files.Cert, k.prefix, files.Key)
}

// flags names both flags with the files in use.
func (k *keeper) flags() string { return k.named(*k.files.Load()) }

// renew reads files that are to take the place of those in use; they may be the same ones,
// or have other names. take does that, and is nil where nothing changes.
func (k *keeper) renew(files TLS) (take func(), err error) {
	fresh, err := k.readFrom(files)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.After(fresh.Leaf.NotAfter) && now.Before(k.current.Load().Leaf.NotAfter) {
		return nil, fmt.Errorf(
			"%s: the certificate expired at %s", k.named(files), fresh.Leaf.NotAfter.UTC().Format(time.RFC3339),
		)
	}
	if fresh.sum == k.current.Load().sum && files == *k.files.Load() {
		return nil, nil
	}
	return func() {
		k.looking.Lock()
		defer k.looking.Unlock()
		k.files.Store(&files)
		k.take(fresh)
	}, nil
}

// take takes a certificate into use. looking is held.
func (k *keeper) take(fresh *pair) {
	k.problem.Store(nil)
	k.current.Store(fresh)
	k.logger.Info("the certificate has changed", "files", k.flags(), "until", fresh.Leaf.NotAfter)
}

// listener speaks TLS on ln. HTTP/2 is not offered: see decision 23.
func (k *keeper) listener(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: k.get,
	})
}

func (k *keeper) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.look()
	return &k.current.Load().Certificate, nil
}

// look takes the files if they have changed, unless another goroutine does so or did a moment ago.
func (k *keeper) look() {
	if !k.looking.TryLock() {
		return
	}
	defer k.looking.Unlock()
	if time.Since(k.looked) < lookAtFilesEvery {
		return
	}
	k.looked = time.Now()
	old := k.current.Load()
	fresh, err := k.files.Load().read()
	switch now := time.Now(); {
	case err == nil && fresh.sum == old.sum:
		k.problem.Store(nil)
	case err == nil && now.After(fresh.Leaf.NotAfter) && now.Before(old.Leaf.NotAfter):
		k.refuse(fmt.Errorf("the certificate expired at %s", fresh.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	case err != nil:
		k.refuse(err)
	default:
		k.take(fresh)
	}
}

// refuse keeps the certificate there is, and says so once.
func (k *keeper) refuse(err error) {
	problem := err.Error()
	if told := k.problem.Swap(&problem); told == nil || *told != problem {
		k.logger.Warn("the files of the certificate have changed and cannot be taken; the one of before stays in use",
			"files", k.flags(), "until", k.current.Load().Leaf.NotAfter, "error", err)
	}
}

// warnings are what the operator must know, after a look at the files.
func (k *keeper) warnings() (all []string) {
	k.look()
	leaf := k.current.Load().Leaf
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if problem := k.problem.Load(); problem != nil {
		all = append(
			all,
			fmt.Sprintf(
				"%s: the files have changed and cannot be taken: %s. Mend them; the certificate of before is used until then, and is good until %s",
				k.flags(), *problem, until,
			),
		)
	}
	switch left := time.Until(leaf.NotAfter); {
	case left <= 0:
		all = append(
			all,
			fmt.Sprintf(
				"%s: the certificate expired at %s, and clients refuse it: put a new one into the files",
				k.flags(), until,
			),
		)
	case left < min(expiresSoon, leaf.NotAfter.Sub(leaf.NotBefore)/3):
		all = append(
			all, fmt.Sprintf("%s: the certificate expires at %s: put a new one into the files", k.flags(), until),
		)
	}
	return all
}

// warningsOfURL returns a warning if clients that use rawURL without a proxy in between will be
// refused, or refuse.
func (k *keeper) warningsOfURL(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil // who uses it says so
	}
	if !strings.EqualFold(u.Scheme, "https") {
		return []string{
			fmt.Sprintf(
				"%s: the listener speaks TLS, and --url %s does not: give it https://, unless a proxy before it speaks http",
				k.flags(), u.Redacted(),
			),
		}
	}
	if err := k.current.Load().Leaf.VerifyHostname(u.Hostname()); err != nil {
		return []string{
			fmt.Sprintf(
				"%s: the certificate is not for the host of --url, unless a proxy before it has another: %v",
				k.flags(), err,
			),
		}
	}
	return nil
}

// read reads both files.
func (files TLS) read() (*pair, error) {
	cert, err := readPEM(files.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(files.Key)
	if err != nil {
		return nil, err
	}
	both, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_ = binary.Write(sum, binary.BigEndian, int64(len(cert))) // a hash takes everything
	sum.Write(cert)
	sum.Write(key)
	return &pair{Certificate: both, sum: [sha256.Size]byte(sum.Sum(nil))}, nil
}

// readPEM reads a file that cannot hold up who reads it, as a pipe would.
func readPEM(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if len(text) > maxPEM {
		return nil, errors.Join(err, fmt.Errorf("%s is larger than %d bytes", name, maxPEM))
	}
	return text, err
}

// Trusting is for a client on the machine of a server whose certificate is in the
// file: it takes that one, whatever the address that it asks at. Any other must be one
// that the machine trusts.
func Trusting(file string) (*tls.Config, error) {
	text, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, errors.New("there is no certificate in it")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return nil
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(
				x509.VerifyOptions{DNSName: state.ServerName, Intermediates: between},
			)
			if err != nil {
				return fmt.Errorf("it has another certificate than %s: %w", file, err)
			}
			return nil
		},
	}, nil
}

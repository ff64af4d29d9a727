package main

import (
	"fmt"
	"strings"

	"carillon/cmd/internal/program"
	"carillon/delivery/send"
)

// hostSignature is the method of signatures for the callbacks of one host.
type hostSignature struct {
	host   program.HostName
	method string
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *hostSignature) UnmarshalText(text []byte) error {
	host, method, _ := strings.Cut(string(text), "=")
	if err := s.host.UnmarshalText([]byte(host)); err != nil {
		return err
	}
	if err := send.CheckSignature(method); err != nil {
		return fmt.Errorf("%q: the method for a host must be sha1, sha256, sha384 or sha512, as in hub.example.org=sha1", text)
	}
	s.method = method
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s hostSignature) MarshalText() ([]byte, error) {
	return []byte(string(s.host) + "=" + s.method), nil
}

// signatureFor returns the methods by host. A host that is given twice has the last one.
func (f *serveCommand) signatureFor() map[string]string {
	methods := make(map[string]string, len(f.SignatureFor))
	for _, s := range f.SignatureFor {
		methods[string(s.host)] = s.method
	}
	return methods
}

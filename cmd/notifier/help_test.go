package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The help is whole: nothing in it stands for a text that was to be put in its place.
func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if status := run(
		context.Background(), []string{"--help"}, &out, &out,
	); status != 0 || !strings.Contains(out.String(), "--tls-cert") || strings.Contains(out.String(), "${") {
		t.Errorf("status %d:\n%s", status, &out)
	}
}

package payload_test

import (
	"testing"

	"carillon/payload"
)

func TestDescribed(t *testing.T) {
	for _, tt := range []struct {
		capability   string
		index        bool
		name, clause string
	}{
		{payload.CapResourceList, false, "Resource List", "core 10.1"},
		{payload.CapResourceList, true, "Resource List Index", "core 10.2"},
		{payload.CapChangeDumpManifest, false, "Change Dump Manifest", "core 13.2"},
		{payload.CapChangeListArchive, true, "Change List Archive Index", "archives 3.1"},
		{payload.ChangeNotification, false, "change notification", "CN 3"},
		{"calendar", false, "", "core 7"},
	} {
		name, clause := payload.DocumentName(tt.capability, tt.index), payload.PlainClause(payload.ClauseOf(tt.capability, tt.index))
		if name != tt.name || clause != tt.clause {
			t.Errorf("%s: %q, %q", tt.capability, name, clause)
		}
	}
}

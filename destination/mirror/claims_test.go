package mirror_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"carillon/destination/mirror"
	"carillon/store/pebblestore"
)

// claimed is a path that a resource has, or gets.
type claimed struct{ at, claim string }

// claiming gives out paths beside a Catalog.
type claiming struct {
	*mirror.Claims
	t       *rapid.T
	catalog mirror.Catalog
	saved   map[string]claimed // by loc
	flying  map[string]claimed // by loc: given, and not settled
}

// give claims a path, and checks that no other resource has it or is in its way.
func (c *claiming) give(loc string) {
	at, claim, err := c.Give(c.t.Context(), loc)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, all := range []map[string]claimed{c.saved, c.flying} {
		for other, has := range all {
			if loc == other {
				continue
			}
			if claim == has.claim || strings.HasPrefix(claim, has.claim+"/") ||
				strings.HasPrefix(has.claim, claim+"/") {
				c.t.Fatalf("%s gets %q, and %s has %q", loc, claim, other, has.claim)
			}
		}
	}
	c.flying[loc] = claimed{at, claim}
}

// settle ends a claim, of a copy that was saved or was not.
func (c *claiming) settle(loc string, save bool) {
	has := c.flying[loc]
	if save {
		copies := []mirror.Copy{{Loc: loc, Path: has.at, State: mirror.Whole}}
		if err := c.catalog.Save(c.t.Context(), copies, nil); err != nil {
			c.t.Fatal(err)
		}
		c.saved[loc] = has
	}
	c.Settle(has.claim)
	delete(c.flying, loc)
}

func (c *claiming) forget(loc string) {
	if err := c.catalog.Save(c.t.Context(), nil, []string{loc}); err != nil {
		c.t.Fatal(err)
	}
	delete(c.saved, loc)
}

// Two resources never have one file, and none has a file where another needs a directory: whatever
// was saved, was not, or was forgotten meanwhile, and whatever is known of directories.
func TestClaimsAreGivenOnce(t *testing.T) {
	uris := []string{
		"/a", "/A", "/a/b", "/a/B", "/a/b/c", "/a/b/c/d", "/a/b/C", "/x/a", "/x", "/x/a/b", "/X/A",
	}
	rapid.Check(t, func(rt *rapid.T) {
		store, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "store", FS: vfs.NewMem()})
		if err != nil {
			rt.Fatal(err)
		}
		defer store.Close()
		c := &claiming{
			Claims: mirror.NewClaims(store.Mirrored()), t: rt, catalog: store.Mirrored(),
			saved: map[string]claimed{}, flying: map[string]claimed{},
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			loc := "http://h.example" + rapid.SampledFrom(uris).Draw(rt, "uri")
			_, saved := c.saved[loc]
			_, flying := c.flying[loc]
			switch {
			case flying:
				c.settle(loc, rapid.Bool().Draw(rt, "save"))
			case saved:
				c.forget(loc)
			default:
				c.give(loc)
			}
			if rapid.IntRange(0, 9).Draw(rt, "full") == 0 {
				c.Forget()
			}
		}
	})
}

// The memory for directories is bounded in bytes: a Source chooses how long paths are.
func TestClaimsAreBounded(t *testing.T) {
	store, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := mirror.NewClaims(store.Mirrored())
	long, most := strings.Repeat("/"+strings.Repeat("d", 190), 7), 0
	for i := range 20_000 {
		dir := ""
		if i%2 == 0 {
			dir = fmt.Sprintf("/%d", i)
		}
		_, claim, err := c.Give(t.Context(), fmt.Sprintf("http://h.example%s%s/%d", long, dir, i))
		if err != nil {
			t.Fatal(err)
		}
		c.Settle(claim)
		if i%500 == 499 {
			most = max(most, c.Bytes())
		}
	}
	if most > 17<<20 {
		t.Errorf("%d bytes are kept", most)
	}
}

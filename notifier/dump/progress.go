package dump

import (
	"sync"
)

// Progress is how far the making of a dump has come.
type Progress struct {
	// Entries of Total are packed, with Bytes of Content; the latter is as the set has it, 0 where
	// that has no lengths.
	Entries int   `json:"entries"`
	Total   int   `json:"total"`
	Bytes   int64 `json:"bytes"`
	Content int64 `json:"content,omitempty"`
	// Packages are finished, LeftOut resources have no content.
	Packages int `json:"packages"`
	LeftOut  int `json:"left_out,omitempty"`
	// Packed are the bytes of the finished packages.
	Packed int64 `json:"packed"`
	// Earlier: this is a dump that was begun before the request. The dump that was asked for
	// follows.
	Earlier bool `json:"earlier,omitempty"`
}

// progress returns the Progress of a set's dumps.
type progress struct {
	mu   sync.Mutex
	kind Kind     // guarded by mu; empty: nothing is being made
	now  Progress // guarded by mu
}

func (p *progress) begin(kind Kind, total int, content int64, g *generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind = kind
	p.now = Progress{Total: total, Content: content, Entries: g.Entries(), LeftOut: g.LeftOutTotal()}
	for i := range g.Packages {
		p.now.Packages++
		p.now.Packed += g.Packages[i].Bytes
		p.now.Bytes += g.Packages[i].Content
	}
}

func (p *progress) entry(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Entries++
	p.now.Bytes += bytes
}

func (p *progress) leftOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.LeftOut++
}

func (p *progress) finished(done zipFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Packages++
	p.now.Packed += done.Bytes
}

// end returns how far it has come.
func (p *progress) end() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind = ""
	return p.now
}

// look returns how far it has come; false: nothing is being made.
func (p *progress) look() (Progress, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.kind != ""
}

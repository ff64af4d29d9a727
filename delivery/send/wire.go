package send

import (
	"fmt"
	"strings"
	"sync"

	"carillon/delivery"
	"carillon/internal/h1"
	"carillon/subscription"
)

// maxSignatures bounds the signatures that are kept with one notification, some 200
// bytes each: those that came first. Secrets beyond are signed with anew each time.
const maxSignatures = 128

// Wire is what the deliveries of one notification have in common, made by the
// HTTPSender at its first delivery and held for as long as the notification is.
type Wire struct {
	mu         sync.Mutex        // guards everything below
	message    *h1.Message       // the body and the fields that are the same for all
	err        error             // the reason for its absence
	signatures map[signed][]byte // lines, never changed
}

// signed is what signatures of one body differ by.
type signed struct {
	by     *signer
	secret subscription.Secret
}

// of returns the message of the attempt's notification, and the line of its signature
// if that is known.
func (w *Wire) of(
	h *headers, n *delivery.Notification, key signed, shared bool,
) (message *h1.Message, line []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.message == nil && w.err == nil {
		w.message, w.err = h1.NewMessage(n.Body, h.fields(n)...)
	}
	if shared {
		line = w.signatures[key]
	}
	return w.message, line, w.err
}

// headers is what all deliveries of a hub say (WebSub §7).
type headers struct{ userAgent, hubLink string }

// fields are the header fields that all subscribers get.
func (h *headers) fields(n *delivery.Notification) []h1.Field {
	fields := []h1.Field{
		{Name: "User-Agent", Value: h.userAgent},
		{Name: "Link", Value: h.links(n)},
		{Name: "X-Hub-Notification-Id", Value: n.ID.String()},
	}
	if n.ContentType != "" {
		fields = append(fields, h1.Field{Name: "Content-Type", Value: n.ContentType})
	}
	return fields
}

// keep keeps the line of a signature for others with the same secret and method. Some may compute the
// same at the same time: so none waits for a large body.
func (w *Wire) keep(key signed, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.signatures) >= maxSignatures {
		return
	}
	if w.signatures == nil {
		w.signatures = map[signed][]byte{}
	}
	w.signatures[key] = append([]byte(nil), line...)
}

// appendSignature appends the line X-Hub-Signature (WebSub §7.1).
func appendSignature(b []byte, key signed, body []byte) []byte {
	b = append(b, "X-Hub-Signature: "...)
	b = key.by.append(b, string(key.secret), body)
	return append(b, "\r\n"...)
}

// links is the value of the one Link header (WebSub §7). Some subscribers look
// at the first values only, so the hub and the topic lead.
func (h *headers) links(n *delivery.Notification) string {
	var b strings.Builder
	b.WriteString(h.hubLink)
	b.WriteString(", <")
	b.WriteString(linkTarget(n.Topic.String()))
	b.WriteString(`>; rel="self"`)
	for _, l := range n.Links {
		b.WriteString(", ")
		b.WriteString(l)
	}
	return b.String()
}

// linkTarget percent-encodes the characters that would end a link before its bracket, or the header.
// No URL holds them, but a faulty check must not let one add links of its own.
func linkTarget(topic string) string {
	ends := func(c byte) bool { return c <= ' ' || c == 0x7f || c == '<' || c == '>' || c == '"' }
	var b strings.Builder
	for i := 0; i < len(topic); i++ {
		if c := topic[i]; ends(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

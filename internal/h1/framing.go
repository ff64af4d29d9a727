package h1

// recordHeader is how long the header of a TLS record is (RFC 8446 §5.1). Its last two bytes
// hold the length of what follows.
const recordHeader = 5

// framing follows where the TLS records end in what is read from a socket. crypto/tls keeps
// an incomplete record to itself, but an idle connection that holds one is not quiet.
type framing struct {
	header [recordHeader]byte
	n      int // bytes of the header, while it is incomplete
	left   int // bytes that are missing of the record
}

// pass notes that bytes were read.
func (f *framing) pass(b []byte) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left -= n
			b = b[n:]
			continue
		}
		n := copy(f.header[f.n:], b)
		b = b[n:]
		if f.n += n; f.n == recordHeader {
			f.n, f.left = 0, int(f.header[3])<<8|int(f.header[4])
		}
	}
}

// between reports whether no record is incomplete.
func (f *framing) between() bool { return f.n == 0 && f.left == 0 }

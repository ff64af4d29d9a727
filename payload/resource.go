package payload

// AppendResource appends the url element of a resource of a Resource List (core
// §10.1), and a line end. Its Change and Path must be empty, and its Datetime is left out: Change
// and Datetime are of changes. The error is a *FieldError, and dst is returned as it was.
func AppendResource(dst []byte, e *Entry) ([]byte, error) {
	if e.Change != "" {
		return dst, &FieldError{
			Field:  "change",
			Reason: "must be empty: a Resource List has no changes (core §10.1)",
		}
	}
	if err := e.validate(ofResource); err != nil {
		return dst, err
	}
	return e.appendResource(dst), nil
}

// AppendBitstream appends the url element of a bitstream of a dump manifest, and a line end.
// Path says where the package holds it.
//
// With a Change it is of a Change Dump Manifest (core §13.2): Datetime is required, and a
// deleted resource has no Path. Without one it is of a Resource Dump Manifest (core §11.2):
// Datetime is left out. The error is a *FieldError, and dst is returned as it was.
func AppendBitstream(dst []byte, e *Entry) ([]byte, error) {
	if e.Change == "" {
		if err := e.validate(ofPackagedResource); err != nil {
			return dst, err
		}
		return e.appendResource(dst), nil
	}
	if err := e.validate(ofPackagedChange); err != nil {
		return dst, err
	}
	if err := e.validateDatetime(); err != nil {
		return dst, err
	}
	return e.append(dst), nil
}

// appendResource appends the url element of a resource that is valid.
func (e *Entry) appendResource(dst []byte) []byte {
	dst = appendNames(append(dst, "<url>\n"...), e.Loc, e.LastMod)
	if e.Hash != "" || e.Length != "" || e.Type != "" || e.Encoding != "" || e.Path != "" {
		dst = append(e.appendContent(append(dst, "<rs:md"...)), "/>\n"...)
	}
	for i := range e.Links {
		dst = appendLink(dst, &e.Links[i])
	}
	return append(dst, "</url>\n"...)
}

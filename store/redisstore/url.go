package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// DefaultPrefix begins the names of all keys where the URL gives no other.
const DefaultPrefix = "carillon"

const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
	maxDatabase         = 1<<31 - 1
)

// maxReplicas bounds replicas= of the URL, and Config.Replicas.
const maxReplicas = 100

// kind is how servers are arranged.
type kind int

const (
	single   kind = iota // one server
	sentinel             // a primary and its replicas, which Sentinel names
	cluster              // several primaries
)

// URL says which Redis holds a store, and how it is reached.
type URL struct {
	kind     kind
	socket   string   // of one server on this machine; "": TCP
	addrs    []string // host:port, of the Sentinels where there are
	master   string   // as the Sentinels name it
	database int

	user, password                 string
	sentinelUser, sentinelPassword string

	tls      *tls.Config // nil: plain
	prefix   string
	replicas int

	redacted string
}

// schemes says what each scheme of a URL means.
var schemes = map[string]struct {
	kind kind
	tls  bool
}{
	"redis":           {single, false},
	"rediss":          {single, true},
	"unix":            {single, false},
	"redis+sentinel":  {sentinel, false},
	"rediss+sentinel": {sentinel, true},
	"redis+cluster":   {cluster, false},
	"rediss+cluster":  {cluster, true},
}

// IsURL reports whether text has one of the schemes that ParseURL knows.
func IsURL(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	_, known := schemes[scheme]
	return found && known
}

// ParseURL reads the URL of a store:
//
//	redis://USER:PASSWORD@HOST:PORT/DATABASE
//	redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTERNAME/DATABASE
//	redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT
//	unix://USER:PASSWORD@/PATH/OF/SOCKET
//
// Everything but a host, or the path of the socket, and the name of the master may be
// left out. With rediss in the place of redis the servers, and the
// Sentinels, are reached by TLS, and their certificates verified. Special characters of users and
// passwords are percent-encoded. The parameters are
//
//	prefix=NAME     begins the names of all keys, default "carillon": letters,
//	                digits, and . _ -
//	replicas=N      a change counts as made when N replicas have it, too
//	ca=FILE         certificates (PEM) that verify the servers', in place of the system's
//	cert=FILE       this client's certificate, and
//	key=FILE        its key (PEM)
//	server-name=X   the name that the servers' certificates must have, in place of
//	                the host that is dialed
//	db=N            the database, with unix
//	sentinel-user=, sentinel-password=   who asks the Sentinels
//
// No error of it contains a part of a password.
func ParseURL(text string) (*URL, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("the store's URL: %w", err)
	}
	return u, nil
}

func parseURL(text string) (*URL, error) {
	name, rest, found := strings.Cut(text, "://")
	scheme, known := schemes[name]
	if !found || !known {
		return nil, errors.New("it begins with none of redis://, rediss://, unix://, " +
			"redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	// The part behind an unencoded / or ? may belong to a password. It must not be taken for a path or a
	// parameter, and printed.
	if strings.Contains(path, "@") || strings.Contains(query, "@") {
		return nil, errors.New("user and password must have / ? @ and other special characters percent-encoded")
	}
	u := &URL{kind: scheme.kind, prefix: DefaultPrefix}
	if scheme.tls {
		u.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	hosts, err := u.credentials(authority)
	if err != nil {
		return nil, err
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("its parameters are not well-formed")
	}
	if name == "unix" {
		err = u.unix(hosts, path)
	} else {
		err = errors.Join(u.hosts(hosts), u.path(path))
	}
	if err != nil {
		return nil, err
	}
	if err := u.parameters(parameters); err != nil {
		return nil, err
	}
	u.redacted = u.redact(name, hosts, path, parameters)
	return u, nil
}

// credentials takes user and password off the front of the authority.
func (u *URL) credentials(authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	u.user, err = url.PathUnescape(user)
	if err == nil {
		u.password, err = url.PathUnescape(password)
	}
	switch {
	case err != nil:
		return "", errors.New("user or password is not well percent-encoded")
	case u.user != "" && u.password == "":
		return "", errors.New("there is a user without a password")
	}
	return authority[at+1:], nil
}

func (u *URL) hosts(hosts string) error {
	port := defaultPort
	if u.kind == sentinel {
		port = defaultSentinelPort
	}
	list := strings.Split(hosts, ",")
	if u.kind == single && len(list) > 1 {
		return errors.New("several hosts need redis+sentinel:// or redis+cluster://")
	}
	for _, host := range list {
		addr, err := hostPort(host, port)
		if err != nil {
			return err
		}
		u.addrs = append(u.addrs, addr)
	}
	return nil
}

// hostPort checks a host and gives it the port if it has none. Its errors leave out the given text, as
// that may be a password in the wrong place.
func hostPort(host, port string) (string, error) {
	name, number, err := net.SplitHostPort(host)
	if err != nil {
		name, number = strings.Trim(host, "[]"), port
		if strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return "", errors.New("a host is not of the form HOST or HOST:PORT")
		}
	}
	if name == "" || strings.ContainsAny(name, " %") {
		return "", errors.New("a host has no name")
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port of a host is no number between 1 and 65535")
	}
	return net.JoinHostPort(name, number), nil
}

// path reads what stands between the hosts and the parameters.
func (u *URL) path(path string) error {
	path = strings.TrimSuffix(path, "/")
	switch u.kind {
	case cluster:
		if path != "" && path != "0" {
			return errors.New("a Cluster has no database but 0, and the path of its URL is empty")
		}
		return nil
	case sentinel:
		name, database, _ := strings.Cut(path, "/")
		master, err := url.PathUnescape(name)
		if err != nil || master == "" {
			return errors.New(
				"the path must be /MASTERNAME or /MASTERNAME/DATABASE, with the name that the Sentinels know",
			)
		}
		u.master = master
		return u.setDatabase(database)
	default:
		return u.setDatabase(path)
	}
}

func (u *URL) setDatabase(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > maxDatabase {
		return errors.New("the database is no number")
	}
	u.database = int(n)
	return nil
}

func (u *URL) unix(hosts, path string) error {
	if hosts != "" || path == "" {
		return errors.New("unix:// takes the path of a socket and no host: unix:///run/redis.sock")
	}
	socket, err := url.PathUnescape("/" + path)
	if err != nil {
		return errors.New("the path of the socket is not well percent-encoded")
	}
	u.socket, u.addrs = socket, []string{socket}
	return nil
}

var prefixes = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (u *URL) parameters(parameters url.Values) error {
	files := make(map[string]string)
	for name, values := range parameters {
		if len(values) > 1 {
			return fmt.Errorf("the parameter %q is given twice", name)
		}
		value := values[0]
		switch {
		case name == "prefix":
			if !prefixes.MatchString(value) {
				return errors.New("prefix must be 1 to 64 letters, digits, and . _ -")
			}
			u.prefix = value
		case name == "db" && u.socket != "":
			if err := u.setDatabase(value); err != nil {
				return err
			}
		case name == "replicas":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil || n > maxReplicas {
				return fmt.Errorf("replicas must be a number up to %d", maxReplicas)
			}
			if n > 0 && u.kind == cluster {
				return errors.New("replicas cannot be waited for with a Cluster")
			}
			u.replicas = int(n)
		case name == "sentinel-user" && u.kind == sentinel:
			u.sentinelUser = value
		case name == "sentinel-password" && u.kind == sentinel:
			u.sentinelPassword = value
		case name == "ca" || name == "cert" || name == "key" || name == "server-name":
			if u.tls == nil {
				return fmt.Errorf("%s is for TLS: the URL must begin with rediss", name)
			}
			files[name] = value
		default:
			return fmt.Errorf("the parameter %q is not known here", name)
		}
	}
	if u.sentinelUser != "" && u.sentinelPassword == "" {
		return errors.New("there is a sentinel-user without a sentinel-password")
	}
	if u.tls == nil {
		return nil
	}
	return u.trust(files)
}

// trust reads the files that TLS needs.
func (u *URL) trust(files map[string]string) error {
	u.tls.ServerName = files["server-name"]
	if ca := files["ca"]; ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		u.tls.RootCAs = x509.NewCertPool()
		if !u.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: there is no certificate in %s", ca)
		}
	}
	if (files["cert"] == "") != (files["key"] == "") {
		return errors.New("cert and key go together")
	}
	if files["cert"] == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(files["cert"], files["key"])
	if err != nil {
		return fmt.Errorf("cert and key: %w", err)
	}
	u.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// hidden stands for a password where a URL is shown.
const hidden = "xxxxx"

func (u *URL) redact(scheme, hosts, path string, parameters url.Values) string {
	var b strings.Builder
	b.WriteString(scheme + "://")
	if u.password != "" {
		b.WriteString(url.PathEscape(u.user) + ":" + hidden + "@")
	}
	b.WriteString(hosts)
	if path != "" {
		b.WriteString("/" + path)
	}
	if parameters.Has("sentinel-password") {
		parameters.Set("sentinel-password", hidden)
	}
	if len(parameters) > 0 {
		b.WriteString("?" + parameters.Encode())
	}
	return b.String()
}

// Redacted is the URL for logs: as it was given, but for the passwords.
func (u *URL) Redacted() string { return u.redacted }

// String is Redacted, so that no password is shown by accident.
func (u *URL) String() string { return u.redacted }

// GoString is Redacted, so that no password is shown by accident.
func (u *URL) GoString() string { return u.redacted }

// MarshalText is Redacted, for logs in JSON.
func (u *URL) MarshalText() ([]byte, error) { return []byte(u.redacted), nil }

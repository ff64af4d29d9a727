package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrForbidden: the address is one that may not be dialed. It comes wrapped in
// what net and clients return, so errors.Is finds it in the error of a request.
var ErrForbidden = errors.New("forbidden address")

// ErrPort: the port is one that no connection is made to. It comes with ErrForbidden.
var ErrPort = errors.New("forbidden port")

// PortRange is a range of ports, both ends in it.
type PortRange struct{ First, Last uint16 }

// ParsePortRange reads "8443" or "8000-8099".
func ParsePortRange(s string) (PortRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	if !validPort(first) || !validPort(last) {
		return PortRange{}, fmt.Errorf("%q is not a port from 1 to 65535, nor a range of them as in 8000-8099", s)
	}
	f, _ := strconv.ParseUint(first, 10, 16)
	l, _ := strconv.ParseUint(last, 10, 16)
	if f > l {
		return PortRange{}, fmt.Errorf("the range of ports %q begins behind its end", s)
	}
	return PortRange{uint16(f), uint16(l)}, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// UnmarshalText is ParsePortRange, for flags and files.
func (r *PortRange) UnmarshalText(text []byte) (err error) {
	*r, err = ParsePortRange(string(text))
	return err
}

// String writes the range as ParsePortRange reads it.
func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Contains reports whether the port is in the range.
func (r PortRange) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

// lowPorts are the ports up to 1023 that may be dialed: those of the two schemes. The
// others belong to services that a POST could talk into something (mail, for example).
var lowPorts = []uint16{80, 443}

const maxLowPort = 1023

// servicePorts are the ports above 1023 that are not dialed: those that browsers never speak HTTP to
// (Fetch, "port blocking"), and those of databases, queues, control planes and the like, which take
// commands from any client, some of them by HTTP.
//
// Not here are the usual ports of web servers (3000, 4000, 5000, 8000-8999, 9000, 9443 and the like),
// whatever else may be there. Ports from 32768 on are missing too: machines give them out by
// themselves.
var servicePorts = []struct {
	PortRange
	service string
}{
	{PortRange{1080, 1080}, "SOCKS"},
	{PortRange{1099, 1099}, "Java RMI"},
	{PortRange{1433, 1434}, "SQL Server"},
	{PortRange{1521, 1521}, "Oracle"},
	{PortRange{1719, 1720}, "H.323"},
	{PortRange{1723, 1723}, "PPTP"},
	{PortRange{1883, 1883}, "MQTT"},
	{PortRange{2049, 2049}, "NFS"},
	{PortRange{2181, 2181}, "ZooKeeper"},
	{PortRange{2375, 2377}, "Docker"},
	{PortRange{2379, 2380}, "etcd"},
	{PortRange{3128, 3128}, "Squid"},
	{PortRange{3260, 3260}, "iSCSI"},
	{PortRange{3268, 3269}, "LDAP, global catalogue"},
	{PortRange{3306, 3306}, "MySQL"},
	{PortRange{3389, 3389}, "Remote Desktop"},
	{PortRange{3659, 3659}, "Apple SASL"},
	{PortRange{3690, 3690}, "Subversion"},
	{PortRange{4045, 4045}, "NFS lock manager"},
	{PortRange{4190, 4190}, "ManageSieve"},
	{PortRange{4222, 4222}, "NATS"},
	{PortRange{4369, 4369}, "Erlang port mapper"},
	{PortRange{4505, 4506}, "Salt"},
	{PortRange{4646, 4648}, "Nomad"},
	{PortRange{4730, 4730}, "Gearman"},
	{PortRange{5037, 5037}, "Android debug bridge"},
	{PortRange{5060, 5061}, "SIP"},
	{PortRange{5222, 5222}, "XMPP"},
	{PortRange{5269, 5269}, "XMPP, servers"},
	{PortRange{5432, 5433}, "PostgreSQL"},
	{PortRange{5555, 5555}, "Android debug bridge"},
	{PortRange{5671, 5672}, "AMQP"},
	{PortRange{5701, 5701}, "Hazelcast"},
	{PortRange{5900, 5903}, "VNC"},
	{PortRange{5984, 5986}, "CouchDB, Windows Remote Management"},
	{PortRange{6000, 6063}, "X11"},
	{PortRange{6379, 6380}, "Redis"},
	{PortRange{6432, 6432}, "PgBouncer"},
	{PortRange{6443, 6443}, "Kubernetes"},
	{PortRange{6566, 6566}, "SANE"},
	{PortRange{6665, 6669}, "IRC"},
	{PortRange{6697, 6697}, "IRC over TLS"},
	{PortRange{6789, 6789}, "Ceph"},
	{PortRange{7474, 7474}, "Neo4j"},
	{PortRange{7687, 7687}, "Neo4j Bolt"},
	{PortRange{7946, 7946}, "Docker Swarm"},
	{PortRange{9042, 9042}, "Cassandra"},
	{PortRange{9092, 9092}, "Kafka"},
	{PortRange{9100, 9100}, "printers"},
	{PortRange{9160, 9160}, "Cassandra Thrift"},
	{PortRange{9200, 9200}, "Elasticsearch"},
	{PortRange{9300, 9300}, "Elasticsearch, its nodes"},
	{PortRange{9418, 9418}, "Git"},
	{PortRange{10050, 10051}, "Zabbix"},
	{PortRange{10080, 10080}, "Amanda"},
	{PortRange{10248, 10259}, "Kubernetes, its nodes"},
	{PortRange{11211, 11211}, "memcached"},
	{PortRange{11300, 11300}, "beanstalkd"},
	{PortRange{15672, 15672}, "RabbitMQ management"},
	{PortRange{16379, 16379}, "Redis Cluster"},
	{PortRange{25672, 25672}, "RabbitMQ, its nodes"},
	{PortRange{26379, 26379}, "Redis Sentinel"},
	{PortRange{27017, 27019}, "MongoDB"},
}

// judgePort returns nil for a port that may be dialed; those that are allowed may.
func judgePort(port uint16, allowed []PortRange) error {
	for _, r := range allowed {
		if r.Contains(port) {
			return nil
		}
	}
	if port <= maxLowPort {
		for _, low := range lowPorts {
			if port == low {
				return nil
			}
		}
		return fmt.Errorf("%w: %w: %d is below 1024 and neither 80 nor 443", ErrForbidden, ErrPort, port)
	}
	for _, s := range servicePorts {
		if s.Contains(port) {
			return fmt.Errorf("%w: %w: %d belongs to another service (%s)", ErrForbidden, ErrPort, port, s.service)
		}
	}
	return nil
}

package egress

// Connect is what dials the addresses of a name.
var Connect = connect

// ServicePorts are the ports above 1023 that are not dialed.
func ServicePorts() []PortRange {
	var ports []PortRange
	for _, s := range servicePorts {
		ports = append(ports, s.PortRange)
	}
	return ports
}

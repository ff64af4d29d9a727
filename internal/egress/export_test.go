package egress

// Connect is what dials the addresses of a name.
var Connect = connect

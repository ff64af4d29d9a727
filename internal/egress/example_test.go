package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"carillon/internal/egress"
)

func ExampleDialer_CheckURL() {
	d, err := egress.New(egress.Config{AllowNets: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, callback := range []string{"https://example.com/callback", "http://10.1.2.3/callback", "http://10.2.2.3/callback", "example.com"} {
		err := d.CheckURL(callback)
		fmt.Println(callback, errors.Is(err, egress.ErrForbidden), err)
	}
	// Output:
	// https://example.com/callback false <nil>
	// http://10.1.2.3/callback false <nil>
	// http://10.2.2.3/callback true forbidden address: 10.2.2.3 is in a private or special network
	// example.com false bad URL: it must be an absolute URL with the scheme http or https
}

// Several Dialers share their knowledge of names. Each keeps its own rules.
func ExampleNames() {
	names, err := egress.NewNames(egress.NamesConfig{TTL: time.Minute}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, loopback := range []bool{true, false} {
		d, err := egress.New(egress.Config{AllowLoopback: loopback, Names: names})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = d.DialContext(context.Background(), "tcp", "localhost:1024")
		fmt.Println(errors.Is(err, egress.ErrForbidden))
	}
	// Output:
	// false
	// true
}

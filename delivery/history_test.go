package delivery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// The latest attempts are remembered with all that an operator asks of them, and those
// that failed stay though many others deliver.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, delivery.Config{RetryFirst: time.Minute}, s)
		sub := d.subscribe(e, "https://one.example/hook")
		s.setAnswer(func(_ context.Context, a *delivery.Attempt) delivery.Outcome {
			time.Sleep(20 * time.Millisecond)
			if a.Callback == sub.Callback && a.Notification.Seq == 1 && a.Number == 1 {
				return delivery.Outcome{Class: delivery.ClassRefused, Err: errors.New(`broken: "what a stranger said"`)}
			}
			if a.Callback == sub.Callback && a.Notification.Seq == 1 && a.Number == 2 {
				return broken
			}
			return delivered
		})
		d.publish("x")
		time.Sleep(time.Hour)
		for i := range 3000 {
			d.subscribe(e, fmt.Sprintf("https://other.example/%d", i))
		}
		for range 8 {
			d.publish("y")
			time.Sleep(time.Hour)
		}
		got := d.Attempts(sub.ID)
		if len(got) < 3 {
			t.Fatalf("%d attempts are remembered: %+v", len(got), got)
		}
		for i := 1; i < len(got); i++ {
			if got[i].At.After(got[i-1].At) {
				t.Errorf("%+v comes after %+v", got[i], got[i-1])
			}
		}
		last := got[0]
		last.At = time.Time{}
		equal(t, "the last", last, delivery.AttemptRecord{
			Took: 20 * time.Millisecond, Seq: 9, Number: 1, Class: delivery.ClassDelivered, Status: 200,
		})
		failed := slices.DeleteFunc(got, func(a delivery.AttemptRecord) bool { return a.Class == delivery.ClassDelivered })
		if len(failed) != 2 {
			t.Fatalf("failures went: %+v", failed)
		}
		equal(t, "status", failed[0].Status, 500)
		equal(t, "number", failed[0].Number, 2)
		equal(t, "class", failed[1].Class, delivery.ClassRefused)
		equal(t, "error", failed[1].Error, "broken: …")
	})
}

// Of many subscriptions in a busy hub most are still shown their last delivery.
func TestAttemptsOfABusyHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subscribers = 10_000
		e := newEngine()
		d := start(t, e, delivery.Config{}, &attempts{})
		var ids []subscription.ID
		for i := range subscribers {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%100, i))
			d.Activated(sub)
			ids = append(ids, sub.ID)
		}
		for range 2 {
			d.publish("x")
			synctest.Wait()
		}
		shown := 0
		for _, id := range ids {
			if len(d.Attempts(id)) > 0 {
				shown++
			}
		}
		if shown < subscribers*8/10 {
			t.Errorf("%d of %d are shown something", shown, subscribers)
		}
	})
}

// No text holds what a stranger chose: a certificate's names, what he answered.
func TestErrorText(t *testing.T) {
	verification := func(err error) error {
		return fmt.Errorf("TLS handshake: %w", &tls.CertificateVerificationError{Err: err})
	}
	for want, err := range map[string]error{
		"":                                    nil,
		"the certificate is for another name": verification(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"evil"}}, Host: "good"}),
		"the certificate is not valid":        verification(x509.CertificateInvalidError{Reason: x509.TooManyIntermediates, Detail: "evil"}),
		"the certificate has expired, or is not valid yet":  verification(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "evil"}),
		"the certificate is signed by an unknown authority": verification(x509.UnknownAuthorityError{}),
		"dial tcp: refused":           &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")},
		strings.Repeat("é", 60) + "…": errors.New(strings.Repeat("é", 100)),
	} {
		equal(t, "text", delivery.ErrorText(err), want)
	}
}

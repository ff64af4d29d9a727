package subscription_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/subscription"
)

func TestGrant(t *testing.T) {
	own := subscription.LeaseRules{Min: 10 * time.Second, Default: 20 * time.Second, Max: 30 * time.Second}
	for _, c := range []struct {
		name   string
		rules  subscription.LeaseRules
		wished time.Duration
		given  bool
		want   time.Duration
	}{
		{"no wish", subscription.LeaseRules{}, 0, false, 864_000 * time.Second},
		{"too short", subscription.LeaseRules{}, time.Second, true, 300 * time.Second},
		{"fits", subscription.LeaseRules{}, time.Hour, true, time.Hour},
		{"too long", subscription.LeaseRules{}, 1 << 62, true, 2_678_400 * time.Second},
		{"none at all", subscription.LeaseRules{}, 0, true, 300 * time.Second},
		{"negative", subscription.LeaseRules{}, -1, true, 300 * time.Second},
		{"not whole", own, 15*time.Second + 1, true, 15 * time.Second},
		{"own default", own, 25 * time.Second, false, 20 * time.Second},
		{"own minimum", own, 9 * time.Second, true, 10 * time.Second},
		{"own maximum", own, time.Hour, true, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rules.Grant(c.wished, c.given); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	type cfg = subscription.Config
	lease := func(l, d, m time.Duration) cfg {
		return cfg{Lease: subscription.LeaseRules{Min: l, Default: d, Max: m}}
	}
	for _, c := range []struct {
		name string
		cfg  cfg
		want string // in the error; empty: none
	}{
		{"zero", cfg{}, ""},
		{"small", cfg{Concurrency: 1}, ""},
		{"long retries", cfg{RetryFirst: time.Hour}, ""},
		{"shortest lease", lease(time.Second, time.Second, time.Second), ""},
		{"lease below a second", lease(time.Millisecond, 0, 0), "minimum lease"},
		{"lease not whole", lease(0, 301500*time.Millisecond, 0), "default lease"},
		{"negative lease", lease(0, 0, -time.Second), "maximum lease"},
		{"minimum over default", lease(time.Hour, time.Minute, 0), "minimum <= default <= maximum"},
		{"default over maximum", lease(0, time.Hour, time.Minute), "minimum <= default <= maximum"},
		{"Concurrency", cfg{Concurrency: -1}, "Concurrency"},
		{"PerHost", cfg{PerHost: -1}, "PerHost"},
		{"PerHost over Concurrency", cfg{Concurrency: 3, PerHost: 4}, "PerHost"},
		{"MaxPending", cfg{MaxPending: -1}, "MaxPending"},
		{"MaxPendingTopics", cfg{MaxPendingTopics: -1}, "MaxPendingTopics"},
		{"AskTimeout", cfg{AskTimeout: -1}, "AskTimeout"},
		{"Retries", cfg{Retries: -1}, "Retries"},
		{"too many Retries", cfg{Retries: 101}, "Retries"},
		{"RetryFirst", cfg{RetryFirst: -1}, "RetryFirst"},
		{"RetryMax", cfg{RetryMax: time.Second}, "RetryMax"},
		{"StoreTimeout", cfg{StoreTimeout: -1}, "StoreTimeout"},
		{"SweepInterval", cfg{SweepInterval: -1}, "SweepInterval"},
		{"SweepPortion", cfg{SweepPortion: -1}, "SweepPortion"},
		{"DrainTimeout", cfg{DrainTimeout: -1}, "DrainTimeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := subscription.NewService(c.cfg, newMemory(), &world{}, &world{}, newRoster(), nil, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

func TestMetricsRegisteredTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	for i := range 2 {
		_, err := subscription.NewService(subscription.Config{}, newMemory(), &world{}, &world{}, newRoster(), nil, reg)
		if (err != nil) != (i == 1) {
			t.Errorf("service %d: %v", i, err)
		}
	}
}

// Nothing that a stranger must not know reaches a log: not the secret, and not
// the address of the callback.
func TestLogsKeepSecrets(t *testing.T) {
	const capability = "http://destination.example/cap4bility?token=t0ken"
	var out bytes.Buffer
	logs := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	log := slog.New(logs)
	log.Info("x", "subscription", subscription.Subscription{Topic: topic, Callback: capability, Secret: "s3cret"})
	log.Info("x", "request", subscription.Request{Topic: topic, Callback: capability, Secret: "s3cret"})
	direct := out.String()

	inTown(t, func(t *testing.T, h *town) {
		h.log = logs
		h.only = []subscription.Shard{shardOf(capability)}
		h.confirm = hang
		h.run()
		h.submit(subscribe(capability, "s3cret"))
		pass(3 * time.Minute)
		h.confirm = nil
		h.submit(subscribe(capability, "s3cret"))
		pass(subscription.DefaultLease + time.Minute)
	})
	for _, secret := range []string{"s3cret", "cap4bility", "t0ken"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, out.String())
		}
	}
	for _, want := range []string{"destination.example", topic} {
		if strings.Count(direct, want) != 2 {
			t.Errorf("%q is missing in:\n%s", want, direct)
		}
	}
	for _, want := range []string{"did not answer", "activated", "expired"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

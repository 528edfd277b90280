package daemon

import (
	"log/slog"
	"strings"
	"testing"
)

// A panic while something new is built is an error of the change, and leaves its
// stack in the log.
func TestGuardTurnsPanicIntoError(t *testing.T) {
	var log strings.Builder
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	var empty []int
	err := d.guard(func() error {
		_ = empty[len(log.String())] // what a broken invariant looks like
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "index out of range") || !strings.Contains(log.String(), "guard_internal_test.go") {
		t.Errorf("error %v, log %s", err, &log)
	}
	if err := d.guard(func() error { return nil }); err != nil {
		t.Errorf("without a panic: %v", err)
	}
}

// Package leak is the test helper that fails a test which leaves goroutines or
// file descriptors behind.
package leak

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Check compares goroutines and descriptors at the end of the test with those
// at the call. It waits up to two seconds for goroutines that are on their way
// out. Not for parallel tests.
func Check(t testing.TB) {
	t.Helper()
	goroutines, fds := runtime.NumGoroutine(), openFDs()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		deadline := time.Now().Add(2 * time.Second)
		for runtime.NumGoroutine() > goroutines || openFDs() > fds {
			if time.Now().After(deadline) {
				t.Errorf("leak: %d goroutines and %d descriptors, was %d and %d\n%s",
					runtime.NumGoroutine(), openFDs(), goroutines, fds, stacks())
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	})
}

// openFDs counts the process's descriptors, or returns 0 where /proc is absent.
func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func stacks() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	return strings.TrimSpace(string(buf))
}

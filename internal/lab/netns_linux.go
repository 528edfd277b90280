package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 keeps named namespaces.
const netnsDir = "/run/netns"

// Do runs f on an OS thread that is inside the named namespace. Sockets that f
// opens stay in it; goroutines that f starts do not run in it. The error is that
// of f, or wraps os.ErrNotExist when there is no such namespace and
// os.ErrPermission when the process may not enter it.
func Do(namespace string, f func() error) error {
	return onThread(func() error {
		ns, err := unix.Open(filepath.Join(netnsDir, namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		err = unix.Setns(ns, unix.CLONE_NEWNET)
		unix.Close(ns)
		if err != nil {
			return fmt.Errorf("namespace %s: enter: %w", namespace, err)
		}
		return f()
	})
}

// Start starts cmd inside the named namespace; the caller waits for it.
func Start(namespace string, cmd *exec.Cmd) error {
	return Do(namespace, cmd.Start) // a child is in the namespace of the thread that forks it
}

// errExited is the error of a function that ended its goroutine, as a failing
// test does.
var errExited = errors.New("function did not return")

// onThread runs f on an OS thread of its own. When the thread cannot be brought
// back to the namespace that it came from it is left to die with its goroutine.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		err := errExited
		defer func() { done <- err }()
		runtime.LockOSThread()
		home, openErr := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if openErr != nil {
			runtime.UnlockOSThread()
			err = fmt.Errorf("own namespace: %w", openErr)
			return
		}
		defer func() {
			if unix.Setns(home, unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			unix.Close(home)
		}()
		err = f()
	}()
	return <-done
}

// createNamespace makes a named namespace; one that exists is an error that
// wraps os.ErrExist.
func createNamespace(name string) error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	path := filepath.Join(netnsDir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		// The bind mount is what keeps the namespace alive without a process in it.
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("namespace %s: create: %w", name, err)
	}
	return nil
}

// removeNamespace takes a namespace's name away; it ends when the last process
// and socket in it do. One that is not there is no error.
func removeNamespace(name string) error {
	path := filepath.Join(netnsDir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil &&
		!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("namespace %s: unmount: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

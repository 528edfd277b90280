//go:build unix

package main

import "syscall"

// ownSession makes a child outlive the terminal of its parent.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

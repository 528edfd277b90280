//go:build !unix

package main

import "syscall"

// ownSession has nothing to add where there are no sessions.
func ownSession() *syscall.SysProcAttr { return nil }
